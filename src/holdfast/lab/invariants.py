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

from collections.abc import Iterator
from dataclasses import dataclass
from operator import is_

from holdfast.lab import steps
from holdfast.lab.coordination import Coordination
from holdfast.lab.engines.model import Model
from holdfast.lab.engines.replica import Replica
from holdfast.lab.oracle import Oracle, Snapshot
from holdfast.lab.verdict import findings
from holdfast.rules.entry import Entry, Isolation
from holdfast.rules.grace import NOTHING_COVERED
from holdfast.rules.membership import Replica as Life
from holdfast.rules.policy import Fate
from holdfast.rules.removal import NOTHING_REMOVABLE, Removable, Unreported
from holdfast.rules.removal_replica import ReplicaState
from holdfast.rules.transaction import Outcome

NOWHERE = 2**62
_LEAVES_LOGS_ALONE = (
    steps.Begin,
    steps.Advance,
    steps.BackUp,
    steps.Exchange,
    steps.Collect,
    steps.ReadMembership,
    steps.Deliver,
    steps.Lose,
    steps.Repeat,
    steps.Talk,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """An invariant that does not hold: which, in which of Kafka's four variants if any, and what was seen."""

    invariant: str
    what: str
    variant: str | None = None


class Checker:
    """Follows one model; `check` after every step. With `readers_only`, only what readers of a replica meet."""

    def __init__(self, model: Model, *, readers_only: bool = False) -> None:
        self.model = model
        self.oracle = Oracle(model.partition.history)
        self.protocol: Protocol | None = None
        if model.partition.coordination is not None and not readers_only:
            self.protocol = Protocol(model, self.oracle)
        self._seen: dict[int, tuple[int, int, int]] = {}

    def check(self, step: steps.Step) -> Violation | None:
        """The first invariant that does not hold after `step`, if any."""
        violation = None if isinstance(step, _LEAVES_LOGS_ALONE) else self._replicas()
        if violation is None and self.protocol is not None:
            violation = self.protocol.check(step)
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
        if self.protocol is None:
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


class Protocol:
    """The invariants of the removal offsets and of every removal made under them."""

    def __init__(self, model: Model, oracle: Oracle) -> None:
        coordination = model.partition.coordination
        assert coordination is not None
        self.model = model
        self.coordination: Coordination = coordination
        self.oracle = oracle
        self._granted: dict[tuple[Life, int], Removable] = {}
        self._states: list[ReplicaState] = []
        self._all_clean = NOTHING_COVERED
        self._lineage = coordination.history.current
        self._bounds = NOTHING_REMOVABLE
        self._scanned: dict[int, tuple[int, int]] = {}
        self._put_back: set[int] = set()

    def check(self, step: steps.Step) -> Violation | None:
        """The first invariant that does not hold, if any."""
        if isinstance(step, steps.PutBack):
            self._put_back.add(step.replica)
        elif isinstance(step, steps.Return | steps.Leave):
            self._put_back.discard(step.replica)
        if self.coordination.history.current != self._lineage:
            self._begin_lineage()
        if self._news():
            violation = self._monotone() or self._said()
            if violation is not None:
                return violation
        return self._in_truth(step) or self._removals()

    def _news(self) -> bool:
        """Whether anybody's part in the protocol has changed since the last look."""
        states = [node.record.state for node in self.coordination.nodes.values()]
        same = len(states) == len(self._states) and all(map(is_, states, self._states))
        self._states = states
        return not same

    def _begin_lineage(self) -> None:
        at = self.coordination.history.clip_since(self._lineage)
        assert at is not None
        self._all_clean = self._all_clean.clipped(at)
        self._lineage = self.coordination.history.current
        self._bounds = NOTHING_REMOVABLE

    def _members(self) -> Iterator[int]:
        """Those whose word counts: not one that has yet to follow a truncation, or whose disk is an old copy."""
        for id_, node in self.coordination.nodes.items():
            if node.state.lineage == self._lineage and id_ not in self._put_back:
                yield id_

    def _monotone(self) -> Violation | None:
        for id_ in self._members():
            state = self.coordination.nodes[id_].state
            life = (state.me, state.lineage)
            before = self._granted.get(life, NOTHING_REMOVABLE)
            if state.removable.mtro < before.mtro or state.removable.mxro < before.mxro:
                what = f"replica {state.me} went back from {before} to {state.removable}"
                return Violation(invariant="monotone", what=what)
            self._granted[life] = state.removable
        return None

    def _said(self) -> Violation | None:
        mtro = mxro = 0
        mcco = mxfo = NOWHERE
        for id_ in self._members():
            state = self.coordination.nodes[id_].state
            mtro = max(mtro, state.removable.mtro)
            mxro = max(mxro, state.removable.mxro)
            if isinstance(state.cleaned.mcco, Unreported) or isinstance(state.cleaned.mxfo, Unreported):
                if self.model.replicas[id_].entries:
                    what = f"replica {state.me} holds data, but was never given a start"
                    return Violation(invariant="start", what=what)
                continue
            mcco = min(mcco, state.cleaned.mcco)
            mxfo = min(mxfo, state.cleaned.mxfo)
        if mtro > mcco or mxro > mxfo:
            what = f"MTRO {mtro} with a member at MCCO {mcco}; MXRO {mxro} with a member at MXFO {mxfo}"
            return Violation(invariant="bounds", what=what)
        self._bounds = Removable(mtro=mtro, mxro=mxro)
        if mcco != NOWHERE:
            self._all_clean = self._all_clean.cover(mcco, self.model.now_ms)
        return None

    def _in_truth(self, step: steps.Step) -> Violation | None:
        """Whatever a member holds below MTRO is its key's newest, or a record at or above MTRO supersedes it.

        The latter it has or will fetch, because nothing at or above MTRO is forgotten. Below MXRO all is
        settled.
        """
        bounds = self._bounds
        end = max(bounds.mtro, bounds.mxro)
        partition = self.model.partition
        if end == 0 or partition.leader_id is None:
            return None
        newest = self.oracle.at(partition.leader.high_watermark).newest
        for id_ in self._members():
            replica = partition.replicas[id_]
            scanned = self._scanned.get(id_, (-1, -1))
            if scanned == (end, replica.changes) or (scanned[0] == end and _only_appends(step)):
                continue
            self._scanned[id_] = (end, replica.changes)
            for entry in replica.entries:
                if entry.offset >= end:
                    break
                if entry.marker is not None:
                    continue
                if entry.offset < bounds.mtro and not _superseded(entry, newest, bounds.mtro):
                    what = f"MTRO is {bounds.mtro}, but replica {id_} still holds offset {entry.offset}"
                    return Violation(invariant="bounds", what=what)
                if entry.offset < bounds.mxro and entry.transactional:
                    what = f"MXRO is {bounds.mxro}, but offset {entry.offset} is not settled on replica {id_}"
                    return Violation(invariant="bounds", what=what)
        return None

    def _removals(self) -> Violation | None:
        if not self.model.passes:
            return None
        replicas = self.model.replicas
        snapshot = self.oracle.at(max(replica.high_watermark for replica in replicas.values()))
        for id_, done in self.model.passes:
            for fate, entry in done.fates:
                wrong = self._wrongly_removed(fate, entry, snapshot)
                if wrong is not None:
                    what = f"replica {id_} dropped offset {entry.offset} ({fate.value}), but {wrong[1]}"
                    return Violation(invariant=wrong[0], what=what)
        return None

    def _wrongly_removed(self, fate: Fate, entry: Entry, snapshot: Snapshot) -> tuple[str, str] | None:
        if fate is Fate.SHADOWED:
            newest = snapshot.newest.get(entry.key or "")
            if newest is None or newest.offset <= entry.offset:
                return "removals", "nothing newer was committed"
        elif fate is Fate.ABORTED:
            if snapshot.outcomes.get(entry.instance) is not Outcome.ABORTED:
                return "removals", "its transaction was not aborted"
        elif fate is Fate.OUTCOME:
            if entry.offset >= self._bounds.mxro:
                return "removals", f"MXRO is {self._bounds.mxro}"
        elif fate is Fate.TOMBSTONE:
            if entry.offset >= self._bounds.mtro:
                return "removals", f"MTRO is {self._bounds.mtro}"
            since_ms = self._all_clean.since(entry.offset)
            retention_ms = self.model.partition.config.delete_retention_ms
            if since_ms is None or self.model.now_ms < since_ms + retention_ms:
                return "grace", f"only {self.model.now_ms - (since_ms or 0)} ms after all were clean"
        return None


def _superseded(entry: Entry, newest: dict[str, Entry], mtro: int) -> bool:
    latest = newest.get(entry.key or "")
    return latest is not None and (latest.offset == entry.offset or latest.offset >= mtro)


def _only_appends(step: steps.Step) -> bool:
    return isinstance(step, steps.Produce | steps.End | steps.Begin)
