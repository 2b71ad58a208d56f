"""A log to compact: filled through the group commit, then served, and gone through by a keeper as in real life."""

import asyncio
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.load.batches import Form, make_batches
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.writes import AppendBatch
from holdfast.client.admin import Conversation, find_address
from holdfast.keeper.gateway import Ask, Gateway
from holdfast.keeper.limits import KeeperLimits
from holdfast.keeper.plan import plan
from holdfast.keeper.round import Round, RoundReport
from holdfast.keeper.work import WorkItem
from holdfast.records.batch import validate
from tests.keeper.engine import Engine
from tests.process import HoldfastProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WINDOW: Final = 64
"""Batches that are under way together: they share frames, and with them extents."""
SETTINGS: Final = "expire_seconds = 86400\n[keeper]\nround_seconds = 86400\nsettle_ms_max = 0\n"
"""No upkeep but ours."""
TOPIC: Final = "t"
WARM: Final = "warm"
COORDINATION: Final = frozenset({"lease", "release", "publish", "join"})
"""What keepers say to coordinate; the other questions ask what there is to do."""


def fill(
    data: Path,
    form: Form,
    *,
    records: int,
    keys: int,
    partitions: int = 1,
    nodes: int = 1,
    topic: str = TOPIC,
    **configs: str,
) -> None:
    """One compacted topic on all nodes; every partition has its share of the records and of the keys."""
    engine = Engine(data, nodes=nodes, limits=KeeperLimits(settle_ms_max=0))
    try:
        first = engine.create(topic, partitions, replicas=nodes, **configs)
        sources = [
            make_batches(form, records=records // partitions, keys=max(1, keys // partitions), seed=number)
            for number in range(partitions)
        ]
        in_turns = (
            (PartitionKey(first.topic_id, number), batch)
            for turn in zip_longest(*sources)
            for number, batch in enumerate(turn)
            if batch is not None
        )
        append(engine, in_turns)
    finally:
        engine.end()


def append(engine: Engine, batches: Iterable[tuple[PartitionKey, bytearray]]) -> None:
    """In order, a window at a time."""
    source = iter(batches)
    while window := list(islice(source, WINDOW)):
        writes = [
            AppendBatch(
                key,
                validate(memoryview(batch)),
                leader=engine.cluster.plane.find_partition(*key).leader,
                in_sync_min=1,
            )
            for key, batch in window
        ]

        async def submit(writes: list[AppendBatch] = writes) -> None:
            await asyncio.gather(*map(engine.cluster.commits.submit, writes))

        engine.call(submit)


@dataclass(slots=True)
class Talk:
    """What a keeper has asked, and how long it waited for answers."""

    ask: Ask
    messages: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)

    def __call__(self, question: str, about: dict[str, Any]) -> Any:
        """Ask, and count."""
        begun = time.perf_counter()
        try:
            return self.ask(question, about)
        finally:
            self.messages[question] += 1
            self.seconds[question] += time.perf_counter() - begun  # type: ignore[assignment]

    @property
    def coordination_seconds(self) -> float:
        """Of leases and publications; what there is to do is asked for besides."""
        return sum(seconds for question, seconds in self.seconds.items() if question in COORDINATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One round."""

    seconds: float
    report: RoundReport
    talk: Talk


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A log that `holdfast up` serves, and a keeper's way to it."""

    data: Path
    pid: int
    ask: Ask

    def count_records(self) -> int:
        """In all segments of the topic on the first store."""
        counted = "SELECT sum(records) FROM segments JOIN topics USING (topic) WHERE store = 1 AND name = ?"
        with sqlite3.connect(f"file:{self.data / 'control.db'}?mode=ro", uri=True, timeout=30) as db:
            return int(db.execute(counted, (TOPIC,)).fetchone()[0])


@contextmanager
def served(data: Path) -> Iterator[Served]:
    """For as long as it is looked at."""
    settings = data.with_suffix(".toml")
    settings.write_text(SETTINGS)
    with (
        HoldfastProcess(data, "--config", str(settings)) as process,
        Conversation(find_address(data), "/keeper") as desk,
    ):
        yield Served(
            data=data,
            pid=process.pid,
            ask=lambda question, about: desk.post({"question": question, **about}),
        )


def list_items(log: Served, store: int = 1) -> list[WorkItem]:
    """What a round would do on a store; nothing is done."""
    gateway = Gateway(log.ask, holder="bench")
    limits = gateway.find_limits()
    plans = (plan(view, limits) for view in gateway.list_views(store))
    return [planned.item for planned in plans if planned is not None]


def warm_up(log: Served, spark: "SparkSession", *, scale: float) -> None:
    """A round over the topic `warm` alone: the first publication of an agent takes twice as long as all others."""

    def ask(question: str, about: dict[str, Any]) -> Any:
        answer = log.ask(question, about)
        if question == "views":
            answer["views"] = [view for view in answer["views"] if view["topic"] == WARM]
        return answer

    assert run_round(ask, spark, scale=scale).report.rewrites


def run_round(ask: Ask, spark: "SparkSession", *, scale: float) -> Measured:
    """One round over all stores on Spark: plan, rewrite, publish, give space back.

    What is hot is scaled with the logs, so that a small try takes the same ways.
    """
    from holdfast.spark.rewrites import SparkRunner

    limits = KeeperLimits()
    runner = SparkRunner(spark, replace(limits, split_bytes_min=int(limits.split_bytes_min * scale)))
    talk = Talk(ask)
    begun = time.perf_counter()
    report = Round(Gateway(talk, holder="bench"), lambda size_bytes: runner).run()
    seconds = time.perf_counter() - begun
    assert (report.failed, report.refused, report.stores_skipped) == (0, 0, []), report
    return Measured(seconds=seconds, report=report, talk=talk)
