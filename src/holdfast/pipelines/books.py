"""The books of one micro-batch: counted by the tasks that write it, added up by the driver, written as records."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from holdfast.errors import UsageError
from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.counting import Noted, add
from holdfast.pipelines.tally import INGESTED, Sums, TallyRecord, encode_tally
from holdfast.spark.aside import Added


def add_up(notes: Iterable[Noted]) -> Noted:
    """What all tasks have counted."""
    total: Noted = {}
    for each in notes:
        add(total, each)
    return total


def keep_books(pipeline: Pipeline, noted: Noted, window_ms: int, batch_id: int) -> list[TallyRecord]:
    """What the batch holds, per tenant and window."""
    stages: dict[tuple[str, int], dict[str, Sums]] = defaultdict(dict)
    for (tenant, start_ms, stage), sums in noted.items():
        stages[tenant, start_ms][stage] = sums
    return [
        TallyRecord(
            pipeline=pipeline.name,
            tenant=tenant,
            window_start_ms=start_ms,
            window_end_ms=start_ms + window_ms,
            batch_id=batch_id,
            stages=dict(sorted(found.items())),
        )
        for (tenant, start_ms), found in sorted(stages.items())
    ]


def check_balance(noted: Noted) -> None:
    """UsageError unless as many messages have ended as went in, and the same ones."""
    went_in = sum((sums for (*_, stage), sums in noted.items() if stage == INGESTED), Sums())
    ended = sum((sums for (*_, stage), sums in noted.items() if stage != INGESTED), Sums())
    if went_in.count != ended.count:
        raise UsageError(
            f"the transform gives back {ended.count:,} rows for {went_in.count:,} messages: one row for each is wanted"
        )
    if not ended.has_the_messages_of(went_in):
        raise UsageError(
            f"the transform gives back {ended.count:,} rows for as many messages, but not of the same source and id:"
            " one row for each is wanted, with both left alone"
        )


def as_records(books: Sequence[TallyRecord], topic: str, *, now_ms: int) -> list[Added]:
    """For the tally topic, under the tenant as their key."""
    return [
        Added(topic=topic, key=record.tenant.encode(), value=encode_tally(record), timestamp_ms=now_ms)
        for record in books
    ]


def totals(noted: Noted) -> dict[str, int]:
    """Messages by stage, over all tenants and windows."""
    found: dict[str, int] = defaultdict(int)
    for (_, _, stage), sums in noted.items():
        found[stage] += sums.count
    return dict(found)
