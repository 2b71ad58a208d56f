"""A replica as a plan sees it, made up: no file of it exists."""

from dataclasses import replace
from typing import Any

from holdfast.control.plane import Extent, LogBounds
from holdfast.control.replicas import Grant, PartitionRemoval, ReplicaManifest, Segment
from holdfast.keeper.plan import ReplicaView
from holdfast.rules.grace import NOTHING_COVERED, Coverage
from holdfast.rules.policy import CompactionConfig
from holdfast.rules.removal import NOTHING_REMOVABLE, Cleaned
from holdfast.store.store import Place

TOPIC = "00" * 15 + "05"
NOW_MS = 1_000_000
BYTES = 100
"""Of every record: then shares of bytes are shares of records, which the rules count."""
GRANT = Grant(lineage=1, mtro=0, mxro=0, tombstones_end=0)
TAIL_JOURNAL = 7


def segment(first: int, end: int, **fields: Any) -> Segment:
    """A segment that holds one record, unless told otherwise."""
    made = Segment(
        first=first,
        end=end,
        file=f"{TOPIC}/0/{first:020d}.1-{end}.log",
        length_bytes=BYTES,
        max_timestamp=0,
        records=1,
        first_tombstone=-1,
        crc=first,
        grant=GRANT,
    )
    return replace(made, **fields)


def extent(first: int, last: int | None = None, **fields: Any) -> Extent:
    """An extent of one record in the journal that is written to, unless told otherwise."""
    made = Extent(
        first=first,
        last=first if last is None else last,
        places={1: Place(journal=TAIL_JOURNAL, position=first)},
        length_bytes=BYTES,
        max_timestamp=0,
    )
    return replace(made, **fields)


def view(
    segments: tuple[Segment, ...] = (),
    extents: tuple[Extent, ...] = (),
    *,
    start: int = 0,
    end: int | None = None,
    last_stable: int | None = None,
    held_to: int | None = None,
    mcco: int = 0,
    mtro: int = 0,
    covered: Coverage = NOTHING_COVERED,
    **fields: Any,
) -> ReplicaView:
    """A compacted partition's replica on store 1."""
    settled_to = segments[-1].end if segments else fields.pop("settled_to", 0)
    end = end if end is not None else extents[-1].end if extents else settled_to
    manifest = ReplicaManifest(
        store=1,
        incarnation=1,
        generation=3,
        settled_to=settled_to,
        held_to=end if held_to is None else held_to,
        joined_from=fields.pop("joined_from", None),
        cleaned=Cleaned(mcco=mcco, mxfo=settled_to),
        clean_coverage=covered,
    )
    made = ReplicaView(
        store=1,
        directory="/data/stores/1",
        lease=1,
        topic="t",
        topic_id=TOPIC,
        partition=0,
        bounds=LogBounds(
            start=start, end=end, last_stable=end if last_stable is None else last_stable, leader_epoch=0
        ),
        compacts=True,
        config=CompactionConfig(),
        segment_bytes_max=1 << 30,
        manifest=manifest,
        removal=PartitionRemoval(
            lineage=1,
            membership=1,
            removable=replace(NOTHING_REMOVABLE, mtro=mtro),
            coverage=covered,
            trimmed_to=0,
            replicas=(manifest,),
        ),
        segments=segments,
        extents=extents,
        peers=(),
        tail_journal=TAIL_JOURNAL,
        wall_ms=NOW_MS,
        grace_ms=NOW_MS,
    )
    return replace(made, **fields)
