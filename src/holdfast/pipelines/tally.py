"""The books of a pipeline: what went in and where it ended, per tenant and window of time. See `docs/formats.md`.

Numbers of several records add up, in any order: counts and sums by adding, fingerprints of ids by adding and by
exclusive or. Equal counts with unequal fingerprints mean that one message is missing and another one is there twice.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from holdfast.errors import CorruptData

FORMAT: Final = 1
INGESTED: Final = "ingested"
"""The stage before any end state."""
UNKNOWN_TENANT: Final = ""
"""Of messages that do not say whose they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What is known of the messages at one stage: enough to see whether two stages hold the same ones."""

    count: int = 0
    hash_sum: int = 0
    hash_xor: int = 0
    value_bytes: int = 0
    time_ms_min: int | None = None
    time_ms_max: int | None = None

    def __add__(self, other: Self) -> "Sums":
        times_min = [each for each in (self.time_ms_min, other.time_ms_min) if each is not None]
        times_max = [each for each in (self.time_ms_max, other.time_ms_max) if each is not None]
        return Sums(
            count=self.count + other.count,
            hash_sum=self.hash_sum + other.hash_sum,
            hash_xor=self.hash_xor ^ other.hash_xor,
            value_bytes=self.value_bytes + other.value_bytes,
            time_ms_min=min(times_min, default=None),
            time_ms_max=max(times_max, default=None),
        )

    def has_the_messages_of(self, other: Self) -> bool:
        """Whether both fingerprints and the counts agree."""
        return (self.count, self.hash_sum, self.hash_xor) == (other.count, other.hash_sum, other.hash_xor)


@dataclass(frozen=True, slots=True, kw_only=True)
class TallyRecord:
    """The books of one micro-batch for one tenant and window."""

    pipeline: str
    tenant: str
    window_start_ms: int
    window_end_ms: int
    batch_id: int
    stages: dict[str, Sums]

    def __add__(self, other: Self) -> "TallyRecord":
        """The books of both, for the same tenant and window."""
        assert (self.tenant, self.window_start_ms) == (other.tenant, other.window_start_ms)
        names = dict.fromkeys((*self.stages, *other.stages))
        stages = {name: self.stages.get(name, Sums()) + other.stages.get(name, Sums()) for name in names}
        return replace(self, stages=stages, batch_id=max(self.batch_id, other.batch_id))

    @property
    def is_balanced(self) -> bool:
        """Whether the end states together hold exactly the messages that went in."""
        ended = sum((sums for name, sums in self.stages.items() if name != INGESTED), Sums())
        return ended.has_the_messages_of(self.stages.get(INGESTED, Sums()))


def encode_tally(record: TallyRecord) -> bytes:
    """The value of a tally record."""
    stages = {name: _plain(sums) for name, sums in record.stages.items()}
    fields = {
        "format": FORMAT,
        "pipeline": record.pipeline,
        "tenant": record.tenant,
        "window_start_ms": record.window_start_ms,
        "window_end_ms": record.window_end_ms,
        "batch_id": record.batch_id,
        "stages": stages,
    }
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def decode_tally(value: bytes | None) -> TallyRecord:
    """The record again; CorruptData if it is none, or of a format that is not known here."""
    try:
        fields = json.loads(value or b"")
        if fields["format"] != FORMAT:
            raise CorruptData(f"a tally record of format {fields['format']!r}, where {FORMAT} is known")
        return TallyRecord(
            pipeline=fields["pipeline"],
            tenant=fields["tenant"],
            window_start_ms=fields["window_start_ms"],
            window_end_ms=fields["window_end_ms"],
            batch_id=fields["batch_id"],
            stages={name: _sums(found) for name, found in fields["stages"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as failure:
        raise CorruptData(f"not a tally record: {failure!r}") from failure


def merge(records: Iterable[TallyRecord]) -> dict[tuple[str, int], TallyRecord]:
    """All books by tenant and start of the window."""
    merged: dict[tuple[str, int], TallyRecord] = {}
    for record in records:
        key = (record.tenant, record.window_start_ms)
        merged[key] = merged[key] + record if key in merged else record
    return merged


def _plain(sums: Sums) -> dict[str, Any]:
    """Large numbers as text: many readers of JSON have no more than 53 bits."""
    return {
        "count": sums.count,
        "hash_sum": str(sums.hash_sum),
        "hash_xor": str(sums.hash_xor),
        "value_bytes": sums.value_bytes,
        "time_ms_min": sums.time_ms_min,
        "time_ms_max": sums.time_ms_max,
    }


def _sums(found: dict[str, Any]) -> Sums:
    return Sums(
        count=found["count"],
        hash_sum=int(found["hash_sum"]),
        hash_xor=int(found["hash_xor"]),
        value_bytes=found["value_bytes"],
        time_ms_min=found["time_ms_min"],
        time_ms_max=found["time_ms_max"],
    )
