"""Planning transactions: what belongs to which instance, who is refused, and nothing known before it is durable."""

from copy import deepcopy
from typing import Any

import pytest

from holdfast.agent.transactions.plan import KnownTransactions, Membership
from holdfast.errors import (
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    OutOfOrderSequence,
    ProducerFenced,
    TransactionAbortable,
    UnknownTopicOrPartition,
)
from holdfast.rules.transaction import NO_INSTANCE, Outcome
from holdfast.rules.transactional_id import Phase
from holdfast.store.footer import ExtentAppended, TransactionalIdSet, TransactionBegun, TransactionEnded
from tests.agent.batches import NOW_MS
from tests.agent.transactions.planning import TOPIC, A, B, World, append, batch, fence, sealed, stage


@pytest.fixture
def world() -> World:
    """Nobody has used a transactional id yet."""
    return World()


def extents(world: World) -> list[tuple[int, int, int, Outcome | None]]:
    _, found = world.plane.find_extents(*A, 0, 1 << 30)
    return [(each.first, each.last, each.instance, each.outcome) for each in found]


def all_known(known: KnownTransactions) -> Any:
    return deepcopy((known.by_name, known.open, known.partitions, known.next_instance))


def test_extents_are_cut_where_the_instance_changes(world: World) -> None:
    """Batches keep their order; each extent belongs to one instance or to none."""
    s, t, plain = world.start("s"), world.start("t"), world.start("plain")
    plan = world.plan()
    of_s, of_t = Membership("s", s.turn), Membership("t", t.turn)
    append(plan, A, batch(s, 0, count=2), of_s)
    append(plan, A, batch(s, 2, count=2), of_s)
    append(plan, A, batch(t, 0, count=2), of_t)
    append(plan, A, batch(plain, 0, transactional=False))
    append(plan, A, batch(s, 4, count=2), of_s)
    append(plan, B, batch(t, 0), of_t)
    cut = [(each.partition, each.first, each.last, each.instance) for each in sealed(plan, ExtentAppended)]
    assert cut == [(0, 0, 3, 1), (0, 4, 5, 2), (0, 6, 6, NO_INSTANCE), (0, 7, 8, 1), (1, 0, 0, 2)]
    bodies, _ = plan.seal()
    lengths = [each.length_bytes for each in sealed(plan, ExtentAppended)]
    assert sum(lengths) == sum(len(part) for part in bodies[1])
    world.commit(plan)
    assert world.plane.find_bounds(*A).last_stable == 0


def test_the_first_durable_thing_begins_the_transaction(world: World) -> None:
    """Once, with the time that people are shown; the next commits go on with it."""
    t = world.start()
    membership = Membership("t", t.turn)
    plan = world.plan()
    append(plan, A, batch(t, 0), membership)
    append(plan, A, batch(t, 1), membership)
    assert sealed(plan, TransactionBegun) == [TransactionBegun(1, t.producer_id)]
    assert world.commit(plan) == set(), "nothing becomes stable"
    plan = world.plan()
    append(plan, B, batch(t, 0), membership)
    assert not sealed(plan, TransactionBegun)
    assert not sealed(plan, TransactionalIdSet)
    world.commit(plan)
    state = world.plane.find_transactional_id("t")
    assert state is not None
    assert (state.phase, state.instance, state.started_ms, state.turn) == (Phase.ONGOING, 1, NOW_MS, t.turn)
    assert world.known.partitions == {1: {A, B}}


