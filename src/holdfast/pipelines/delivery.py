"""The three ways in which a micro-batch reaches its topics and the audit topic; all else is the same for all."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.sql import DataFrame

from holdfast.pipelines.books import add_up, as_records, check_balance, keep_books
from holdfast.pipelines.config import WINDOW_MS, Mode, Pipeline
from holdfast.pipelines.counting import Noted, count_noted
from holdfast.pipelines.dual import DualSends
from holdfast.pipelines.frames import ingested, route
from holdfast.spark.aside import Added, Aside
from holdfast.spark.sink import Sink
from holdfast.spark.write_options import WriteOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What there is to tell of a batch that went out."""

    counted: Noted = field(default_factory=dict)
    """What was to be sent, by tenant, window and stage; nothing if an earlier attempt had sent it."""
    given_up: Mapping[str, int] = field(default_factory=dict)
    """By topic: messages that never got there, and never will. They are counted, too."""


class Delivery(Protocol):
    """Sends one micro-batch."""

    def __call__(self, identified: DataFrame, ended: DataFrame, batch_id: int) -> Delivered:
        """Returns when the batch is where it belongs; both are those of `frames`, before and after the transform."""
        ...


def delivery_of(pipeline: Pipeline) -> Delivery:
    """The one that the file chooses."""
    if pipeline.mode is Mode.DUAL:
        return DualDelivery(pipeline)
    return ExactDelivery(pipeline)


def service_id(pipeline: Pipeline) -> str:
    """The service's transactional id: two services of one name would fence each other off."""
    return f"holdfast.{pipeline.name}.service"


def adapter_id(pipeline: Pipeline, adapter: str) -> str:
    """An adapter's."""
    return f"holdfast.{pipeline.name}.adapter.{adapter}"


class ExactDelivery:
    """Modes adapter and transaction: one Kafka transaction for each micro-batch, so that all of it counts, or nothing.

    In mode adapter a qualified message goes to its own topic alone, and the adapter forwards it from there. In mode
    transaction the audit topic and the books are part of the same transaction.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._sink = Sink(
            WriteOptions(
                endpoint=pipeline.endpoint, topics=pipeline.outputs, transactional_id=service_id(pipeline)
            )
        )

    def __call__(self, identified: DataFrame, ended: DataFrame, batch_id: int) -> Delivered:
        """See Delivery."""
        pipeline, counted = self._pipeline, Noted()
        tally = pipeline.tally if pipeline.mode is Mode.TRANSACTION else None
        window_ms = tally.window_ms if tally is not None else WINDOW_MS

        def conclude(notes: Sequence[Noted]) -> list[Added]:
            nonlocal counted
            counted = add_up(notes)
            if tally is None:
                return []
            check_balance(counted)
            books = keep_books(pipeline, counted, window_ms, batch_id)
            return as_records(books, tally.topic, now_ms=time.time_ns() // 1_000_000)

        # What went in is read once more: holding it while it is judged took longer, and would be no second witness.
        beside = None if tally is None else ingested(identified, window_ms)
        aside = Aside(note=count_noted, conclude=conclude, beside=beside)
        self._sink.write(route(ended, pipeline, window_ms=window_ms), batch_id, aside)
        return Delivered(counted=counted)


class DualDelivery:
    """Mode dual: each message is sent to its topic, then to the audit topic, by sends that know nothing of another."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._sends = DualSends(pipeline.endpoint)

    def __call__(self, identified: DataFrame, ended: DataFrame, batch_id: int) -> Delivered:
        """See Delivery. A crash after the first send makes the next attempt send it again."""
        records = route(ended, self._pipeline, window_ms=WINDOW_MS)
        topics = (*dict.fromkeys(self._pipeline.topics.values()), self._pipeline.audit)
        sent = self._sends(records, topics, note=count_noted)
        return Delivered(counted=add_up(sent.notes), given_up=sent.given_up)
