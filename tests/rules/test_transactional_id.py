"""One transactional id: who may write, how a transaction ends, and whom a retry is answered."""

import pytest

from holdfast.errors import (
    CoordinatorNotAvailable,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
)
from holdfast.rules.producer import NO_PRODUCER_ID
from holdfast.rules.transaction import NO_INSTANCE
from holdfast.rules.transactional_id import (
    EPOCH_LAST,
    NO_EPOCH,
    Phase,
    TransactionalId,
    begin,
    check_producer,
    end,
    fence,
    initialise,
)

P, SPARE = 7, 8
LAST_GIVEN = EPOCH_LAST - 1
"""The last epoch that a producer gets."""


def owned(epoch: int = 0, phase: Phase = Phase.EMPTY, instance: int = NO_INSTANCE) -> TransactionalId:
    """The id as producer P has it, in turn 5."""
    return TransactionalId(
        producer_id=P, epoch=epoch, timeout_ms=60_000, phase=phase, instance=instance, turn=5
    )


def opened(epoch: int = 0) -> TransactionalId:
    return begin(owned(epoch), instance=3, now_ms=1000)


def again(
    state: TransactionalId | None, claimed: tuple[int, int] | None = None, *, spare: int | None = SPARE
) -> TransactionalId:
    return initialise(state, claimed=claimed, timeout_ms=30_000, spare_producer_id=spare)


def ended(
    state: TransactionalId | None,
    producer: tuple[int, int] = (P, 0),
    *,
    commit: bool = True,
    bump: bool = True,
    announced: bool = False,
    spare: int | None = SPARE,
) -> TransactionalId:
    return end(
        state,
        producer_id=producer[0],
        epoch=producer[1],
        commit=commit,
        bump=bump,
        announced=announced,
        spare_producer_id=spare,
    )


def identity(state: TransactionalId) -> tuple[int, int]:
    return state.producer_id, state.epoch


def test_a_new_id_gets_a_producer_id_of_its_own() -> None:
    """It begins at epoch 0, in a turn that is not the one of nobody."""
    expected = TransactionalId(producer_id=SPARE, epoch=0, timeout_ms=30_000)
    assert again(None) == expected
    assert (expected.turn, expected.phase, expected.previous) == (
        1,
        Phase.EMPTY,
        (NO_PRODUCER_ID, NO_EPOCH),
    )


def test_a_claim_to_an_id_that_nobody_remembers_is_a_new_beginning() -> None:
    """Kafka takes it, too."""
    assert again(None, (P, 4)) == again(None)


def test_the_next_process_gets_the_next_epoch_and_its_own_timeout() -> None:
    """And nobody is taken for the one before: a claim by its epoch is fenced."""
    state = again(owned(4))
    assert (identity(state), state.timeout_ms, state.turn) == ((P, 5), 30_000, 6)
    with pytest.raises(ProducerFenced):
        again(state, (P, 4))


def test_what_was_open_is_given_up() -> None:
    """The id forgets the instance and its beginning; the caller aborts it."""
    state = again(opened())
    assert (state.phase, state.instance, state.started_ms) == (Phase.EMPTY, NO_INSTANCE, -1)


@pytest.mark.parametrize("phase", [Phase.EMPTY, Phase.COMMITTED, Phase.ABORTED])
def test_the_right_claim_gets_the_next_epoch(phase: Phase) -> None:
    """KIP-360: a producer that lost its way goes on under another epoch."""
    assert identity(again(owned(4, phase), (P, 4))) == (P, 5)


def test_the_right_claim_gives_up_what_was_open() -> None:
    """The same for a transaction under way."""
    state = again(opened(4), (P, 4))
    assert (identity(state), state.instance) == ((P, 5), NO_INSTANCE)


@pytest.mark.parametrize("claimed", [(P, 3), (P, 5), (SPARE, 4), (P, NO_EPOCH)])
@pytest.mark.parametrize("instance", [NO_INSTANCE, 3])
def test_a_wrong_claim_is_fenced(claimed: tuple[int, int], instance: int) -> None:
    """An older epoch, a newer one, another producer's."""
    with pytest.raises(ProducerFenced):
        again(owned(4, instance=instance), claimed)


def test_a_retried_claim_is_answered_once_more() -> None:
    """The same epoch, nothing changed."""
    state = again(owned(4), (P, 4))
    assert again(state, (P, 4)) is state


def test_a_retried_claim_does_not_give_up_what_was_begun_since() -> None:
    """Its producer has the answer and uses it: this is a late packet."""
    state = begin(again(owned(4), (P, 4)), instance=3, now_ms=0)
    with pytest.raises(ProducerFenced):
        again(state, (P, 4))