@pytest.mark.parametrize("bump", [False, True], ids=["TV1", "TV2"])
def test_begun_and_ended_in_one_commit(world: World, bump: bool) -> None:
    """The footer begins it, fills it and ends it, in this order."""
    t = world.start()
    membership = Membership("t", None if bump else t.turn)
    plan = world.plan()
    append(plan, A, batch(t, 0), membership)
    stage(plan, t, membership, 5)
    answer = world.end(plan, t, bump=bump)
    _, changes = plan.seal()
    kinds = [change.kind for change in changes]
    assert kinds == [
        "transaction-begun",
        "producer",
        "group-offset-staged",
        "extent",
        "transaction-ended",
        "transactional-id",
    ]
    assert world.commit(plan) == {A}
    assert world.plane.find_transactional_id("t") == answer
    assert extents(world) == [(0, 0, 1, Outcome.COMMITTED)]
    assert [position.offset for position in world.plane.find_group_offsets("g")] == [5]


@pytest.mark.parametrize("bump", [False, True], ids=["TV1", "TV2"])
def test_ended_and_begun_again_in_one_commit(world: World, bump: bool) -> None:
    """The next transaction of the same id has an instance of its own, and stays open."""
    t = world.start()
    plan = world.plan()
    append(plan, A, batch(t, 0), Membership("t", None if bump else t.turn))
    stage(plan, t, Membership("t", None if bump else t.turn), 5)
    following = world.end(plan, t, bump=bump, commit=False)
    membership = Membership("t", None if bump else following.turn)
    append(plan, A, batch(following, 0 if bump else 1), membership)
    append(plan, B, batch(following, 0), membership)
    stage(plan, following, membership, 6)
    assert world.commit(plan) == {A}
    assert extents(world) == [(0, 0, 1, Outcome.ABORTED), (1, 1, 2, Outcome.OPEN)]
    assert world.known.open == {t.producer_id: 2}
    assert [world.plane.find_bounds(*key).last_stable for key in (A, B)] == [1, 0]
    plan = world.plan()
    world.end(plan, following, bump=bump)
    assert world.commit(plan) == {A, B}
    assert [position.offset for position in world.plane.find_group_offsets("g")] == [6]


def test_the_producer_id_rotates_between_two_transactions_of_one_commit(world: World) -> None:
    """Each instance is its own producer's."""
    t = world.start()
    for _ in range(32_766):
        plan = world.plan()
        t = world.end(plan, t, bump=True, commit=False)
        world.known.by_name["t"] = t
    plan = world.plan()
    append(plan, A, batch(t, 0), Membership("t", None))
    following = world.end(plan, t, bump=True)
    assert following.producer_id != t.producer_id
    append(plan, A, batch(following, 0), Membership("t", None))
    with pytest.raises(InvalidProducerIdMapping):
        append(plan, A, batch(t, 1), Membership("t", None))
    assert sealed(plan, TransactionBegun) == [
        TransactionBegun(1, t.producer_id),
        TransactionBegun(2, following.producer_id),
    ]
    assert not plan.transactions.has_open(t.producer_id, A)
    assert plan.transactions.has_open(following.producer_id, A)


@pytest.mark.parametrize("same_commit", [True, False])
def test_what_was_taken_in_before_the_end_comes_too_late(world: World, same_commit: bool) -> None:
    """TV1 keeps the epoch: the turn says that the batch, or the position, meant the transaction before."""
    t = world.start()
    plan = world.plan()
    late = Membership("t", t.turn)
    append(plan, A, batch(t, 0), late)
    world.end(plan, t)
    if not same_commit:
        world.commit(plan)
        plan = world.plan()
    for key in (A, B):
        with pytest.raises(TransactionAbortable):
            append(plan, key, batch(t, 1), late)
    with pytest.raises(TransactionAbortable):
        stage(plan, t, late, 5)
    world.commit(plan)
    assert world.known.open == {}
    assert extents(world) == [(0, 0, 1, Outcome.COMMITTED)]


