"""Which log a command reads as tables, and how: options of `format("holdfast")`, on the command line."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.cli.endpoint import endpoint_options
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.client.endpoint import Endpoint

Command = TypeVar("Command", bound=Callable[..., Any])

master_option = click.option(
    "--master", default="local[*]", show_default=True, metavar="URL", help="The Spark master to run on."
)

_OPTIONS = (
    endpoint_options,
    click.option(
        "--data",
        type=click.Path(file_okay=False, path_type=Path),
        help="The data directory of a Holdfast on this machine, instead of --bootstrap.",
    ),
    click.option("--admin", metavar="HOST:PORT", help="The address of its admin service, likewise."),
    click.option(
        "--replica", type=click.IntRange(1), metavar="N", help="Read store N.  [default: those that lead]"
    ),
    click.option(
        "--isolation",
        type=click.Choice(["read_committed", "read_uncommitted"]),
        default="read_committed",
        show_default=True,
        help="Whether to show what open and aborted transactions wrote.",
    ),
    click.option(
        "--through",
        type=click.Choice(["auto", "stores", "agent"]),
        default="auto",
        show_default=True,
        help="Read the stores' own files, or fetch through an agent.",
    ),
    master_option,
)


def table_options(command: Command) -> Command:
    """All of them; `to_options` makes options of a source of what they were given."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def to_options(
    *,
    endpoint: "Endpoint",
    data: Path | None,
    admin: str | None,
    replica: int | None,
    isolation: str,
    through: str,
) -> dict[str, str]:
    """As `format("holdfast")` takes them. Whoever names a Holdfast has no use for the default address."""
    from holdfast.spark.endpoint_options import tell_endpoint

    if through == "agent" and (data or admin):
        raise UsageError(
            "--data and --admin say where stores are: for --through agent name an agent, with --bootstrap"
        )

    given = {
        **({} if data or admin else tell_endpoint(endpoint)),
        "data": data and str(data.absolute()),
        "admin": admin,
        "replica": replica and str(replica),
        "isolation": isolation,
        "through": through,
    }
    return {name: value for name, value in given.items() if value}
