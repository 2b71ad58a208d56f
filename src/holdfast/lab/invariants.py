"""What must hold after every step of a random schedule, whoever was away and whatever was lost.

    replicas     who has caught up shows the same table and the same LSO as a log that is never compacted
    halted       no replica had to stop itself
    removals     a pass drops only what was shadowed, aborted, or allowed to be forgotten
    bounds       MTRO ≤ every member's MCCO, and MXRO ≤ every member's MXFO, as said and in truth
    monotone     within a lineage no removal offset goes back
    grace        a tombstone stays delete.retention.ms after every member was clean past it
    start        a replica without a start holds nothing
    storage      once all are back and time has passed, only each key's newest value is left

The first two are asked of both policies, the rest of the coordinated one.
"""

from holdfast.lab import steps
from holdfast.lab.engines.model import Model
from holdfast.lab.engines.replica import Replica
from holdfast.lab.oracle import Oracle, Snapshot
from holdfast.lab.removal_invariants import RemovalChecker
from holdfast.lab.verdict import findings
from holdfast.lab.violation import Violation
from holdfast.rules.entry import Isolation
from holdfast.rules.transaction import Outcome


class Checker:
    """Follows one model; `check` after every step. With `readers_only`, only what readers of a replica meet."""

    def __init__(self, model: Model, *, readers_only: bool = False) -> None:
        self.model = model
        self.oracle = Oracle(model.partition.history)
        self.removal: RemovalChecker | None = None
        if model.partition.coordination is not None and not readers_only:
            self.removal = RemovalChecker(model, self.oracle)
        self._seen: dict[int, tuple[int, int, int]] = {}

    def check(self, step: steps.Step) -> Violation | None:
        """The first invariant that does not hold after `step`, if any."""
        violation = None if isinstance(step, steps.LEAVES_LOGS_ALONE) else self._replicas()
        if violation is None and self.removal is not None:
            violation = self.removal.check(step)
        self.model.passes.clear()
        return violation

    def _replicas(self) -> Violation | None:
        partition = self.model.partition
        for replica in partition.replicas.values():
            if replica.halted is not None:
                what = f"replica {replica.id} stopped itself: {replica.halted}"
                return Violation(invariant="halted", what=what)
        if partition.leader_id is None:
            return None
        leader = partition.leader
        caught_up = (leader.log_end, leader.high_watermark)
        snapshot = self.oracle.at(leader.high_watermark)
        for replica in partition.replicas.values():
            if replica.id not in partition.isr or (replica.log_end, replica.high_watermark) != caught_up:
                continue
            seen = (replica.changes, leader.high_watermark, len(partition.history))
            if self._seen.get(replica.id) == seen:
                continue
            self._seen[replica.id] = seen
            if not _shows(replica, snapshot):
                return self._finding(replica)
        return None

    def _finding(self, replica: Replica) -> Violation:
        finding = next(findings(replica, self.oracle.at(replica.high_watermark)), None)
        if finding is None:
            return Violation(invariant="replicas", what=f"replica {replica.id} shows something else")
        what = f"replica {replica.id}: {finding.what}"
        return Violation(invariant="replicas", what=what, variant=finding.variant)

    def at_rest(self) -> Violation | None:
        """After everybody is back and all grace is over: nothing is kept that need not be."""
        partition = self.model.partition
        if self.removal is None:
            return None
        snapshot = self.oracle.at(partition.leader.high_watermark)
        rest = [entry.offset for entry in snapshot.newest.values() if entry.value is not None]
        for replica in partition.replicas.values():
            extra = sorted({entry.offset for entry in replica.entries} - set(rest))
            if extra:
                what = f"replica {replica.id} keeps offsets {extra} that nobody needs any more"
                return Violation(invariant="storage", what=what)
        return None


def _shows(replica: Replica, snapshot: Snapshot) -> bool:
    if replica.last_stable_offset != snapshot.last_stable_offset:
        return False
    shown: dict[str | None, str] = {}
    outcomes = snapshot.outcomes
    end = snapshot.last_stable_offset
    for entry in replica.rules.visible(replica.entries, end=end, isolation=Isolation.READ_COMMITTED):
        if entry.transactional and outcomes.get(entry.instance) is not Outcome.COMMITTED:
            return False
        if entry.value is None:
            shown.pop(entry.key, None)
        else:
            shown[entry.key] = entry.value
    return shown == snapshot.table
