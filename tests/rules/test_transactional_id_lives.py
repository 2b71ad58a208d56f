"""Whole lives of one transactional id: random requests, late and repeated ones too, and the epochs used up."""

from itertools import count
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.errors import KafkaRefusal
from holdfast.rules.transaction import NO_INSTANCE
from holdfast.rules.transactional_id import (
    EPOCH_LAST,
    TransactionalId,
    begin,
    check_producer,
    end,
    fence,
    initialise,
)

ENDS = 40_000
Producer = tuple[int, int]


class Life:
    """One id with all producers that it ever had; every step is held to what must never happen."""

    def __init__(self, epoch: int) -> None:
        self.state = TransactionalId(producer_id=1, epoch=epoch, timeout_ms=1)
        self.given: list[Producer] = [(1, epoch)]
        self._spares = count(2)
        self._instances = count(1)

    @property
    def owner(self) -> Producer:
        return self.state.producer_id, self.state.epoch

    def producer(self, back: int) -> Producer:
        """The present one (0) or an earlier one; the first of all if there are not so many."""
        return self.given[max(len(self.given) - 1 - back, 0)]

    def initialise(self, back: int | None) -> None:
        claimed = None if back is None else self.producer(back)
        self._hand(initialise(self.state, claimed=claimed, timeout_ms=1, spare_producer_id=self._spare()))
        if claimed is not None:
            retried = initialise(self.state, claimed=claimed, timeout_ms=1, spare_producer_id=None)
            assert retried is self.state

    def begin(self) -> None:
        if self.state.instance == NO_INSTANCE and self.owner in self.given:
            before = self.state
            self.state = begin(before, instance=next(self._instances), now_ms=0)
            assert self.state.turn == before.turn

    def end(self, back: int, commit: bool, bump: bool, announced: bool) -> None:
        producer_id, epoch = self.producer(back)

        def ask(state: TransactionalId, announced: bool) -> TransactionalId:
            return end(
                state,
                producer_id=producer_id,
                epoch=epoch,
                commit=commit,
                bump=bump,
                announced=announced,
                spare_producer_id=self._spare(),
            )

        self._hand(ask(self.state, announced))
        assert ask(self.state, False) is self.state, "a retry changes nothing"

    def fence(self) -> None:
        self._move(fence(self.state))

    def _spare(self) -> int:
        return next(self._spares)

    def _hand(self, state: TransactionalId) -> None:
        """A producer gets this state for an answer."""
        assert state.epoch < EPOCH_LAST
        self._move(state)
        if self.owner != self.given[-1]:
            assert self.owner not in self.given, "an epoch of a producer id is given once"
            self.given.append(self.owner)

    def _move(self, state: TransactionalId) -> None:
        if state is self.state:
            return
        assert state.turn == self.state.turn + 1
        self.state = state

    def check(self) -> None:
        """Nobody passes but the last producer that was given the id, unless it was fenced since."""
        for producer_id, epoch in self.given:
            if (producer_id, epoch) != self.owner:
                with pytest.raises(KafkaRefusal):
                    check_producer(self.state, producer_id=producer_id, epoch=epoch)
        if self.owner in self.given:
            assert self.owner == self.given[-1]


class Step(NamedTuple):
    """A method of `Life` and what to call it with."""

    name: str
    arguments: tuple[object, ...]


BACK = st.sampled_from([0, 0, 0, 1, 1, 2, 3])
BOOL = st.booleans()
STEP = st.one_of(
    st.builds(Step, st.just("initialise"), st.tuples(st.none() | BACK)),
    st.builds(Step, st.just("begin"), st.just(())),
    st.builds(Step, st.just("begin"), st.just(())),
    st.builds(Step, st.just("end"), st.tuples(BACK, BOOL, BOOL, BOOL)),
    st.builds(Step, st.just("end"), st.tuples(BACK, BOOL, BOOL, BOOL)),
    st.builds(Step, st.just("fence"), st.just(())),
)
EPOCH = st.sampled_from([0, EPOCH_LAST - 4, EPOCH_LAST - 2, EPOCH_LAST - 1])


@settings(max_examples=200)
@given(EPOCH, st.lists(STEP, min_size=5, max_size=30))
@example(EPOCH_LAST - 1, [Step("fence", ()), Step("initialise", (0,))])
def test_whatever_is_asked(epoch: int, steps: list[Step]) -> None:
    """Turns only grow, nobody gets what another had, and no retry changes anything; a refusal changes nothing."""
    life = Life(epoch)
    for step in steps:
        before = life.state
        try:
            getattr(life, step.name)(*step.arguments)
        except KafkaRefusal:
            assert life.state is before
        life.check()


def test_the_ids_rotate_and_every_retry_is_answered() -> None:
    """More ends than a producer id has epochs, each asked for twice."""
    state = TransactionalId(producer_id=1, epoch=0, timeout_ms=1)
    for number in range(1, ENDS + 1):
        asking = begin(state, instance=number, now_ms=0)
        told: list[TransactionalId] = []
        for _ in range(2):
            state = end(
                told[-1] if told else asking,
                producer_id=asking.producer_id,
                epoch=asking.epoch,
                commit=True,
                bump=True,
                announced=False,
                spare_producer_id=2,
            )
            told.append(state)
        assert told[0] is told[1]
        assert (state.producer_id, state.epoch) == (1 + number // EPOCH_LAST, number % EPOCH_LAST)
    assert state.turn == 1 + ENDS
