"""Steps of an example, for people: what is going on, then how long it took."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

console = Console()


@contextmanager
def step(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Shows that something is going on, then how long it took, or that it failed; yields what advances it."""
    begun = time.monotonic()
    columns = [SpinnerColumn(), TextColumn(what), *([BarColumn()] if total else []), TimeElapsedColumn()]
    try:
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task(what, total=total)
            yield lambda count: progress.advance(task, count)
    except BaseException:
        console.print(f"[red]✘[/] {what}")
        raise
    console.print(f"[green]✔[/] {what} [dim]{time.monotonic() - begun:.1f} s[/]")
