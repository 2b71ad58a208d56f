"""Which running Holdfast a command asks by its admin service: `--data` or `--admin`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from holdfast.cli.data_option import data_option

Command = TypeVar("Command", bound=Callable[..., Any])


def admin_options(command: Command) -> Command:
    """`--data DIRECTORY` and `--admin HOST:PORT`."""
    admin = click.option(
        "--admin", metavar="HOST:PORT", help="The address of its admin service, instead of --data."
    )
    return data_option("The data directory of a Holdfast on this machine.")(admin(command))


def find_admin(data: Path, admin: str | None) -> str:
    """The address that the options name."""
    from holdfast.client.admin import find_address
    from holdfast.client.cluster import parse_bootstrap

    return find_address(data) if admin is None else str(parse_bootstrap(admin)[0])
