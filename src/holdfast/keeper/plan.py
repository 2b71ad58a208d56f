"""What is due on one replica of one partition. Pure: the same view gives the same plan.

Two kinds of rewrite. To *settle* is to bring decided extents out of the journals into segments: aborted ones are left
out, committed ones become plain data. To *compact* is to do that and to keep each key's newest record only, over
the whole log up to an end; tombstones go as far as the group allows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.control.plane import Extent, LogBounds, is_hidden
from holdfast.control.replicas import Grant, PartitionRemoval, ReplicaManifest, Segment
from holdfast.keeper.limits import KeeperLimits
from holdfast.keeper.work import Piece, WorkItem
from holdfast.rules import survival
from holdfast.rules.policy import CompactionConfig
from holdfast.rules.removal import Unreported
from holdfast.store.carried import batches_path
from holdfast.store.segment import segment_path
from holdfast.store.segment_index import index_path

NOT_LIFTED = -1
NO_LEASE = 0
"""Of a view before there is one: whoever takes a lease puts it there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerView:
    """Another replica of the same partition: somewhere to copy from."""

    store: int
    directory: str
    settled_to: int
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """All that a plan needs to know, as of one moment."""

    store: int
    directory: str
    lease: int
    topic: str
    topic_id: str
    partition: int
    bounds: LogBounds
    compacts: bool
    config: CompactionConfig
    segment_bytes_max: int
    manifest: ReplicaManifest
    removal: PartitionRemoval
    segments: tuple[Segment, ...]
    """All that the replica has, in order."""
    extents: tuple[Extent, ...]
    """Those that follow the segments, up to the last stable offset, or as many as one pass takes."""
    peers: tuple[PeerView, ...]
    """The other replicas that are in sync, for one that is not."""
    tail_journal: int
    """The journal that takes the next frame: those below it wait for what is in them to be settled."""
    wall_ms: int
    grace_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A rewrite and what to say of it when it is done."""

    item: WorkItem
    grant: Grant
    mcco: int
    """How far the replica is cleanly compacted then; NOT_LIFTED after a settle."""
    mxfo: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a pass could clean up to `end`, and whether that is worth it."""

    segments: list[Segment]
    extents: tuple[Extent, ...]
    end: int
    clean_bytes: int
    dirty_bytes: int
    is_due: bool


def plan(view: ReplicaView, limits: KeeperLimits) -> Plan | None:
    """The rewrite that is due now of a replica that lacks nothing, if one is."""
    if not view.compacts:
        return settle(view, limits)
    return _compact(view, limits) or settle(view, limits)


def grant(view: ReplicaView) -> Grant:
    """What a rewrite made now may forget."""
    removable = view.removal.removable
    bounds = survival.forgettable(
        removable,
        clean=view.manifest.clean_coverage,
        covered=view.removal.coverage,
        now_ms=view.grace_ms,
        delete_retention_ms=view.config.delete_retention_ms,
    )
    return Grant(
        lineage=view.removal.lineage,
        mtro=removable.mtro,
        mxro=removable.mxro,
        tombstones_end=bounds.tombstones_end,
    )


def settleable(view: ReplicaView) -> tuple[Extent, ...]:
    """The extents that follow the segments, decided, on this store and without a hole; none is below the log start."""
    end = max(view.manifest.settled_to, view.bounds.start)
    stable = min(view.bounds.last_stable, view.manifest.held_to)
    decided: list[Extent] = []
    for extent in view.extents:
        if extent.first > end or extent.last >= stable:
            break
        decided.append(extent)
        end = extent.last + 1
    return tuple(decided)


def settle(view: ReplicaView, limits: KeeperLimits) -> Plan | None:
    """Bring decided extents into segments, if they are many or have waited long."""
    extents = settleable(view)
    if not extents or not is_settle_due(view, extents, limits):
        return None
    end = extents[-1].last + 1
    merged = _small_tail(view, sum(_sizes(extents)), limits)
    pieces = [*segment_pieces(view.directory, merged, clean_to=0), *_extent_pieces(view, extents)]
    return Plan(
        item=make_item(
            view,
            limits,
            pieces,
            first=merged[0].first if merged else view.manifest.settled_to,
            end=end,
            compacts=False,
            tombstones_end=0,
        ),
        grant=grant(view),
        mcco=NOT_LIFTED,
        mxfo=end,
    )


def is_settle_due(view: ReplicaView, extents: tuple[Extent, ...], limits: KeeperLimits) -> bool:
    """Whether decided extents are worth a segment, or have waited long enough."""
    place = extents[0].places.get(view.store)
    return (
        view.manifest.joined_from is not None
        or sum(_sizes(extents)) >= limits.settle_bytes_min
        or view.wall_ms - extents[0].max_timestamp >= limits.settle_ms_max
        or (place is not None and place.journal < view.tail_journal)
    )