@pytest.mark.parametrize("how", ["initialise", "claim", "fence", "end"])
def test_a_fenced_producer_writes_nothing(world: World, how: str) -> None:
    """It hears of its epoch, as from Kafka, for batches and positions; its transaction is aborted."""
    t = world.start()
    plan = world.plan()
    append(plan, A, batch(t, 0), Membership("t", None))
    stage(plan, t, Membership("t", None), 5)
    world.commit(plan)
    plan = world.plan()
    if how == "initialise":
        world.initialise("t", plan)
    elif how == "claim":
        world.initialise("t", plan, (t.producer_id, t.epoch))
    elif how == "fence":
        assert fence(plan, t)
    else:
        world.end(plan, t, bump=True, commit=False)
    for key, sequence in ((A, 1), (B, 0)):
        with pytest.raises(InvalidProducerEpoch):
            append(plan, key, batch(t, sequence), Membership("t", None))
        with pytest.raises(InvalidProducerEpoch):
            append(plan, key, batch(t, sequence), Membership("t", t.turn))
    with pytest.raises(InvalidProducerEpoch):
        stage(plan, t, Membership("t", None), 6)
    assert sealed(plan, TransactionEnded) == [TransactionEnded(1, False, NOW_MS)]
    assert world.commit(plan) == {A}
    assert extents(world) == [(0, 0, 1, Outcome.ABORTED)]
    assert world.plane.find_group_offsets("g") == []


def test_strangers_write_nothing(world: World) -> None:
    """An id that nobody has initialised, and the producer of another id."""
    s, t = world.start("s"), world.start("t")
    plan = world.plan()
    for who, name in ((t, "nobody"), (s, "t")):
        with pytest.raises(InvalidProducerIdMapping):
            append(plan, A, batch(who, 0), Membership(name, None))
        with pytest.raises(InvalidProducerIdMapping):
            stage(plan, who, Membership(name, None), 5)
        with pytest.raises(InvalidProducerIdMapping):
            world.end(plan, who, name)
    assert plan.seal()[1] == []


@pytest.mark.parametrize("same_commit", [True, False])
def test_nothing_plain_comes_between(world: World, same_commit: bool) -> None:
    """A producer's plain batch is refused where its transaction is open, taken elsewhere and afterwards."""
    t = world.start()
    plan = world.plan()
    append(plan, A, batch(t, 0), Membership("t", None))
    if not same_commit:
        world.commit(plan)
        plan = world.plan()
    with pytest.raises(InvalidTxnState):
        append(plan, A, batch(t, 1, transactional=False))
    assert append(plan, B, batch(t, 0, transactional=False)).first_offset == 0
    world.end(plan, t)
    assert append(plan, A, batch(t, 1, transactional=False)).first_offset == 1
    world.commit(plan)
    assert extents(world) == [(0, 0, 1, Outcome.COMMITTED), (1, 1, NO_INSTANCE, None)]
    assert world.plane.find_bounds(*A).last_stable == 2


@pytest.mark.parametrize("turn", [True, False], ids=["TV1", "TV2"])
def test_a_repeat_is_answered_and_begins_nothing(world: World, turn: bool) -> None:
    """With the first offset, in the same commit, in a later one, and after the end."""
    t = world.start()
    membership = Membership("t", t.turn if turn else None)
    plan = world.plan()
    first = append(plan, A, batch(t, 0), membership)
    assert append(plan, A, batch(t, 0), membership) == first
    world.commit(plan)
    plan = world.plan()
    assert append(plan, A, batch(t, 0), membership) == first
    assert plan.seal()[1] == []
    ended = world.end(plan, t)
    assert append(plan, A, batch(t, 0), Membership("t", ended.turn if turn else None)) == first
    assert sealed(plan, TransactionBegun) == []
    world.commit(plan)
    assert world.known.open == {}


def test_a_refused_sequence_begins_nothing(world: World) -> None:
    """A gap after what is known of the producer, and a position in a topic that is gone."""
    t = world.start()
    plan = world.plan()
    append(plan, A, batch(t, 0), Membership("t", t.turn))
    ended = world.end(plan, t)
    world.commit(plan)
    plan = world.plan()
    with pytest.raises(OutOfOrderSequence):
        append(plan, A, batch(t, 5), Membership("t", ended.turn))
    plan.topics.delete(TOPIC)
    with pytest.raises(UnknownTopicOrPartition):
        stage(plan, t, Membership("t", ended.turn), 5)
    assert [change.kind for change in plan.seal()[1]] == ["topic-deleted"]