def test_a_producer_may_claim_what_the_end_of_its_transaction_replaced() -> None:
    """The answer to its EndTxn was lost, and it asks for an epoch with what it knows."""
    state = ended(opened(4), (P, 4))
    assert again(state, (P, 4)) is state
    assert identity(again(state, (P, 5))) == (P, 6)


@pytest.mark.parametrize("claimed", [None, (P, LAST_GIVEN)])
@pytest.mark.parametrize("state", [owned(LAST_GIVEN), opened(LAST_GIVEN)], ids=["idle", "open"])
def test_used_up_epochs_give_way_to_another_producer_id(
    state: TransactionalId, claimed: tuple[int, int] | None
) -> None:
    """From epoch 0 on; a retry of the claim under the old producer id is answered."""
    rotated = again(state, claimed)
    assert identity(rotated) == (SPARE, 0)
    if claimed is not None:
        assert again(rotated, claimed, spare=9) is rotated


def test_the_last_epoch_but_one_is_still_given() -> None:
    """EPOCH_LAST itself never is."""
    assert identity(again(owned(LAST_GIVEN - 1))) == (P, LAST_GIVEN)
    assert identity(ended(opened(LAST_GIVEN - 1), (P, LAST_GIVEN - 1))) == (P, LAST_GIVEN)


@pytest.mark.parametrize("epoch", [0, LAST_GIVEN])
def test_a_missing_spare_id_is_asked_for(epoch: int) -> None:
    """Where one is needed, and only there: somebody used up the epochs while the request waited."""
    with pytest.raises(CoordinatorNotAvailable):
        again(None, spare=None)
    if epoch == LAST_GIVEN:
        with pytest.raises(CoordinatorNotAvailable):
            again(owned(epoch), spare=None)
        with pytest.raises(CoordinatorNotAvailable):
            ended(opened(epoch), (P, epoch), spare=None)
    else:
        assert again(owned(epoch), spare=None) == again(owned(epoch))
        assert ended(opened(epoch), spare=None) == ended(opened(epoch))


def test_beginning_keeps_the_turn() -> None:
    """Nobody loses the right to write by it."""
    assert opened() == owned()._replace(phase=Phase.ONGOING, instance=3, started_ms=1000)


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_of_the_first_generation_keeps_the_epoch(commit: bool) -> None:
    """TV1: the turn alone tells the next transaction from this one."""
    phase = Phase.COMMITTED if commit else Phase.ABORTED
    state = ended(opened(), commit=commit, bump=False)
    assert state == owned(phase=phase)._replace(turn=6, started_ms=1000)
    assert ended(state, commit=commit, bump=False) is state
    with pytest.raises(InvalidTxnState):
        ended(state, commit=not commit, bump=False)


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_of_the_second_generation_goes_on_under_the_next_epoch(commit: bool) -> None:
    """TV2, KIP-890: a retry names the epoch before; the other outcome is refused."""
    state = ended(opened(), commit=commit)
    assert (identity(state), state.turn, state.previous) == ((P, 1), 6, (P, 0))
    phase = Phase.COMMITTED if commit else Phase.ABORTED
    assert (state.phase, state.instance, state.started_ms) == (phase, NO_INSTANCE, 1000)
    assert ended(state, commit=commit) is state
    with pytest.raises(InvalidTxnState):
        ended(state, commit=not commit)


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_is_retried_under_the_producer_id_that_it_replaced(commit: bool) -> None:
    """At 400 transactions a second the epochs last for 80 seconds."""
    state = ended(opened(LAST_GIVEN), (P, LAST_GIVEN), commit=commit)
    assert identity(state) == (SPARE, 0)
    assert ended(state, (P, LAST_GIVEN), commit=commit, spare=None) is state
    with pytest.raises(InvalidTxnState):
        ended(state, (P, LAST_GIVEN), commit=not commit)
    assert again(state, (P, LAST_GIVEN), spare=None) is state


@pytest.mark.parametrize("epoch", [0, LAST_GIVEN], ids=["next epoch", "next producer id"])
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("announced", [True, False], ids=["announced", "begun"])
def test_a_late_end_does_not_reach_the_next_transaction(epoch: int, commit: bool, announced: bool) -> None:
    """It is fenced, as Kafka says, whether the next one has data yet or not."""
    following = ended(opened(epoch), (P, epoch))
    if not announced:
        following = begin(following, instance=4, now_ms=0)
    with pytest.raises(ProducerFenced):
        ended(following, (P, epoch), commit=commit, announced=announced)


def test_a_claim_is_no_end() -> None:
    """Who has claimed the id anew cannot end anything under the epoch before."""
    with pytest.raises(ProducerFenced):
        ended(again(owned(), (P, 0)), (P, 0), commit=False)


