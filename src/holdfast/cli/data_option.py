"""The `--data` option of every command that works on a data directory."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

DATA_DEFAULT: Final = Path("holdfast-data")

Command = TypeVar("Command", bound=Callable[..., Any])


def data_option(told: str) -> Callable[[Command], Command]:
    """`--data DIRECTORY`, said to be what it is to this command."""
    return click.option(
        "--data",
        type=click.Path(file_okay=False, path_type=Path),
        default=DATA_DEFAULT,
        show_default=True,
        help=told,
    )
