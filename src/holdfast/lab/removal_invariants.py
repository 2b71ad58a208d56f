"""What must hold of the removal offsets, and of every removal made under them."""

from collections.abc import Iterator
from operator import is_

from holdfast.lab import steps
from holdfast.lab.coordination import Coordination
from holdfast.lab.engines.model import Model
from holdfast.lab.oracle import Oracle, Snapshot
from holdfast.lab.violation import Violation
from holdfast.rules.entry import Entry
from holdfast.rules.grace import NOTHING_COVERED
from holdfast.rules.policy import Fate
from holdfast.rules.removal import NOTHING_REMOVABLE, Removable, Unreported
from holdfast.rules.removal_replica import ReplicaState
from holdfast.rules.transaction import Outcome

NOWHERE = 2**62


class RemovalChecker:
    """The invariants of the removal offsets and of every removal made under them."""

    def __init__(self, model: Model, oracle: Oracle) -> None:
        coordination = model.partition.coordination
        assert coordination is not None
        self.model = model
        self.coordination: Coordination = coordination
        self.oracle = oracle
        self._granted: dict[int, ReplicaState] = {}
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
        elif isinstance(step, steps.Return | steps.Leave) and step.replica in self._put_back:
            self._put_back.discard(step.replica)
            self._states = []
        if self.coordination.history.current != self._lineage:
            self._begin_lineage()
        if self._news():
            violation = self._said()
        elif isinstance(step, (*steps.LEAVES_LOGS_ALONE, steps.Produce, steps.End)):
            return None
        else:
            violation = None
        return violation or self._started() or self._in_truth() or self._removals()

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

    def _said(self) -> Violation | None:
        """Values go up only, and nobody was granted more than every member says of itself."""
        mtro = mxro = 0
        mcco = mxfo = NOWHERE
        for id_ in self._members():
            state = self.coordination.nodes[id_].state
            violation = self._of_one(id_, state)
            if violation is not None:
                return violation
            mtro = max(mtro, state.removable.mtro)
            mxro = max(mxro, state.removable.mxro)
            if not isinstance(state.cleaned.mcco, Unreported):
                mcco = min(mcco, state.cleaned.mcco)
            if not isinstance(state.cleaned.mxfo, Unreported):
                mxfo = min(mxfo, state.cleaned.mxfo)
        if mtro > mcco or mxro > mxfo:
            what = f"MTRO {mtro} with a member at MCCO {mcco}; MXRO {mxro} with a member at MXFO {mxfo}"
            return Violation(invariant="bounds", what=what)
        self._bounds = Removable(mtro=mtro, mxro=mxro)
        if mcco != NOWHERE:
            self._all_clean = self._all_clean.cover(mcco, self.model.now_ms)
        return None

    def _of_one(self, id_: int, state: ReplicaState) -> Violation | None:
        before = self._granted.get(id_)
        if before is state:
            return None
        self._granted[id_] = state
        if before is None or (before.me, before.lineage) != (state.me, state.lineage):
            return None
        was, now = before.removable, state.removable
        if now.mtro < was.mtro or now.mxro < was.mxro:
            return Violation(invariant="monotone", what=f"replica {state.me} went back from {was} to {now}")
        return None

    def _started(self) -> Violation | None:
        for id_, node in self.coordination.nodes.items():
            if isinstance(node.state.cleaned.mcco, Unreported) and self.model.replicas[id_].entries:
                what = f"replica {node.state.me} holds data, but was never given a start"
                return Violation(invariant="start", what=what)
        return None

    def _in_truth(self) -> Violation | None:
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
            if self._scanned.get(id_) == (end, replica.changes):
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
