"""What every benchmark ends with: build/bench/NAME.json, a table, and exit code 1 for a missed goal."""

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

FIGURES = Path(__file__).parents[1] / "build" / "bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured value beside its baseline of the same run; `goal` is the least ratio that will do."""

    name: str
    value: float
    unit: str
    baseline: float | None = None
    ratio: float | None = None
    goal: float | None = None

    @property
    def missed(self) -> bool:
        """Whether there is a goal and it was not reached."""
        return self.goal is not None and (self.ratio is None or self.ratio < self.goal)


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """How long one run takes."""
    start = clock()
    work()
    return clock() - start


def compare(
    baseline: Callable[[], object],
    subjects: dict[str, Callable[[], object]],
    *,
    rounds: int,
    amount: float,
    unit: str,
    goals: dict[str, float],
    warm_ups: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Figure]:
    """Rates of each subject and its ratio to the baseline: medians of rounds in which all take turns.

    A ratio is taken within its round, so that a machine that is busy for a while disturbs both sides; every other round
    goes the other way round, so that what one leaves behind does not always meet the same one. For work of one thread,
    `time.thread_time` gives figures per core, whatever else runs.
    """
    works = {"": baseline} | subjects
    turns = [list(works.items())[:: -1 if number % 2 else 1] for number in range(warm_ups + rounds)]
    times = [{name: seconds(work, clock) for name, work in turn} for turn in turns][warm_ups:]
    rates = {name: statistics.median(amount / turn[name] for turn in times) for name in works}
    return [
        Figure(
            name=name,
            value=round(rates[name], 2),
            unit=unit,
            baseline=round(rates[""], 2),
            ratio=round(statistics.median(turn[""] / turn[name] for turn in times), 2),
            goal=goals.get(name),
        )
        for name in subjects
    ]


def publish(bench: str, figures: Sequence[Figure], *, shown: Sequence[Figure] | None = None) -> int:
    """Write the figures and show them, or some of them; the exit code is 1 if a goal was missed."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    path = FIGURES / f"{bench}.json"
    path.write_text(json.dumps([asdict(figure) for figure in figures], indent=2) + "\n")
    table = Table(title=f"{bench}  ({path.relative_to(FIGURES.parents[1])})", title_justify="left")
    for heading in ("", "value", "baseline", "ratio", "goal"):
        table.add_column(heading, justify="left" if not heading else "right")
    for figure in figures if shown is None else shown:
        style = "red" if figure.missed else "green" if figure.goal is not None else None
        table.add_row(
            figure.name,
            f"{figure.value:g} {figure.unit}",
            "" if figure.baseline is None else f"{figure.baseline:g} {figure.unit}",
            "" if figure.ratio is None else f"{figure.ratio:.2f} x",
            "" if figure.goal is None else f"{figure.goal:g} x",
            style=style,
        )
    Console().print(table)
    return int(any(figure.missed for figure in figures))
