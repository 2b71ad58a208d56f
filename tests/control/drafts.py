"""Random changes as drafts: what is asked for is drawn, the numbers that make it fit are filled in when it is used."""

from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

from hypothesis import strategies as st

from holdfast.control.plane import ControlPlane
from holdfast.rules.transaction import NO_INSTANCE
from holdfast.rules.transactional_id import Phase
from holdfast.store.footer import (
    Change,
    ExtentAppended,
    GroupDeleted,
    GroupMember,
    GroupOffsetCommitted,
    GroupOffsetDeleted,
    GroupOffsetStaged,
    GroupProtocol,
    GroupSaved,
    LeaderMoved,
    LogStartMoved,
    PartitionsAdded,
    ProducerAdvanced,
    ProducerIdsAllotted,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
    TransactionalIdSet,
    TransactionBegun,
    TransactionEnded,
)
from tests.control import replica_drafts
from tests.control.answers import GROUPS, IDS, PARTITIONS, STORES, TRANSACTIONAL_IDS
from tests.control.replica_drafts import ReplicaPlanner

NAMES = ("a", "b", "c")
MEMBER = GroupMember("m", None, "c", "/127.0.0.1", 10, 20, (GroupProtocol("range", b"\xff"),), b"all")

Key = tuple[UUID, int]


