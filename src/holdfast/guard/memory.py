"""What a guard remembers between looks and may forget: then it waits again, and trusts nobody it has not seen."""

from collections.abc import Set
from dataclasses import dataclass, field

from holdfast.guard.sight import SeenTopic


@dataclass(frozen=True, slots=True)
class InSync:
    """A replica when it was last seen in sync."""

    at_ms: int
    epoch_left: int
    """The leader's epoch after it leaves, if nothing else happens: that it led itself ends with its leaving."""


@dataclass(slots=True)
class _Whole:
    """A topic none of whose replicas is out: how far each partition's replicas have to come to count as caught up."""

    goals: dict[int, int]
    since_ms: int | None = None


@dataclass(slots=True)
class Memory:
    """By topic id, so that a topic that is made anew is another one."""

    _in_sync: dict[tuple[str, int, int], InSync] = field(default_factory=dict)
    _whole: dict[str, _Whole] = field(default_factory=dict)
    _asked_ms: dict[tuple[str, int], int] = field(default_factory=dict)
    _asked_epoch: dict[tuple[str, int], int] = field(default_factory=dict)
    """The leader's, at the last question; it outlasts the answer."""
    _not_before_ms: dict[tuple[str, int], int] = field(default_factory=dict)
    _since_ms: dict[str, int] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)
    _kept: frozenset[str] = frozenset()

    def note(self, seen: SeenTopic, now_ms: int) -> None:
        """Who is in sync at this look; a topic that is not whole has to be so anew."""
        if seen.out:
            self._whole.pop(seen.topic_id, None)
        for number, partition in seen.partitions.items():
            for node in partition.in_sync:
                epoch = partition.leader_epoch + (node == partition.leader)
                self._in_sync[seen.topic_id, number, node] = InSync(now_ms, epoch)

    def keep(self, topic_ids: Set[str]) -> None:
        """Forget all other topics: they are gone."""
        if topic_ids == self._kept:
            return
        self._kept = frozenset(topic_ids)
        self._in_sync = {place: seen for place, seen in self._in_sync.items() if place[0] in topic_ids}
        self._whole = {topic_id: whole for topic_id, whole in self._whole.items() if topic_id in topic_ids}
        self._asked_ms = {place: ms for place, ms in self._asked_ms.items() if place[0] in topic_ids}
        self._asked_epoch = {
            place: epoch for place, epoch in self._asked_epoch.items() if place[0] in topic_ids
        }
        self._not_before_ms = {
            place: ms for place, ms in self._not_before_ms.items() if place[0] in topic_ids
        }

    def last_in_sync(self, topic_id: str, partition: int, replica: int) -> InSync | None:
        """How a replica was when it was last seen in sync."""
        return self._in_sync.get((topic_id, partition, replica))

    def whole_since(self, seen: SeenTopic, now_ms: int) -> int | None:
        """Since when all are back, and as far as any of them was when they first were; None if they are not."""
        if seen.out:
            return None
        places = {(number, node) for number, each in seen.partitions.items() for node in each.replicas}
        whole = self._whole.get(seen.topic_id)
        if whole is None:
            if not places <= seen.ends.keys():
                return None
            goals = {
                number: max(seen.ends[number, node] for node in each.replicas)
                for number, each in seen.partitions.items()
            }
            whole = self._whole[seen.topic_id] = _Whole(goals)
        if whole.since_ms is None and all(
            seen.ends.get(place, -1) >= whole.goals.get(place[0], 0) for place in places
        ):
            whole.since_ms = now_ms
        return whole.since_ms

    def may_ask(self, topic_id: str, partition: int, leader_epoch: int, now_ms: int) -> bool:
        """Whether a partition is to be examined now; if so, it is taken for asked.

        Not before its time, unless the leader's epoch is another than when it was last asked for: it rises with every
        replica that is taken out of the assignment, so that a repair is looked at when it is done.
        """
        place = topic_id, partition
        waits = now_ms < self._not_before_ms.get(place, 0) and self._asked_epoch.get(place) == leader_epoch
        if waits or place in self._asked_ms:
            return False
        self._asked_ms[place], self._asked_epoch[place] = now_ms, leader_epoch
        return True

    def is_answer(self, topic_id: str, partition: int, asked_ms: int) -> bool:
        """Whether a verdict answers the question that was asked last, and nobody left since."""
        if self._asked_ms.get((topic_id, partition)) != asked_ms:
            return False
        del self._asked_ms[topic_id, partition]
        return True

    def wait_until(self, topic_id: str, partition: int, until_ms: int) -> None:
        """Ask for no examination before, as long as nobody else leads and nobody is taken out."""
        self._not_before_ms[topic_id, partition] = until_ms

    def start_over(self, topic_id: str, partition: int) -> None:
        """A replica has left: what is being examined says nothing any more, and the next look may be at once."""
        self._asked_ms.pop((topic_id, partition), None)
        self._not_before_ms.pop((topic_id, partition), None)

    def lasts(self, what: str, now_ms: int) -> int:
        """For how long something has been so, look after look."""
        return now_ms - self._since_ms.setdefault(what, now_ms)

    def is_over(self, what: str) -> None:
        """It is not so any more."""
        self._since_ms.pop(what, None)

    def is_new(self, what: str) -> bool:
        """Whether this was not told yet."""
        known = what in self._told
        self._told.add(what)
        return not known

    def forget_news(self, what: str) -> None:
        """It is over: if it comes back, it is news."""
        self._told.discard(what)
