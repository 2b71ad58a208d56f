"""The three ways in which a micro-batch reaches its topics and the audit topic; all else is the same for all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.sql import DataFrame

from holdfast.pipelines.books import as_rows
from holdfast.pipelines.config import Mode, Pipeline
from holdfast.pipelines.dual import DualSends
from holdfast.pipelines.frames import route
from holdfast.pipelines.tally import TallyRecord
from holdfast.spark.sink import Sink


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What there is to tell of a batch that went out."""

    given_up: Mapping[str, int] = field(default_factory=dict)
    """By topic: messages that never got there, and never will."""


class Delivery(Protocol):
    """Sends one micro-batch."""

    def __call__(self, ended: DataFrame, books: Sequence[TallyRecord], batch_id: int) -> Delivered:
        """Returns when the batch is where it belongs; `ended` is that of `frames`."""
        ...


def delivery_of(pipeline: Pipeline, bootstrap: str) -> Delivery:
    """The one that the file chooses."""
    if pipeline.mode is Mode.DUAL:
        return DualDelivery(pipeline, bootstrap)
    return ExactDelivery(pipeline, bootstrap)


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

    def __init__(self, pipeline: Pipeline, bootstrap: str) -> None:
        self._pipeline = pipeline
        self._sink = Sink(
            bootstrap=bootstrap, topics=",".join(pipeline.outputs), transactional_id=service_id(pipeline)
        )

    def __call__(self, ended: DataFrame, books: Sequence[TallyRecord], batch_id: int) -> Delivered:
        """See Delivery."""
        records = route(ended, self._pipeline)
        if self._pipeline.mode is Mode.TRANSACTION:
            assert self._pipeline.tally is not None
            tally = as_rows(ended.sparkSession, books, self._pipeline.tally.topic)
            records = records.unionByName(tally, allowMissingColumns=True)
        self._sink(records, batch_id)
        return Delivered()


class DualDelivery:
    """Mode dual: each message is sent to its topic, then to the audit topic, by sends that know nothing of another."""

    def __init__(self, pipeline: Pipeline, bootstrap: str) -> None:
        self._pipeline = pipeline
        self._sends = DualSends(bootstrap)

    def __call__(self, ended: DataFrame, books: Sequence[TallyRecord], batch_id: int) -> Delivered:
        """See Delivery. A crash after the first send makes the next attempt send it again."""
        records = route(ended, self._pipeline)
        audited = records["topic"] == self._pipeline.audit
        topics = tuple(dict.fromkeys(self._pipeline.topics.values()))
        given_up = dict(self._sends(records.where(~audited), topics))
        for topic, lost in self._sends(records.where(audited), (self._pipeline.audit,)).items():
            given_up[topic] = given_up.get(topic, 0) + lost
        return Delivered(given_up=given_up)