def test_a_new_producer_of_the_second_generation_begins_at_zero(world: World) -> None:
    """TV2: batches before it are lost or late. TV1 takes any sequence, as Kafka does."""
    t = world.start()
    plan = world.plan()
    with pytest.raises(OutOfOrderSequence):
        append(plan, A, batch(t, 5), Membership("t", None))
    assert plan.seal()[1] == []
    assert append(plan, B, batch(t, 5), Membership("t", t.turn)).first_offset == 0
    assert append(plan, A, batch(t, 0), Membership("t", None)).first_offset == 0
    assert append(plan, A, batch(t, 1), Membership("t", None)).first_offset == 1


def test_what_fails_leaves_everything_as_it_was(world: World) -> None:
    """A plan that is never published: the next one plans the same again."""
    s, t = world.start("s"), world.start("t")
    plan = world.plan()
    append(plan, A, batch(s, 0), Membership("s", s.turn))
    world.commit(plan)
    before = all_known(world.known)
    sealed_twice = []
    for _ in range(2):
        plan = world.plan()
        append(plan, B, batch(s, 0), Membership("s", s.turn))
        append(plan, A, batch(t, 0), Membership("t", None))
        stage(plan, t, Membership("t", None), 5)
        world.end(plan, s, "s")
        world.end(plan, t, bump=True)
        sealed_twice.append([change for change in plan.seal()[1] if change.kind != "producer"])
        assert all_known(world.known) == before
    assert sealed_twice[0] == sealed_twice[1]
    assert world.commit(plan) == {A, B}
    assert (world.known.open, world.known.partitions) == ({}, {})


def test_a_retried_end_is_no_change(world: World) -> None:
    """Nothing goes to the journal for it."""
    t = world.start()
    plan = world.plan()
    append(plan, A, batch(t, 0), Membership("t", None))
    answer = world.end(plan, t, bump=True)
    assert world.end(plan, t, bump=True) == answer
    assert len(sealed(plan, TransactionEnded)) == 1
    world.commit(plan)
    plan = world.plan()
    assert world.end(plan, t, bump=True) == answer
    assert plan.seal()[1] == []


def test_an_announced_transaction_ends_without_an_instance(world: World) -> None:
    """In the turn in which it was announced, and in no other."""
    t = world.start()
    plan = world.plan()
    with pytest.raises(InvalidTxnState):
        world.end(plan, t, announced_turn=t.turn - 1)
    ended = world.end(plan, t, announced_turn=t.turn)
    with pytest.raises(InvalidTxnState):
        world.end(plan, t, commit=False, announced_turn=t.turn)
    assert (ended.turn, ended.phase) == (t.turn + 1, Phase.COMMITTED)
    assert [change.kind for change in plan.seal()[1]] == ["transactional-id"]


def test_a_time_out_ends_its_own_turn_only(world: World) -> None:
    """Nothing if there is no id, no open transaction, or another one since."""
    t = world.start()
    plan = world.plan()
    assert not fence(plan, t, "nobody")
    assert not fence(plan, t)
    append(plan, A, batch(t, 0), Membership("t", t.turn))
    following = world.end(plan, t)
    append(plan, A, batch(t, 1), Membership("t", following.turn))
    assert not fence(plan, t)
    assert fence(plan, following)
    assert not fence(plan, following)
    assert [change.committed for change in sealed(plan, TransactionEnded)] == [True, False]
    world.commit(plan)
    state = world.plane.find_transactional_id("t")
    assert state is not None
    assert fence(world.plan(), state, announced=True), "announced and not written counts if asked for"
    with pytest.raises(ProducerFenced):
        world.end(world.plan(), t)
