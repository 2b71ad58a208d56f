"""Every decision of the guard: from what is written down and what is seen, what to write down and what to do.

Pure but for a memory that a restart may lose: without it a guard waits longer and mistrusts more, never less. What is
decided is made durable first and done second, and each step may be done twice, so a guard that dies in between goes on
where it was (`run.py`).
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from holdfast.guard.lever import Change, Lags, given_back, mark_of, pulled
from holdfast.guard.memory import Memory
from holdfast.guard.sight import Look, SeenTopic
from holdfast.guard.state import Hold, Stage, State
from holdfast.guard.suspicion import follow_outages, hear, taint_all

PATIENCE_MS: Final = 10_000
"""So long another guard's mark has to be seen before it is believed: the own one may be on its way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How careful a guard is."""

    margin_ms: int = 30_000
    """Between the last replica's return and the end of a pause."""
    examine_again_ms: int = 300_000
    """Between two examinations of a partition that did not pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alter:
    """Change the settings of a topic, in one request."""

    topic: str
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Examine:
    """Have a doctor look at a partition; its verdict names the time at which it was asked for."""

    topic: str
    partition: int
    asked_ms: int


@dataclass(slots=True, kw_only=True)
class Decision:
    """What is to be written down, then done, then told."""

    state: State
    steps: list[Alter | Examine] = field(default_factory=list)
    news: list[str] = field(default_factory=list)


class Decider:
    """Decides look by look; `settings` are the operator's."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._memory = Memory()

    def decide(self, state: State, look: Look) -> Decision:
        """Never asks for a step that the returned state does not account for."""
        decision = Decision(state=state)
        holds = []
        for name in sorted({*look.topics, *(hold.topic for hold in state.holds)}):
            seen, hold = look.topics.get(name), state.hold_of(name)
            if seen is None:
                hold = self._miss(hold, look, decision)
            else:
                hold = _Care(self._settings, self._memory, state.mark, look, seen, decision).take(hold)
                self._memory.note(seen, look.began_ms)
            if hold is not None:
                holds.append(hold)
        if not look.unseen:
            self._memory.keep({seen.topic_id for seen in look.topics.values()})
        decision.state = replace(state, holds=tuple(holds))
        return decision

    def _miss(self, hold: Hold | None, look: Look, decision: Decision) -> Hold | None:
        if hold is None or hold.topic in look.unseen:
            return hold
        decision.news.append(f"{hold.topic} was deleted: there is nothing to give back")
        return None


