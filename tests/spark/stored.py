"""Readings of an engine inside a test, and what a task makes of them, without a Spark session."""

from typing import Any

from holdfast.client.readings import ReadingWanted
from holdfast.spark.held import HeldReading
from holdfast.spark.options import parse_options
from holdfast.spark.stored_plan import StoredRange, plan_stored
from holdfast.spark.stored_rows import decode_stored
from tests.keeper.engine import Engine, Row


def take(engine: Engine, *topics: str, **wanted: Any) -> HeldReading:
    """A reading, as the admin service would give it."""
    reading = engine.cluster.readings.take(ReadingWanted(topics=list(topics), **wanted))
    return HeldReading(reading=reading, hold=None)


def plan(held: HeldReading, topic: str = "t", **options: Any) -> list[StoredRange]:
    """The work of all tasks."""
    given = {name: str(value) for name, value in options.items()}
    return plan_stored(held, parse_options({"topic": topic, "snapshot": "-", **given}))


def read(held: HeldReading, topic: str = "t", **options: Any) -> list[Row]:
    """What the tasks read, one after the other."""
    return [
        (row["offset"], row["key"], row["value"])
        for work in plan(held, topic, **options)
        for table in decode_stored(work, ["offset", "key", "value"])
        for row in table.to_pylist()
    ]
