"""Random requests of two transactional ids, late and repeated ones too, in random groups, some of which fail.

Held against an account of its own: which records and positions belong to which turn of which id, and how it ended.
"""

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.plan import CommitPlan
from holdfast.agent.transactions.plan import Membership
from holdfast.errors import KafkaRefusal
from holdfast.rules.producer import sequence_after
from holdfast.rules.transaction import NO_INSTANCE, Outcome
from holdfast.rules.transactional_id import TransactionalId
from holdfast.store.footer import GroupOffsetCommitted
from tests.agent.transactions.planning import TOPIC, A, B, World, append, batch, fence, stage

NAMES = ("s", "t")
Turn = tuple[str, int]
Position = tuple[int, int]
"""The newest counts: (when it was written, the offset)."""
ACCEPTED_MIN = 100


@dataclass
class Account:
    """What must be true once it is committed."""

    outcomes: dict[Turn, Outcome] = field(default_factory=dict)
    written: dict[tuple[PartitionKey, int], Turn | None] = field(default_factory=dict)
    staged: dict[Turn, dict[int, Position]] = field(default_factory=dict)
    positions: dict[int, Position] = field(default_factory=dict)

    def end(self, turn: Turn, outcome: Outcome) -> None:
        """The turn is over."""
        self.outcomes[turn] = outcome
        if outcome is Outcome.COMMITTED:
            for partition, position in self.staged.get(turn, {}).items():
                self.positions[partition] = max(position, self.positions.get(partition, position))


class Life:
    """Requests come in one by one; a commit takes those since the last."""

    def __init__(self) -> None:
        self.accepted: Counter[str] = Counter()
        self._times = count()
        self._world = World()
        self._account = Account()
        self._had: dict[str, list[TransactionalId]] = {name: [] for name in NAMES}
        for name in NAMES:
            self._had[name].append(self._world.start(name))
        self._begin()

    def _begin(self) -> None:
        self._plan: CommitPlan = self._world.plan()
        self._planned = deepcopy(self._account)

    def commit(self) -> None:
        """All that was planned is durable."""
        self._world.commit(self._plan)
        self._account = self._planned
        self._begin()
        self._check()

    def fail(self) -> None:
        """Nothing of it is; but producers may have been told, or believe it."""
        self._begin()
        self._check()

    def write(
        self, name: str, back: int, key: PartitionKey, turn_back: int | None, transactional: bool
    ) -> None:
        """A batch that continues the producer's sequence."""
        who = self._producer(name, back)
        state = self._plan.tail(key).producers.get(who.producer_id)
        goes_on = state is not None and state.epoch == who.epoch
        sequence = sequence_after(state.last_sequence) if state is not None and goes_on else 0
        membership = self._membership(name, turn_back) if transactional else None
        written = append(self._plan, key, batch(who, sequence, transactional=transactional), membership)
        turn = self._turn_of(name) if transactional else None
        assert membership is None or membership.turn in (None, self._turn_of(name)[1]), "too late"
        self._planned.written[key, written.first_offset] = turn

    def stage(self, name: str, back: int, turn_back: int | None, partition: int, offset: int) -> None:
        """A position of the group."""
        stage(self._plan, self._producer(name, back), self._membership(name, turn_back), offset, partition)
        self._planned.staged.setdefault(self._turn_of(name), {})[partition] = (next(self._times), offset)

    def commit_offset(self, partition: int, offset: int) -> None:
        """A position without a transaction."""
        self._plan.changes.append(GroupOffsetCommitted("g", TOPIC, partition, offset, -1, None, 1))
        self._planned.positions[partition] = (next(self._times), offset)

    def end(self, name: str, back: int, commit: bool, bump: bool, announced: bool) -> None:
        """EndTxn."""
        turn = self._turn_of(name)
        who = self._producer(name, back)
        state = self._world.end(
            self._plan, who, name, commit=commit, bump=bump, announced_turn=turn[1] if announced else None
        )
        self._move(turn, state, Outcome.COMMITTED if commit else Outcome.ABORTED)

    def initialise(self, name: str, back: int | None) -> None:
        """InitProducerId, perhaps with a claim."""
        claimed = None
        if back is not None:
            who = self._producer(name, back)
            claimed = (who.producer_id, who.epoch)
        turn = self._turn_of(name)
        self._move(turn, self._world.initialise(name, self._plan, claimed), Outcome.ABORTED)

    def fence(self, name: str, announced: bool) -> None:
        """A time-out."""
        turn = self._turn_of(name)
        state = self._plan.transactions.find(name)
        assert state is not None
        if fence(self._plan, state, name, announced=announced):
            self._planned.end(turn, Outcome.ABORTED)

    def _move(self, turn: Turn, state: TransactionalId, outcome: Outcome) -> None:
        if state.turn != turn[1]:
            self._planned.end(turn, outcome)
        self._had[turn[0]].append(state)

    def _producer(self, name: str, back: int) -> TransactionalId:
        return self._had[name][max(len(self._had[name]) - 1 - back, 0)]

    def _turn_of(self, name: str) -> Turn:
        state = self._plan.transactions.find(name)
        assert state is not None
        return name, state.turn

    def _membership(self, name: str, turn_back: int | None) -> Membership:
        return Membership(name, None if turn_back is None else self._turn_of(name)[1] - turn_back)

    def _check(self) -> None:
        """The control plane says of every record and position what the account says."""
        plane = self._world.plane
        for key in (A, B):
            found: dict[int, Outcome | None] = {}
            bounds, extents = plane.find_extents(*key, 0, 1 << 30)
            for extent in extents:
                assert (extent.instance == NO_INSTANCE) == (extent.outcome is None)
                found |= dict.fromkeys(range(extent.first, extent.last + 1), extent.outcome)
            expected = {
                offset: None if turn is None else self._account.outcomes.get(turn, Outcome.OPEN)
                for (where, offset), turn in self._account.written.items()
                if where == key
            }
            assert found == expected
            opened = [offset for offset, outcome in found.items() if outcome is Outcome.OPEN]
            assert bounds.last_stable == min(opened, default=bounds.end)
        positions = {each.partition: each.offset for each in plane.find_group_offsets("g")}
        assert positions == {partition: offset for partition, (_, offset) in self._account.positions.items()}


