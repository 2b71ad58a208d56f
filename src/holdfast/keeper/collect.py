"""What takes space on a store although nobody needs it, and when it may go. Pure: the same files give the same answer.

**Why a file may go.** A segment or a carried file counts when the control plane names it. Only a publication gives it
that name, and a publication needs the lease that is in force and takes no file that does not bear it
(`agent/desk.py`). So a file of an older lease that has no name will never have one: its keeper died, or was too
late, or other files have taken its place. A file of the lease in force may be published at any moment, so it stays,
whoever asks. Leases are never given twice, and neither are names: who decides by this rule and deletes much later,
because it was paused, deletes no file that counts by then.

**Why not at once.** A reader that has planned to read a file may not have opened it yet. It plans anew if the file is
gone, so this is a courtesy. The time counts from when the process that serves readers has first seen that nobody
needs the file. The time of its last write says nothing: a segment that was replaced a second ago may have been
written last year.

**Journals** go from the oldest on, when nothing in them is in use and two snapshots cover what their footers say. To
have that happen, what still holds an old journal back is carried, the last journal is ended before it is full, and
snapshots are written; each only where it frees more than it costs.
"""

from dataclasses import dataclass
from itertools import pairwise

from holdfast.control.replicas import StorePhase
from holdfast.keeper.limits import KeeperLimits
from holdfast.store.carried import lease_of_carried
from holdfast.store.segment import parse_segment_file

LIVE_PARTS = 4
"""What is left in a journal is moved out of its way if it is less than one of so many parts."""
CARRY_JOURNALS = 4
"""If it lies so many journals behind the last one, half is little enough."""
SNAPSHOT_SIZES = 2
"""A snapshot frees at least so many times what it takes, unless it is time for one anyhow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedSegment:
    """A segment on disk that the control plane does not name, and for how long that has been known."""

    file: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedCarried:
    """A carried file that nothing points into."""

    number: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalFile:
    """A journal on disk."""

    number: int
    size_bytes: int
    live_bytes: int = 0
    """Of extents in it that are in use; not counted in the last one."""
    unused_seconds: float | None = None
    """For how long it has been known that nothing in it is; None while something is, and for the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFile:
    """The newest snapshot of the control plane on the store."""

    size_bytes: int
    age_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFiles:
    """What is on a store that may be of no use."""

    store: int
    directory: str
    incarnation: int
    phase: StorePhase
    lease: int
    """The lease in force, held by who asks; or else the one that it would get."""
    segments: list[UnusedSegment]
    carried: list[UnusedCarried]
    empty_folders: list[str]
    journals: list[JournalFile]
    """All, in order."""
    unsettled_bytes: int
    """Of all extents in use; not counted while the last journal is small."""
    covered_to: int
    """Journals whose frames all lie below are covered by two snapshots."""
    snapshot: SnapshotFile | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """What is to be done about it."""

    segments: tuple[str, ...] = ()
    carried: tuple[int, ...] = ()
    empty_folders: tuple[str, ...] = ()
    rolls: bool = False
    """The last journal is to end here."""
    carry_below: int = 0
    """What is in use in journals below this number is to be carried."""
    needs_snapshot: bool = False
    deletes_journals: bool = False

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return self != Collection()


def collect(files: StoreFiles, limits: KeeperLimits) -> Collection:
    """What is worth doing now. Journals are those of a store in sync: one that joins has yet to show what it has."""
    unused = Collection(
        segments=tuple(
            each.file
            for each in files.segments
            if parse_segment_file(each.file).lease < files.lease and each.seconds >= limits.collect_seconds
        ),
        carried=tuple(
            each.number
            for each in files.carried
            if lease_of_carried(each.number) < files.lease and each.seconds >= limits.collect_seconds
        ),
        empty_folders=tuple(files.empty_folders),
    )
    if files.phase is not StorePhase.IN_SYNC:
        return unused
    return Collection(
        segments=unused.segments,
        carried=unused.carried,
        empty_folders=unused.empty_folders,
        rolls=_is_roll_due(files, limits),
        carry_below=_find_carry_below(files, limits),
        needs_snapshot=_is_snapshot_due(files, limits),
        deletes_journals=_find_gone(files, min(files.covered_to, find_journals_end(files, limits))) > 0,
    )


def find_journals_end(files: StoreFiles, limits: KeeperLimits) -> int:
    """The journals whose frames all lie below are in nobody's use, and have been for long enough."""
    end = 0
    for journal, successor in pairwise(files.journals):
        if journal.unused_seconds is None or journal.unused_seconds < limits.collect_seconds:
            break
        end = successor.number
    return end


def _find_gone(files: StoreFiles, end: int) -> int:
    """How many journals have frames below a number only."""
    return sum(successor.number <= end for _, successor in pairwise(files.journals))


def _is_snapshot_due(files: StoreFiles, limits: KeeperLimits) -> bool:
    """Whether journals wait for nothing else, and enough of them, or for long enough."""
    waiting_bytes = sum(
        journal.size_bytes
        for journal, successor in pairwise(files.journals)
        if journal.unused_seconds is not None and successor.number > files.covered_to
    )
    if not waiting_bytes or files.snapshot is None:
        return waiting_bytes > 0
    worth_bytes = max(limits.collect_bytes_min, SNAPSHOT_SIZES * files.snapshot.size_bytes)
    return waiting_bytes >= worth_bytes or files.snapshot.age_seconds >= limits.snapshot_seconds


def _is_roll_due(files: StoreFiles, limits: KeeperLimits) -> bool:
    """Whether the last journal is large, and little of it is in use: ended, it can go."""
    last_bytes = files.journals[-1].size_bytes if files.journals else 0
    return last_bytes >= limits.collect_bytes_min and files.unsettled_bytes * LIVE_PARTS < last_bytes


def _find_carry_below(files: StoreFiles, limits: KeeperLimits) -> int:
    """The journals below it can all go if what is left in them is carried; 0 if that is not worth it.

    Only as many as lie in a row from the oldest on: nothing is gained where an older one stays.
    """
    below = live_bytes = size_bytes = 0
    is_far = False
    for at, (journal, successor) in enumerate(pairwise(files.journals)):
        if not live_bytes and not journal.live_bytes:
            # It goes as it is.
            continue
        is_far = is_far or (journal.live_bytes > 0 and len(files.journals) - 1 - at >= CARRY_JOURNALS)
        live_bytes += journal.live_bytes
        size_bytes += journal.size_bytes
        is_little = live_bytes * (2 if is_far else LIVE_PARTS) < size_bytes
        if is_little and (is_far or size_bytes - live_bytes >= limits.collect_bytes_min):
            below = successor.number
    return below