def measure(view: ReplicaView, first_dirty: int) -> Measured:
    """What a pass from `first_dirty` on could clean now, and whether it is worth it."""
    segments, extents = _cleanable(view, first_dirty)
    end = extents[-1].last + 1 if extents else segments[-1].end if segments else first_dirty
    clean_bytes = sum(segment.length_bytes for segment in segments if segment.end <= first_dirty)
    # What was aborted is dirty, too: it is to go.
    dirty: list[Segment | Extent] = [one for one in segments if one.end > first_dirty and one.records]
    dirty += extents
    dirty_bytes = sum(piece.length_bytes for piece in dirty)
    is_due = dirty_bytes > 0 and survival.is_due(
        clean=clean_bytes,
        dirty=dirty_bytes,
        oldest_dirty_ms=_first_ms(dirty[0]),
        now_ms=view.wall_ms,
        config=view.config,
    )
    return Measured(
        segments=segments,
        extents=extents,
        end=end,
        clean_bytes=clean_bytes,
        dirty_bytes=dirty_bytes,
        is_due=is_due,
    )


def _first_ms(piece: Segment | Extent) -> int:
    """The time of its first record; of one from before that was written down, its greatest."""
    return piece.first_timestamp if piece.first_timestamp >= 0 else piece.max_timestamp


def _compact(view: ReplicaView, limits: KeeperLimits) -> Plan | None:
    allowed = grant(view)
    first_dirty = view.manifest.cleaned.mcco
    if isinstance(first_dirty, Unreported):
        return None
    found = measure(view, first_dirty)
    segments, end = found.segments, found.end
    if not found.is_due and not any(
        0 <= segment.first_tombstone < allowed.tombstones_end for segment in segments
    ):
        return None
    pieces = [
        *segment_pieces(view.directory, segments, clean_to=first_dirty),
        *_extent_pieces(view, found.extents),
    ]
    return Plan(
        item=make_item(
            view,
            limits,
            pieces,
            first=segments[0].first if segments else view.manifest.settled_to,
            end=end,
            compacts=True,
            tombstones_end=allowed.tombstones_end,
        ),
        grant=allowed,
        mcco=end,
        mxfo=end,
    )


def _cleanable(view: ReplicaView, first_dirty: int) -> tuple[list[Segment], tuple[Extent, ...]]:
    """What a pass may touch: up to the first record that has to wait, by the newest time of its piece."""
    segments: list[Segment] = []
    for segment in view.segments:
        if segment.end > first_dirty and survival.is_young(segment.max_timestamp, view.wall_ms, view.config):
            return segments, ()
        segments.append(segment)
    extents: list[Extent] = []
    for extent in settleable(view):
        if survival.is_young(extent.max_timestamp, view.wall_ms, view.config):
            break
        extents.append(extent)
    return segments, tuple(extents)


def _small_tail(view: ReplicaView, size_bytes: int, limits: KeeperLimits) -> list[Segment]:
    """The last segments that are small beside what comes: rewriting them costs little, and they become fewer.

    Each one is taken only while it is no larger than twice what there is to write anyhow, and while all of it fits into
    one segment: a byte is rewritten as often as its segment grows by half, not as often as something is settled. What
    is cleanly compacted is not mixed with what is not.
    """
    mcco = view.manifest.cleaned.mcco
    clean_to = mcco if view.compacts and not isinstance(mcco, Unreported) else 0
    segment_bytes_max = _segment_bytes_max(view, limits)
    tail: list[Segment] = []
    for segment in reversed(view.segments):
        room = max(0, segment_bytes_max - size_bytes)
        if segment.first < clean_to or segment.length_bytes > min(2 * size_bytes, room):
            break
        tail.insert(0, segment)
        size_bytes += segment.length_bytes
    return tail


def _segment_bytes_max(view: ReplicaView, limits: KeeperLimits) -> int:
    return min(view.segment_bytes_max, limits.segment_bytes_max)


def make_item(
    view: ReplicaView,
    limits: KeeperLimits,
    pieces: list[Piece],
    *,
    first: int,
    end: int,
    compacts: bool,
    tombstones_end: int,
) -> WorkItem:
    """The work item for a view's replica."""
    return WorkItem(
        store=view.store,
        topic_id=view.topic_id,
        partition=view.partition,
        lease=view.lease,
        directory=view.directory,
        pieces=tuple(pieces),
        first=first,
        end=end,
        compacts=compacts,
        # A topic that was compacted once may be again, and will not look for tombstones in what is clean.
        surveys=view.compacts or view.manifest.cleaned.mcco != 0,
        log_start=view.bounds.start,
        tombstones_end=tombstones_end,
        segment_bytes_max=_segment_bytes_max(view, limits),
        map_bytes_max=limits.map_bytes_max,
    )


def _sizes(extents: tuple[Extent, ...]) -> Iterator[int]:
    return (extent.length_bytes for extent in extents if not is_hidden(extent))


def segment_pieces(directory: str, segments: Sequence[Segment], *, clean_to: int) -> Iterator[Piece]:
    """Whole segments of the store in `directory`."""
    for segment in segments:
        path = segment_path(Path(directory), segment.file)
        yield Piece(
            path=str(path),
            position=0,
            length_bytes=segment.length_bytes,
            first=segment.first,
            end=segment.end,
            is_clean=segment.end <= clean_to,
            index=str(index_path(path)),
            file=segment.file,
            crc=segment.crc,
        )


def _extent_pieces(view: ReplicaView, extents: tuple[Extent, ...]) -> Iterator[Piece]:
    for extent in extents:
        if is_hidden(extent):
            continue
        place = extent.places[view.store]
        yield Piece(
            path=batches_path(view.directory, place.journal),
            position=place.position,
            length_bytes=extent.length_bytes,
            first=extent.first,
            end=extent.last + 1,
            is_clean=False,
        )
