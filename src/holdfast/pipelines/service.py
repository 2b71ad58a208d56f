"""The service of a pipeline: what it does with each micro-batch of the ingest topic."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from holdfast.pipelines.books import totals
from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.delivery import Delivery
from holdfast.pipelines.frames import Transform, end, with_identity


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """What became of one micro-batch."""

    batch_id: int
    messages: Mapping[str, int]
    """By stage, with those that were given up."""
    given_up: Mapping[str, int] = field(default_factory=dict)
    """By topic."""


class Service:
    """For `foreachBatch`: transforms a batch, and has it delivered; what is counted is what was to be sent."""

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
        ended = end(identified, self._pipeline, self._transform)
        delivered = self._delivery(identified, ended, batch_id)
        self._on_batch(
            BatchReport(batch_id=batch_id, messages=totals(delivered.counted), given_up=delivered.given_up)
        )
