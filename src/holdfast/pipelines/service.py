"""The service of a pipeline: what it does with each micro-batch of the ingest topic."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from holdfast.pipelines.books import keep_books, totals
from holdfast.pipelines.config import Mode, Pipeline
from holdfast.pipelines.delivery import Delivery
from holdfast.pipelines.frames import Transform, end, with_identity


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """What became of one micro-batch."""

    batch_id: int
    messages: Mapping[str, int]
    """By stage."""
    given_up: Mapping[str, int] = field(default_factory=dict)
    """By topic."""


class Service:
    """For `foreachBatch`: transforms a batch, keeps its books and delivers it.

    What is counted is held in memory or on disk while the batch lasts, so that it is what is sent, also where a
    transform would come to something else if it were asked again; both sides of it where both are counted.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        transform: Transform,
        delivery: Delivery,
        *,
        on_batch: Callable[[BatchReport], None],
    ) -> None:
        self._pipeline = pipeline
        self._transform = transform
        self._delivery = delivery
        self._on_batch = on_batch

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """One micro-batch, from rows to end states."""
        identified = with_identity(frame, self._pipeline.identity)
        if self._pipeline.mode is Mode.TRANSACTION:
            identified = identified.persist(StorageLevel.MEMORY_AND_DISK)
        ended = end(identified, self._pipeline, self._transform).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            books = keep_books(self._pipeline, identified, ended, batch_id)
            delivered = self._delivery(ended, books, batch_id)
        finally:
            ended.unpersist()
            identified.unpersist()
        self._on_batch(BatchReport(batch_id=batch_id, messages=totals(books), given_up=delivered.given_up))