class Planner(ReplicaPlanner):
    """Plans one frame: each change on what those before it will leave behind if they fit.

    Topics and partitions are drawn as a number, which picks one of those that there are.
    """

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane)
        self._names = {topic.topic_id: topic.name for topic in plane.list_topics()}
        self._counts = {topic.topic_id: len(topic.partitions) for topic in plane.list_topics()}
        self._ends: dict[Key, int] = {}
        self._epochs: dict[Key, int] = {}
        self._producers: dict[tuple[UUID, int, int], tuple[int, int]] = {}
        for key in self._keys():
            bounds = plane.find_bounds(*key)
            self._ends[key], self._epochs[key] = bounds.end, bounds.leader_epoch
            for producer, state in plane.find_producers(*key).items():
                self._producers[*key, producer] = (state.epoch, state.last_sequence)
        self._next_instance = plane.find_next_instance()
        self._turns = {
            name: (state.turn, state.instance) for name, state in plane.list_transactional_ids().items()
        }
        self._open = [number for number in range(self._next_instance) if self._is_open(number)]

    def _is_open(self, instance: int) -> bool:
        """Of those that have data, or an id: the others are forgotten."""
        return bool(self._plane.find_instance_partitions(instance)) or instance in (
            held for _, held in self._turns.values()
        )

    def _instance(self, pick: int, off_by: int) -> int:
        """An open one; with `off_by`, one that is decided or has not begun."""
        open_ = [number for number in self._open if not off_by] or [self._next_instance - (off_by < 0)]
        return open_[pick % len(open_)]

    def _keys(self) -> list[Key]:
        return [(topic_id, number) for topic_id, count in self._counts.items() for number in range(count)]

    def _key(self, pick: int) -> Key:
        """A partition; the last numbers pick one that is not there."""
        keys = self._keys()
        return keys[pick % len(keys)] if keys and pick < PICK_LAST else (IDS[0], len(PARTITIONS) - 1)

    def _topic(self, pick: int) -> UUID:
        """The same for topics."""
        there = list(self._counts)
        absent = [topic_id for topic_id in IDS if topic_id not in there] or [IDS[0]]
        return there[pick % len(there)] if there and pick < PICK_LAST else absent[0]

    def create(self, pick: int, replicas: list[list[int]], configs: dict[str, str], off_by: int) -> Change:
        """A topic of a name and an id that are free, if there are any left; else one of them is taken."""
        ids = [topic_id for topic_id in IDS if (topic_id in self._names) == (off_by > 0)] or list(IDS)
        names = [name for name in NAMES if (name in self._names.values()) == (off_by < 0)] or list(NAMES)
        topic_id, name = ids[pick % len(ids)], names[pick % len(names)]
        self._names[topic_id], self._counts[topic_id] = name, len(replicas)
        return TopicCreated(name, topic_id, replicas, configs)

    def delete(self, pick: int) -> Change:
        """Nothing of it counts any more, if it is made again in the same frame."""
        topic_id = self._topic(pick)
        self._names.pop(topic_id, None)
        self._counts.pop(topic_id, None)
        for number in PARTITIONS:
            self._ends.pop((topic_id, number), None)
            self._epochs.pop((topic_id, number), None)
        self._producers = {key: state for key, state in self._producers.items() if key[0] != topic_id}
        return TopicDeleted(topic_id)

    def configure(self, pick: int, configs: dict[str, str]) -> Change:
        """Other configs."""
        return TopicConfigured(self._topic(pick), configs)

    def add_partitions(self, pick: int, replicas: list[list[int]], off_by: int) -> Change:
        """After those there are."""
        topic_id = self._topic(pick)
        first = self._counts.get(topic_id, 0) + off_by
        self._counts[topic_id] = first + len(replicas)
        return PartitionsAdded(topic_id, first, replicas)

    def move_start(self, pick: int, below: int, off_by: int) -> Change:
        """Somewhat below the end, at it or past it."""
        key = self._key(pick)
        return LogStartMoved(*key, self._ends.get(key, 0) + (off_by or -below))

    def append(
        self,
        pick: int,
        more: int,
        stores: list[int],
        off_by: int,
        epoch_off_by: int,
        instance: int = NO_INSTANCE,
    ) -> Change:
        """At the end, by the leader."""
        key = self._key(pick)
        first = self._ends.get(key, 0) + off_by
        self._ends[key] = first + more + 1
        time = (first * 7 + more) % 6
        epoch = self._epochs.get(key, 0) + epoch_off_by
        return ExtentAppended(
            *key, first, first + more, stores, 10 * (more + 1), time, epoch, instance, time - 1
        )

    def append_open(self, pick: int, more: int, stores: list[int], off_by: int) -> Change:
        """The same for a transaction; one is begun if none is open."""
        if not self._open:
            return self.begin(7, 0)
        return self.append(pick, more, stores, 0, 0, self._instance(pick + more, off_by))

    def begin(self, producer: int, off_by: int) -> Change:
        """The next instance, or one that has begun."""
        instance = self._next_instance - abs(off_by)
        self._next_instance = max(self._next_instance, instance + 1)
        self._open.append(instance)
        return TransactionBegun(instance, producer)

    def end(self, pick: int, committed: bool, off_by: int) -> Change:
        """One that is open, or perhaps not; one is begun if none is."""
        if not self._open:
            return self.begin(8, 0)
        instance = self._instance(pick, off_by)
        self._open = [number for number in self._open if number != instance]
        return TransactionEnded(instance, committed, 9)

    def stage(self, group: str, pick: int, offset: int, off_by: int) -> Change:
        """A position of an open one, or perhaps not; one is begun if none is."""
        if not self._open:
            return self.begin(7, 0)
        instance = self._instance(pick + offset, off_by)
        return GroupOffsetStaged(instance, group, *self._key(pick), offset, offset - 1, None)

    def set_id(self, name: str, pick: int, phase: Phase, off_by: int) -> Change:
        """After the turn that there was, or another; with an open instance if the phase is such."""
        turn, instance = self._turns.get(name, (0, NO_INSTANCE))
        held = self._instance(pick, 0) if phase is Phase.ONGOING else NO_INSTANCE
        self._turns[name] = (turn + off_by + 1, held)
        return TransactionalIdSet(
            name, turn + off_by, instance, 7, pick, 60, phase.value, held, turn + off_by + 1, 6, pick - 1, 4
        )

    def move_leader(self, pick: int, leader: int, off_by: int) -> Change:
        """To the next epoch."""
        key = self._key(pick)
        self._epochs[key] = self._epochs.get(key, 0) + 1 + off_by
        return LeaderMoved(*key, leader, self._epochs[key])

    def advance(self, pick: int, producer: int, more: int, off_by: int, epoch_off_by: int) -> Change:
        """The next sequence, or the first one of the next epoch, or of one that is fenced."""
        key = self._key(pick)
        epoch, last = self._producers.get((*key, producer), (0, -1))
        first = (0 if epoch_off_by else last + 1) + off_by
        self._producers[*key, producer] = (epoch + epoch_off_by, first + more)
        return ProducerAdvanced(*key, producer, epoch + epoch_off_by, first, first + more, more, more, off_by)

    def repeat(self, pick: int, producer: int) -> Change:
        """The oldest batch of a window once more; of an unknown producer, one that fits."""
        key = self._key(pick)
        state = self._plane.find_producers(*key).get(producer)
        if state is None:
            return self.advance(pick, producer, 0, 0, 0)
        return ProducerAdvanced(*key, producer, state.epoch, *state.window[0])

    def commit(self, group: str, pick: int, offset: int, metadata: str | None) -> Change:
        """A position; nobody asks whether the partition has such an offset."""
        return GroupOffsetCommitted(group, *self._key(pick), offset, offset - 1, metadata, 1)

    def delete_position(self, group: str, pick: int) -> Change:
        """Often there is none."""
        return GroupOffsetDeleted(group, *self._key(pick))

    def save(self, group: str, members: tuple[GroupMember, ...], off_by: int) -> Change:
        """The generation that there is, the next one or the one before."""
        saved = self._plane.find_group(group)
        generation = off_by + (0 if saved is None else saved.generation)
        return GroupSaved(group, generation, "consumer", None, None, members, 1)