@dataclass(slots=True)
class _Care:
    """One topic at one look."""

    settings: Settings
    memory: Memory
    mark: int
    look: Look
    seen: SeenTopic
    decision: Decision

    def take(self, hold: Hold | None) -> Hold | None:
        """The hold as it is to be from now on."""
        if not self.seen.lags:
            return hold  # nobody tells its settings just now
        if hold is not None and hold.topic_id != self.seen.topic_id:
            self._tell("was deleted and made anew: there is nothing to give back")
            hold = None
        if hold is None:
            return self._begin()
        if self._is_others():
            return self._leave_to_other(hold)
        self.memory.is_over(f"other {self.seen.topic_id}")
        hold = self._adopt(hold)
        hold = follow_outages(hold, self.seen, self.look, self.memory)
        hold = hear(hold, self.seen, self.look, self.memory, self.settings.examine_again_ms)
        care = {
            Stage.PAUSING: self._pausing,
            Stage.PAUSED: self._paused,
            Stage.OVERRIDDEN: self._overridden,
            Stage.RESTORING: self._restoring,
        }
        return care[hold.stage](hold)

    def _adopt(self, hold: Hold) -> Hold:
        """What the owner has changed since: one of the two settings may still be ours while the other is his."""
        owner = given_back(self._usual(), hold.owner, self.mark)
        return replace(hold, owner_min_ms=owner.min_ms, owner_max_ms=owner.max_ms)

    def _begin(self) -> Hold | None:
        marks = self._marks()
        if marks:
            if self.memory.is_new(f"mark {self.seen.topic_id}"):
                whose = "this guard's, but not in its state file" if self.mark in marks else "another guard's"
                self._tell(
                    f"bears a mark that is {whose}: left alone. If no guard works on it, set min.compaction.lag.ms and"
                    " max.compaction.lag.ms as they were"
                )
            return None
        self.memory.forget_news(f"mark {self.seen.topic_id}")
        if not self.seen.out:
            return None
        owner = self._usual()
        now_ms = self.look.at_ms
        hold = Hold(
            topic=self.seen.name,
            topic_id=self.seen.topic_id,
            stage=Stage.PAUSING,
            owner_min_ms=owner.min_ms,
            owner_max_ms=owner.max_ms,
            since_ms=now_ms,
            size_bytes_then=self.seen.size_bytes,
        )
        places = ", ".join(f"replica {node} of partition {number}" for number, node in self.seen.out)
        self._tell(f"is being paused: {places} out of sync")
        self._pull()
        return follow_outages(hold, self.seen, self.look, self.memory)

    def _pausing(self, hold: Hold) -> Hold | None:
        ours = self._ours()
        if not ours:
            if self.seen.out:
                self._pull()
                return hold
            return self._restore(hold) if self._is_well(hold) else hold
        needed = self.seen.hosts & self.look.brokers
        if needed and needed <= ours:
            self._tell(f"is paused: brokers {', '.join(map(str, sorted(needed)))} have acknowledged it")
            hold = replace(hold, stage=Stage.PAUSED, acknowledged_ms=self.look.at_ms)
        return self._restore(hold) if self._is_well(hold) else hold

    def _paused(self, hold: Hold) -> Hold | None:
        if not self._marks():
            self._tell(
                "was changed by somebody else during the pause, and stays so: cleanup goes on there, and replicas that"
                " are out of sync will be examined"
            )
            hold = replace(hold, stage=Stage.OVERRIDDEN, acknowledged_ms=None)
            return self._overridden(hold)
        return self._restore(hold) if self._is_well(hold) else hold

    def _overridden(self, hold: Hold) -> Hold | None:
        hold = taint_all(hold, "somebody ended the pause while it was out of sync")
        return self._restore(hold) if self._is_well(hold) else hold

    def _restoring(self, hold: Hold) -> Hold | None:
        left = self._left(hold)
        if left is None:
            self._tell("is as its owner has it: cleanup goes on")
            return self._begin()
        if self.seen.out:
            self._tell("stays paused: a replica has left again")
            self._pull()
            return replace(hold, stage=Stage.PAUSING, acknowledged_ms=None)
        return self._restore(hold) if self._is_well(hold) else hold

    def _restore(self, hold: Hold) -> Hold | None:
        left = self._left(hold)
        if left is None:
            self._tell("is well, and nothing of it is the guard's")
            return None
        if hold.stage is not Stage.RESTORING:
            self._tell("is well: its owner's settings are put back")
        change = left.changes_to(given_back(left, hold.owner, self.mark))
        self.decision.steps.append(Alter(topic=hold.topic, change=change))
        return replace(hold, stage=Stage.RESTORING)

    def _is_well(self, hold: Hold) -> bool:
        """Nobody out, everybody caught up, nobody suspected, and all that for long enough."""
        since_ms = self.memory.whole_since(self.seen, self.look.at_ms)
        if since_ms is None:
            return False
        if hold.taints:
            self._have_examined(hold)
            return False
        return self.look.at_ms - since_ms >= self.settings.margin_ms

    def _have_examined(self, hold: Hold) -> None:
        for partition in sorted({taint.partition for taint in hold.taints}):
            epoch = self.seen.partitions[partition].leader_epoch if partition in self.seen.partitions else 0
            if self.memory.may_ask(self.seen.topic_id, partition, epoch, self.look.at_ms):
                self.decision.steps.append(
                    Examine(topic=hold.topic, partition=partition, asked_ms=self.look.at_ms)
                )

    def _is_others(self) -> bool:
        return bool(self._marks() - {self.mark})

    def _leave_to_other(self, hold: Hold) -> Hold | None:
        """None if another guard has taken the topic: it has seen the owner's settings, too, and puts them back."""
        if self.memory.lasts(f"other {self.seen.topic_id}", self.look.at_ms) < PATIENCE_MS:
            return hold
        self.memory.is_over(f"other {self.seen.topic_id}")
        self._tell("was taken over by another guard: left to it")
        return None

    def _left(self, hold: Hold) -> Lags | None:
        """The settings on a broker that still has something of ours to give back."""
        for lags in self.seen.lags.values():
            if lags != given_back(lags, hold.owner, self.mark):
                return lags
        return None

    def _pull(self) -> None:
        lever = pulled(self.mark)
        change = Lags().changes_to(lever)
        self.decision.steps.append(Alter(topic=self.seen.name, change=change))

    def _marks(self) -> set[int]:
        return {mark for lags in self.seen.lags.values() if (mark := mark_of(lags)) is not None}

    def _ours(self) -> set[int]:
        return {node for node, lags in self.seen.lags.items() if mark_of(lags) == self.mark}

    def _usual(self) -> Lags:
        """What most brokers in sync have: one that is cut off may have old settings."""
        lags = self.seen.lags
        in_sync = {node for each in self.seen.partitions.values() for node in each.in_sync}
        nodes = sorted(lags.keys() & in_sync) or sorted(lags)
        return Counter(lags[node] for node in nodes).most_common(1)[0][0]

    def _tell(self, what: str) -> None:
        self.decision.news.append(f"{self.seen.name} {what}")
