"""What a transaction costs: beside dual publish of the same messages, at every size, near and far.

`make bench-txn`. Dual publish sends half of the messages to one topic, flushes, sends the other half to another
topic, flushes; a transaction sends the same and commits. Both with confluent-kafka, against one Holdfast process,
directly and through a proxy that makes each round trip 1 or 4 ms longer; per-message transactions against
librdkafka's mock cluster as well, which keeps nothing and lives in the client's process: the client's own floor.
`python -m bench.txn goals` takes only the rows that have a goal, `... table` all but the size of the control plane.
"""

import re
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.load.aborted import aborted_bytes
from bench.load.delay import DelayProxy
from bench.load.endpoint import SECONDS_MAX, Endpoint
from bench.load.process import begin
from bench.load.transactions import PER_MESSAGE, Fleet
from bench.load.turns import Rates, ratio, take_turns
from bench.log import mock_cluster
from bench.report import FIGURES, Figure, publish
from bench.txn_plot import draw
from holdfast.client.admin import find_address
from tests.process import HoldfastProcess

SIZES = (PER_MESSAGE, 10, 64, 100, 1000)
PRODUCERS = (1, 8, 32)
DELAYS_MS = (0, 1, 4)
ROUNDS_NEAR, ROUNDS_FAR = 3, 1
GOAL_ROUNDS = 3
SECONDS_NEAR, SECONDS_FAR = 0.5, 1.0
ABORTED = 1_000_000
CHEAP = 0.95
"""The ratio to dual publish from which on a transaction costs less than 5 %."""
TRANSACTION_APIS = ("Produce", "AddPartitionsToTxn", "EndTxn")


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One place in the table."""

    delay_ms: int
    producers: int
    size: int

    def __str__(self) -> str:
        what = "per-message transactions" if self.size == PER_MESSAGE else f"transactions of {self.size}"
        who = "1 producer" if self.producers == 1 else f"{self.producers} producers"
        return f"{what}, {who}" + (f", {self.delay_ms} ms" if self.delay_ms else "")


def main() -> int:
    """The goals first, then the whole table, then the size of the control plane."""
    wanted = sys.argv[1:] or ["goals", "table", "size"]
    begin()
    cells: dict[Cell, Figure] = {}
    rest: list[Figure] = []
    with ExitStack() as undo:
        directory = undo.enter_context(tempfile.TemporaryDirectory(dir=FIGURES.parent))
        process = undo.enter_context(HoldfastProcess(Path(directory, "data")))
        ours = Endpoint(name="Holdfast", bootstrap=process.bootstrap)
        goals = _goals(ours, mock_cluster(undo))
        if "table" in wanted:
            rest += _round_trips(ours, process)
            for delay_ms in DELAYS_MS:
                cells |= _table(ours, process.port, delay_ms)
            rest += [_waits(cells), *_cheap_from(cells)]
        if "size" in wanted:
            size = aborted_bytes(Path(directory), ABORTED)
            name = f"control plane, {ABORTED:,} aborted transactions"
            rest.append(Figure(name=name, value=size / 1e6, unit="MB"))
    if cells:
        rates = {(c.delay_ms, c.producers, c.size): (f.value, f.baseline or 0.0) for c, f in cells.items()}
        plot = draw(FIGURES / "txn.svg", rates)
        Console().print(_matrix(cells))
        print(f"plot: {plot.relative_to(FIGURES.parents[1])}")
    return publish("txn", [*cells.values(), *rest, *goals], shown=[*rest, *goals])


def _matrix(cells: Mapping[Cell, Figure]) -> Table:
    """All cells: a row for each size and number of producers, three columns for each distance."""
    table = Table(title="messages/s in transactions, and ÷ dual publish", title_justify="left")
    table.add_column("producers", justify="right")
    table.add_column("size", justify="right")
    for delay_ms in DELAYS_MS:
        table.add_column(f"+{delay_ms} ms", justify="right")
        table.add_column("÷ dual", justify="right")
    for producers in PRODUCERS:
        for size in SIZES:
            found = [cells[Cell(delay_ms, producers, size)] for delay_ms in DELAYS_MS]
            rates = [text for each in found for text in (f"{each.value:,.0f}", f"{each.ratio:.2f}")]
            table.add_row(str(producers), str(size), *rates, end_section=size == max(SIZES))
    return table


def _goals(ours: Endpoint, mock: Endpoint) -> list[Figure]:
    """Per-message transactions beside two synchronous sends, beside the mock, and of many beside one."""
    fleets = {
        "dual": Fleet(ours, producers=1, transactional=False),
        "one": Fleet(ours, producers=1, transactional=True),
        "mock": Fleet(mock, producers=1, transactional=True),
        "many": Fleet(ours, producers=max(PRODUCERS), transactional=True),
    }
    works = {name: partial(fleet.run, size=PER_MESSAGE, seconds=1.5) for name, fleet in fleets.items()}
    rates = take_turns(works, rounds=GOAL_ROUNDS, warm_up_rounds=0)
    beside_dual = _compared("per message ÷ two synchronous sends", rates, "one", "dual")
    beside_mock = _compared("per message ÷ the mock cluster's", rates, "one", "mock")
    # Either will do: the goal stands at the one that comes nearer to it.
    assert beside_dual.ratio is not None
    assert beside_mock.ratio is not None
    if beside_dual.ratio / 0.6 >= beside_mock.ratio / 0.75:
        beside_dual = replace(beside_dual, goal=0.6)
    else:
        beside_mock = replace(beside_mock, goal=0.75)
    many = _compared(f"per message, {max(PRODUCERS)} producers ÷ one", rates, "many", "one")
    return [beside_dual, beside_mock, replace(many, goal=6.0)]


def _compared(name: str, rates: Rates, subject: str, baseline: str) -> Figure:
    found = ratio(rates[subject], rates[baseline])
    return Figure(
        name=name,
        value=round(found.value, 1),
        unit="messages/s",
        baseline=round(found.baseline, 1),
        ratio=round(found.ratio, 2),
    )


def _round_trips(ours: Endpoint, process: HoldfastProcess) -> list[Figure]:
    """Requests that the agent counted, per message; the baseline is dual publish's."""
    fleets = [Fleet(ours, producers=1, transactional=transactional) for transactional in (True, False)]
    figures = []
    for size in SIZES:
        per_message = []
        for fleet in fleets:
            before = _requests(process)
            messages = fleet.run(size=size, seconds=0.3) * fleet.last_seconds
            per_message.append((_requests(process) - before) / messages)
        figures.append(
            Figure(
                name=f"requests per message, size {size}",
                value=round(per_message[0], 4),
                unit="",
                baseline=round(per_message[1], 4),
                ratio=round(per_message[1] / per_message[0], 2),
            )
        )
    return figures