@pytest.mark.parametrize("phase", [Phase.EMPTY, Phase.COMMITTED, Phase.ABORTED])
def test_nothing_cannot_be_committed(phase: Phase) -> None:
    """INVALID_TXN_STATE; but under TV1 it may be the retry of a commit."""
    with pytest.raises(InvalidTxnState):
        ended(owned(phase=phase))
    if phase is not Phase.COMMITTED:
        with pytest.raises(InvalidTxnState):
            ended(owned(phase=phase), bump=False)


@pytest.mark.parametrize("phase", [Phase.EMPTY, Phase.COMMITTED, Phase.ABORTED])
def test_nothing_can_be_aborted_under_the_second_generation(phase: Phase) -> None:
    """TV2: a producer that does not know how far its batches came is on the safe side afterwards."""
    state = ended(owned(phase=phase), commit=False)
    assert (identity(state), state.phase) == ((P, 1), Phase.ABORTED)
    assert ended(state, commit=False) is state
    if phase is not Phase.ABORTED:
        with pytest.raises(InvalidTxnState):
            ended(owned(phase=phase), commit=False, bump=False)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("bump", [True, False])
@pytest.mark.parametrize("phase", [Phase.EMPTY, Phase.COMMITTED, Phase.ABORTED])
def test_what_was_only_announced_ends_well(commit: bool, bump: bool, phase: Phase) -> None:
    """Partitions were added and nothing was written: a transaction all the same, with a turn of its own."""
    state = ended(owned(phase=phase), commit=commit, bump=bump, announced=True)
    assert state.phase is (Phase.COMMITTED if commit else Phase.ABORTED)
    assert (state.turn, state.epoch) == (6, 1 if bump else 0)


@pytest.mark.parametrize("bump", [True, False])
def test_strangers_end_nothing(bump: bool) -> None:
    """An id that nobody has initialised, another producer's, an old epoch, a newer one."""
    with pytest.raises(InvalidProducerIdMapping):
        ended(None, bump=bump)
    with pytest.raises(InvalidProducerIdMapping):
        ended(opened(4), (SPARE, 4), bump=bump)
    for epoch in (3, 5):
        with pytest.raises(ProducerFenced):
            ended(opened(4), (P, epoch), bump=bump)


def test_a_retry_of_the_first_generation_needs_the_present_epoch() -> None:
    """Only TV2 names the epoch before."""
    state = ended(opened())
    with pytest.raises(ProducerFenced):
        ended(state, bump=False)


def test_a_fenced_producer_may_come_back() -> None:
    """After a time-out: by naming what it had, or by asking for the abort that has happened."""
    state = fence(opened(4))
    assert (identity(state), state.phase, state.instance, state.turn) == (
        (P, 5),
        Phase.ABORTED,
        NO_INSTANCE,
        6,
    )
    assert again(state, (P, 4)) is state
    assert ended(state, (P, 4), commit=False) is state
    with pytest.raises(InvalidTxnState):
        ended(state, (P, 4), commit=True)
    for commit in (True, False):
        with pytest.raises(ProducerFenced):
            ended(state, (P, 4), commit=commit, bump=False)


def test_a_producer_fenced_at_its_last_epoch_comes_back_under_another_id() -> None:
    """EPOCH_LAST is given to nobody, by whichever request it comes."""
    state = fence(opened(LAST_GIVEN))
    assert identity(state) == (P, EPOCH_LAST)
    came_back = again(state, (P, LAST_GIVEN))
    aborted = ended(state, (P, LAST_GIVEN), commit=False)
    assert [identity(came_back), identity(aborted)] == [(SPARE, 0), (SPARE, 0)]
    assert (aborted.phase, came_back.phase) == (Phase.ABORTED, Phase.EMPTY)
    assert again(came_back, (P, LAST_GIVEN), spare=None) is came_back
    assert ended(aborted, (P, LAST_GIVEN), commit=False, spare=None) is aborted
    with pytest.raises(InvalidTxnState):
        ended(state, (P, LAST_GIVEN), commit=True)
    assert identity(again(state)) == (SPARE, 0)


def test_nobody_writes_under_the_epoch_that_fences() -> None:
    """Not even who guesses it; a second fence does not pass it."""
    state = fence(opened(LAST_GIVEN))
    with pytest.raises(ProducerFenced):
        check_producer(state, producer_id=P, epoch=EPOCH_LAST)
    assert fence(state).epoch == EPOCH_LAST


def test_only_the_owner_passes() -> None:
    """The present producer id under the present epoch."""
    state = owned(4)
    assert check_producer(state, producer_id=P, epoch=4) is state
    for epoch in (3, 5):
        with pytest.raises(ProducerFenced):
            check_producer(state, producer_id=P, epoch=epoch)
    with pytest.raises(InvalidProducerIdMapping):
        check_producer(state, producer_id=SPARE, epoch=4)
    with pytest.raises(InvalidProducerIdMapping):
        check_producer(None, producer_id=P, epoch=4)
