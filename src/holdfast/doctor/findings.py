"""A confirmed difference: where it is, which harm it speaks for, and what to do about it, in plain words."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.client.groups import TopicPartition
from holdfast.doctor.compare import KeyDifference, OpenDifference, Replica
from holdfast.doctor.traces import (
    ABORTED_TO_COMMITTED,
    COMMITTED_TO_ABORTED,
    STUCK,
    TOMBSTONE,
    Trace,
    variant_of,
)

REBUILD = "rebuild it: holdfast doctor repair {place}:{replica}"
REPLACE = (
    "move it aside on its broker while that is stopped, so that the replica is made anew from the leader"
)
RELEASE = (
    "; or, while it leads, release its readers: holdfast doctor repair {place}:producer={producer_id} (that may decide"
    " wrongly what it holds)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One replica that shows something else than the others, seen twice."""

    place: TopicPartition
    replica: Replica
    variant: str | None
    key: bytes | None
    producer_id: int | None
    offsets: tuple[int, ...]
    others: tuple[Replica, ...]
    what: str
    advice: str

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "topic": self.place.topic,
            "partition": self.place.partition,
            "replica": self.replica,
            "variant": self.variant,
            "key": None if self.key is None else readable(self.key),
            "producer_id": self.producer_id,
            "offsets": list(self.offsets),
            "differs_from": list(self.others),
            "what": self.what,
            "advice": self.advice,
        }


def key_finding(
    place: TopicPartition, difference: KeyDifference, replica: Replica, traces: list[Trace]
) -> Finding:
    """A key that a replica shows wrongly."""
    variant = variant_of(difference, replica, traces)
    newest = difference.shown[replica]
    assert newest is not None
    shown = next(trace for trace in traces if trace.offset == newest.offset)
    others = tuple(difference.right)
    hidden = [trace for trace in traces if trace.is_void and trace.offset > shown.offset]
    decider = hidden[-1] if variant == COMMITTED_TO_ABORTED else shown
    reads = f"key {readable(difference.key)} reads {_value(shown)} (offset {shown.offset})"
    elsewhere = f"on {_replicas(others)}"
    deleted = any(each is None for each in difference.shown.values())
    tells = {
        TOMBSTONE: f"{reads}, but is deleted {elsewhere}",
        ABORTED_TO_COMMITTED: f"{reads}, written by producer {shown.producer_id} in a transaction that was rolled back"
        f" {elsewhere}",
        COMMITTED_TO_ABORTED: f"{reads}, because the {'delete' if decider.digest is None else 'value'} at offset"
        f" {decider.offset} by producer {decider.producer_id} is taken for rolled back; it was committed {elsewhere}",
        None: f"{reads}, but {'is deleted' if deleted else 'has another value'} {elsewhere}",
    }
    return Finding(
        place=place,
        replica=replica,
        variant=variant,
        key=difference.key,
        producer_id=decider.producer_id if decider.transactional else None,
        offsets=tuple(dict.fromkeys((shown.offset, decider.offset))),
        others=others,
        what=tells[variant],
        advice=_rebuild(place, replica),
    )


def open_finding(place: TopicPartition, difference: OpenDifference) -> Finding:
    """A transaction that never ends on a replica."""
    what = (
        f"a transaction of producer {difference.producer_id} is open from offset {difference.start} on, which it is not"
        f" on {_replicas(difference.others)}: read_committed stands still there, and so does the cleaner"
    )
    release = (
        ""
        if isinstance(difference.replica, str)
        else RELEASE.format(place=f"{place.topic}:{place.partition}", producer_id=difference.producer_id)
    )
    return Finding(
        place=place,
        replica=difference.replica,
        variant=STUCK,
        key=None,
        producer_id=difference.producer_id,
        offsets=(difference.start,),
        others=difference.others,
        what=what,
        advice=_rebuild(place, difference.replica) + release,
    )


def _rebuild(place: TopicPartition, replica: Replica) -> str:
    if isinstance(replica, str):
        return REPLACE
    return REBUILD.format(place=f"{place.topic}:{place.partition}", replica=replica)


def readable(field: bytes) -> str:
    """Text as JSON has it; what is not text in hexadecimal."""
    try:
        return json.dumps(field.decode(), ensure_ascii=False)
    except UnicodeDecodeError:
        return f"0x{field.hex()}"


def _value(trace: Trace) -> str:
    assert trace.preview is not None
    whole = len(trace.preview) == trace.value_bytes
    return readable(trace.preview) if whole else f"a value of {trace.value_bytes} bytes"


def _replicas(names: Iterable[Replica]) -> str:
    known = [str(name) for name in names]
    head, last = ", ".join(known[:-1]), known[-1]
    return f"replica{'s' if head else ''} {head + ' and ' + last if head else last}"