class Step(NamedTuple):
    """A method of `Life` and what to call it with."""

    name: str
    arguments: tuple[object, ...]


NAME = st.sampled_from(NAMES)
BACK = st.sampled_from([0, 0, 0, 0, 1, 2])
KEY = st.sampled_from([A, B])
TURN_BACK = st.sampled_from([None, None, 0, 0, 0, 1])
BOOL = st.booleans()
MOSTLY = st.sampled_from([True, True, True, False])
_WEIGHTED: list[tuple[int, str, tuple[st.SearchStrategy[object], ...]]] = [
    (8, "write", (NAME, BACK, KEY, TURN_BACK, MOSTLY)),
    (3, "stage", (NAME, BACK, TURN_BACK, st.integers(0, 1), st.integers(0, 99))),
    (2, "commit_offset", (st.integers(0, 1), st.integers(0, 99))),
    (4, "end", (NAME, BACK, BOOL, BOOL, BOOL)),
    (1, "initialise", (NAME, st.none() | BACK)),
    (1, "fence", (NAME, BOOL)),
    (4, "commit", ()),
    (1, "fail", ()),
]
STEP = st.sampled_from(
    [
        step
        for weight, name, arguments in _WEIGHTED
        for step in [st.builds(Step, st.just(name), st.tuples(*arguments))] * weight
    ]
).flatmap(lambda step: step)


def test_every_record_is_in_the_transaction_that_it_was_written_for() -> None:
    """Whatever is asked, in whatever groups; no plan is refused when it is recorded."""
    accepted: Counter[str] = Counter()

    @settings(max_examples=100)
    @given(st.lists(STEP, min_size=20, max_size=60))
    def run(steps: list[Step]) -> None:
        life = Life()
        for step in steps:
            try:
                getattr(life, step.name)(*step.arguments)
            except KafkaRefusal:
                continue
            accepted[step.name] += 1
        life.commit()

    run()
    assert not [name for _, name, _ in _WEIGHTED if accepted[name] < ACCEPTED_MIN], accepted