def _requests(process: HoldfastProcess) -> int:
    address = find_address(process.data)
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=SECONDS_MAX) as answer:
        text = answer.read().decode()
    counts = re.findall(r'^holdfast_requests_total\{api="(\w+)"\} (\d+)', text, re.MULTILINE)
    return sum(int(count) for api, count in counts if api in TRANSACTION_APIS)


def _table(ours: Endpoint, port: int, delay_ms: int) -> dict[Cell, Figure]:
    """All sizes and numbers of producers at one distance."""
    cells: dict[Cell, Figure] = {}
    with ExitStack() as undo:
        endpoint = ours
        if delay_ms:
            proxy = undo.enter_context(DelayProxy(port, delay_ms))
            endpoint = replace(ours, bootstrap=f"127.0.0.1:{proxy.port}")
        for producers in PRODUCERS:
            dual, transactions = (
                Fleet(endpoint, producers=producers, transactional=transactional)
                for transactional in (False, True)
            )
            seconds, rounds = (SECONDS_FAR, ROUNDS_FAR) if delay_ms else (SECONDS_NEAR, ROUNDS_NEAR)
            for size in SIZES:
                works = {
                    "dual": partial(dual.run, size=size, seconds=seconds),
                    "transactions": partial(transactions.run, size=size, seconds=seconds),
                }
                rates = take_turns(works, rounds=rounds, warm_up_rounds=0)
                cell = Cell(delay_ms, producers, size)
                cells[cell] = _compared(f"{cell} ÷ dual publish", rates, "transactions", "dual")
            print(f"{producers} producers, {delay_ms} ms: done", file=sys.stderr)
    return cells


def _waits(cells: Mapping[Cell, Figure]) -> Figure:
    """Round trips that one producer waits for one after the other: what the longest delay adds, over the delay."""
    near, far = (cells[Cell(delay_ms, 1, PER_MESSAGE)] for delay_ms in (0, max(DELAYS_MS)))
    assert near.baseline is not None
    assert far.baseline is not None

    def waits(near_rate: float, far_rate: float) -> float:
        return PER_MESSAGE * (1 / far_rate - 1 / near_rate) * 1000 / max(DELAYS_MS)

    return Figure(
        name="round trips in a row, beside dual publish's",
        value=round(waits(near.value, far.value), 1),
        unit="",
        baseline=round(waits(near.baseline, far.baseline), 1),
    )


def _cheap_from(cells: Mapping[Cell, Figure]) -> Iterator[Figure]:
    """The size from which on a transaction costs less than 5 %, for each distance and number of producers."""
    for delay_ms in DELAYS_MS:
        for producers in PRODUCERS:
            dear = [size for size in SIZES if (cells[Cell(delay_ms, producers, size)].ratio or 0.0) < CHEAP]
            cheap = [size for size in SIZES if not dear or size > max(dear)]
            name = f"less than 5 % from, {producers} at {delay_ms} ms" + ("" if cheap else " (beyond)")
            yield Figure(name=name, value=min(cheap, default=max(SIZES)), unit="messages")


if __name__ == "__main__":
    sys.exit(main())
