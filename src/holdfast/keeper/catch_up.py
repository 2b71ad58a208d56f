"""What a replica that was away, or begins anew, needs next to have everything. Pure, as `plan.py` is.

It goes from the end of what it holds, `held_to`, to where it has been given every frame since, `joined_from`:

1. It settles what it already had, so that its segments end where its log ends.
2. It takes over a peer's segments from there on, out of one version of the peer's manifest.
3. What no peer has settled is carried: extents are copied as they are, out of a peer's journals.

**Why a peer's segment may be trimmed at `held_to`.** The segment lacks records that its owner was allowed to drop.
One whose key has a newer record is no loss: the newer one is above it, so the replica gets that one too, here or in
what follows. A tombstone, or what an outcome was needed for, goes only below MTRO or MXRO. Both are minima over all
members, this replica included, so they are not above its own MCCO and MXFO, and those are not above `held_to`. So
nothing that decides about records below `held_to` is missing above it. A replica that begins empty has `held_to` at
the log start and the group's values as its own: below them it receives only what members that are clean past them
hold, and all of it from one manifest.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.control.plane import Extent
from holdfast.keeper.limits import KeeperLimits
from holdfast.keeper.plan import (
    NOT_LIFTED,
    PeerView,
    Plan,
    ReplicaView,
    grant,
    make_item,
    segment_pieces,
    settle,
)
from holdfast.store.carried import batches_path

CARRIED_BYTES_MAX = 64 * 1024 * 1024
"""What one carried file holds at most, save that it holds at least one extent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedPiece:
    """An extent to copy: where its bytes are now."""

    topic_id: str
    partition: int
    last: int
    path: str
    position: int
    length_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Carry:
    """Extents to copy into one file of the store."""

    pieces: tuple[CarriedPiece, ...]

    @property
    def size_bytes(self) -> int:
        """What there is to copy."""
        return sum(piece.length_bytes for piece in self.pieces)


def is_behind(view: ReplicaView) -> bool:
    """Whether the replica lacks something."""
    manifest = view.manifest
    return manifest.joined_from is not None and manifest.held_to < manifest.joined_from


def next_step(view: ReplicaView, limits: KeeperLimits) -> Plan | Carry | None:
    """What brings a replica that is behind nearer; None if nobody has what it lacks now."""
    return settle(view, limits) or _take_over(view, limits) or _carry(view)


def _take_over(view: ReplicaView, limits: KeeperLimits) -> Plan | None:
    """A peer's segments that follow what this replica has settled; None if no peer has any."""
    held_to = view.manifest.held_to
    if view.manifest.settled_to != held_to:
        return None
    best = max(
        (peer for peer in view.peers if peer.segments and peer.segments[-1].end > held_to),
        key=lambda peer: peer.segments[-1].end,
        default=None,
    )
    if best is None:
        return None
    segments = [segment for segment in best.segments if segment.end > held_to]
    end = segments[-1].end
    pieces = [replace(piece, file=None) for piece in segment_pieces(best.directory, segments, clean_to=0)]
    return Plan(
        item=make_item(view, limits, pieces, first=held_to, end=end, compacts=False, tombstones_end=0),
        grant=grant(view),
        mcco=NOT_LIFTED,
        mxfo=NOT_LIFTED,
    )


def _carry(view: ReplicaView) -> Carry | None:
    """The next extents that the replica lacks and a peer has in its journals; None if there are none."""
    pieces: list[CarriedPiece] = []
    size_bytes = 0
    for extent in _missing(view):
        size_bytes += extent.length_bytes
        if pieces and size_bytes > CARRIED_BYTES_MAX:
            break
        # Below what a peer has settled its journals may be gone.
        peer = next((peer for peer in view.peers if _has(peer, extent)), None)
        if peer is None:
            break
        place = extent.places[peer.store]
        pieces.append(
            CarriedPiece(
                topic_id=view.topic_id,
                partition=view.partition,
                last=extent.last,
                path=batches_path(peer.directory, place.journal),
                position=place.position,
                length_bytes=extent.length_bytes,
            )
        )
    return Carry(pieces=tuple(pieces)) if pieces else None


def _has(peer: PeerView, extent: Extent) -> bool:
    return peer.store in extent.places and extent.first >= peer.settled_to


def _missing(view: ReplicaView) -> Iterator[Extent]:
    """In order, up to where the replica has been given everything."""
    joined_from = view.manifest.joined_from
    assert joined_from is not None, view
    for extent in view.extents:
        if extent.first >= joined_from:
            return
        if view.store not in extent.places and extent.last >= view.manifest.held_to:
            yield extent