class Draft(NamedTuple):
    """A method of `Planner`, or a kind of change, and what to call it with."""

    make: str | type[Change]
    arguments: tuple[object, ...]


def plan(plane: ControlPlane, drafts: Sequence[Draft]) -> list[Change]:
    """The changes of one frame."""
    planner = Planner(plane)
    calls: list[Callable[..., Change]] = [
        getattr(planner, draft.make) if isinstance(draft.make, str) else draft.make for draft in drafts
    ]
    return [call(*draft.arguments) for call, draft in zip(calls, drafts, strict=True)]


PICK_LAST = 40
PICK = st.integers(0, PICK_LAST)
STORE = st.sampled_from(STORES)
HELD_BY = st.lists(STORE, min_size=1, max_size=3, unique=True)
REPLICAS = st.lists(HELD_BY, min_size=1, max_size=2)
CONFIGS = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(NAMES), max_size=2)
GROUP = st.sampled_from(GROUPS)
PRODUCER = st.sampled_from([7, 8])
SMALL = st.integers(0, 5)
OFF_BY = st.sampled_from([0] * 40 + [1, -1])
"""How far a change is from the one that fits."""

_WEIGHTED: list[tuple[int, str | type[Change], tuple[st.SearchStrategy[object], ...]]] = [
    (12, "append", (PICK, SMALL, HELD_BY, OFF_BY, OFF_BY)),
    (10, "advance", (PICK, PRODUCER, SMALL, OFF_BY, OFF_BY)),
    (12, "append_open", (PICK, SMALL, HELD_BY, OFF_BY)),
    (3, "begin", (PRODUCER, OFF_BY)),
    (14, "end", (PICK, st.booleans(), OFF_BY)),
    (8, "stage", (GROUP, PICK, SMALL, OFF_BY)),
    (4, "set_id", (st.sampled_from(TRANSACTIONAL_IDS), PICK, st.sampled_from(Phase), OFF_BY)),
    (1, "repeat", (PICK, PRODUCER)),
    (1, ProducerIdsAllotted, (SMALL,)),
    (4, "move_start", (PICK, SMALL, OFF_BY)),
    (4, "move_leader", (PICK, STORE, OFF_BY)),
    (4, "commit", (GROUP, PICK, SMALL, st.sampled_from([None, "", "m"]))),
    (2, "delete_position", (GROUP, PICK)),
    (4, "save", (GROUP, st.sampled_from([(), (MEMBER,)]), st.sampled_from([0, 1, 1, 1, -1]))),
    (1, GroupDeleted, (GROUP,)),
    (2, "create", (PICK, REPLICAS, CONFIGS, OFF_BY)),
    (1, "add_partitions", (PICK, REPLICAS, OFF_BY)),
    (1, "configure", (PICK, CONFIGS)),
    *(
        (1, make, tuple(st.sampled_from(choices) for choices in arguments))
        for _, make, arguments in replica_drafts.WEIGHTED
    ),
    (1, "delete", (PICK,)),
]

DRAFT = st.sampled_from(
    [
        draft
        for weight, make, arguments in _WEIGHTED
        for draft in [st.builds(Draft, st.just(make), st.tuples(*arguments))] * weight
    ]
).flatmap(lambda draft: draft)
