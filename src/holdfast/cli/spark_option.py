"""Where the Spark of a command runs: `--master`."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def master_option(default: str | None = "local[*]") -> Callable[[Command], Command]:
    """`--master URL`; `default` None is for a command that has a setting to ask."""
    return click.option(
        "--master",
        metavar="URL",
        default=default,
        show_default=default is not None,
        help="Where Spark runs: local[N], spark://HOST:PORT, yarn, k8s://..., or sc://HOST:PORT for Spark Connect.",
    )
