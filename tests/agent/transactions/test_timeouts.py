"""Transactions that take too long: aborted by themselves, never early, and their producers hear what Kafka says."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from holdfast.agent.committer import Committed, Committer
from holdfast.agent.counters import Counters
from holdfast.agent.group_commit import GroupCommit
from holdfast.agent.plan import CommitPlan
from holdfast.agent.producer_ids import ProducerIds
from holdfast.agent.store_set import StoreSet
from holdfast.agent.transactions.coordinator import TransactionCoordinator
from holdfast.agent.writes import Write
from holdfast.client import transactions
from holdfast.client.groups import TopicPartition
from holdfast.rules.transactional_id import EPOCH_LAST, Phase, TransactionalId
from tests.agent.batches import NOW_MS
from tests.agent.faults import FaultyPlane, faulty, faulty_store
from tests.agent.transactions.driving import (
    GENERATIONS,
    TOPIC,
    TV1,
    TV2,
    Desk,
    Producer,
    Versions,
    describe,
    desk_of,
    run,
    until,
)

BAD_TIMEOUT, OLD_EPOCH, ENDED, FENCED = 50, 47, 48, 90


async def timed_out(desk: Desk, *, before: int = 0) -> None:
    await until(lambda: desk.agent.transactions.timeouts == before + 1)


@pytest.mark.parametrize("versions", GENERATIONS)
def test_an_idle_transaction_is_aborted(tmp_path: Path, versions: Versions) -> None:
    """Readers go on without it, and another producer's is not touched."""

    async def scenario(desk: Desk) -> None:
        patient = await desk.producer("patient", versions)
        idle = await desk.producer("idle", versions, timeout_ms=700)
        await idle.write(b"lost", partition=0)
        await patient.write(b"kept", partition=1)
        await timed_out(desk)
        state = await describe(desk.client, "idle")
        assert (state.phase, state.partitions, state.epoch) == ("CompleteAbort", [], 1)
        assert await desk.read(committed=True) == ([], 1, 1)
        assert (await describe(desk.client, "patient")).phase == "Ongoing"
        assert await patient.end(commit=True) == 0
        assert (await desk.read(committed=True, partition=1)).values == [b"kept"]

    run(tmp_path, scenario)


def test_the_timeout_counts_from_the_beginning(tmp_path: Path) -> None:
    """A producer that goes on writing does not put it off, as in Kafka."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer(timeout_ms=700)
        await producer.write(b"first")
        code = 0
        async with asyncio.timeout(20):
            while code == 0:
                code, _ = await producer.produce(b"more")
        assert code == OLD_EPOCH
        assert desk.agent.transactions.timeouts == 1
        assert (await desk.read(committed=True)).records == []

    run(tmp_path, scenario)


def test_a_transaction_without_data_times_out(tmp_path: Path) -> None:
    """It has only been announced: nothing is pinned, but its producer is fenced as Kafka's is."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer(timeout_ms=700)
        assert await producer.add(0) == [0]
        await timed_out(desk)
        assert (await describe(desk.client)).phase == "CompleteAbort"
        assert await producer.end(commit=True) == FENCED

    run(tmp_path, scenario)


def test_staged_positions_time_out(tmp_path: Path) -> None:
    """They never count, and stable positions are told again."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer(versions=TV2, timeout_ms=700)
        assert await producer.stage("g", 5) == 0
        topic_id = desk.agent.catalog.get(TOPIC).topic_id
        assert desk.agent.plane.find_staged("g") == {(topic_id, 0)}
        await timed_out(desk)
        assert desk.agent.plane.find_staged("g") == set()
        assert desk.agent.plane.find_group_offsets("g") == []

    run(tmp_path, scenario)


def test_what_a_timed_out_producer_hears(tmp_path: Path) -> None:
    """As Kafka 4.2 answered: fenced, but it may come back by naming what it had, or by aborting (TV2)."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer(timeout_ms=700)
        await producer.write(b"lost")
        await timed_out(desk)
        end = {version: await producer.end(commit=True, version=version) for version in (1, 4, 5)}
        assert end == {1: OLD_EPOCH, 4: FENCED, 5: ENDED}
        assert [await producer.end(commit=False, version=version) for version in (1, 4)] == [
            OLD_EPOCH,
            FENCED,
        ]
        places = [TopicPartition(TOPIC, 0)]
        for version, code in ((1, OLD_EPOCH), (3, FENCED)):
            answer = await producer.ask(transactions.add_partitions(producer.who, places), version)
            assert next(v.code for v in transactions.verdicts(answer) if v.place) == code
        for version in (10, 11, 12):
            assert await producer.produce(b"late", version=version) == (OLD_EPOCH, -1)
        aborted = await producer.ask(transactions.end_txn(producer.who, committed=False), 5)
        assert (aborted.error_code, aborted.producer_epoch) == (0, 1)
        for _ in range(2):
            resumed = await producer.ask(transactions.init_producer_id(producer.who, timeout_ms=60_000), 4)
            assert (resumed.error_code, resumed.producer_epoch) == (0, 1)
        successor = await desk.producer()
        assert (successor.who.producer_id, successor.who.producer_epoch) == (producer.who.producer_id, 2)

    run(tmp_path, scenario)


def test_timeouts_are_bounded(tmp_path: Path) -> None:
    """transaction.max.timeout.ms is the longest that a producer may ask for."""

    async def scenario(desk: Desk) -> None:
        producer = Producer(desk.client)
        for timeout_ms, code in ((5000, 0), (5001, BAD_TIMEOUT), (0, BAD_TIMEOUT), (-1, BAD_TIMEOUT), (1, 0)):
            assert await producer.init(timeout_ms=timeout_ms) == code
        assert (await describe(desk.client)).timeout_ms == 1
        assert producer.who.producer_epoch == 1, "who was refused has fenced nobody"

    run(tmp_path, scenario, transaction_timeout_ms_max=5000)


def test_a_restart_does_not_forget_the_timeout(tmp_path: Path) -> None:
    """It counts anew from the start of the process: the time of an outage has not certainly passed."""

    async def main() -> None:
        async with desk_of(tmp_path) as desk:
            producer = await desk.producer(timeout_ms=1500)
            await producer.write(b"lost")
        async with desk_of(tmp_path) as desk:
            assert desk.stable() == 0
            assert (await describe(desk.client)).phase == "Ongoing"
            await timed_out(desk)
            assert desk.stable() == 1
            producer.client = desk.client
            assert await producer.end(commit=True) == FENCED
            assert (await desk.read(committed=True)).records == []

    asyncio.run(main())


def test_a_failing_store_only_puts_it_off(tmp_path: Path, gated_stores: None) -> None:
    """A time-out that cannot be made durable is tried again."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer(timeout_ms=700)
        await producer.write(b"lost")
        faulty(desk.agent.store).fail_appends = 2
        await timed_out(desk)
        assert faulty(desk.agent.store).fail_appends == 0
        assert desk.stable() == 1

    run(tmp_path, scenario)


@dataclass(slots=True)
class Clocks:
    """Both clocks, moved by the test."""

    wall_ms: int = NOW_MS
    monotonic_ms: int = 0


def test_no_clock_alone_ends_a_transaction(tmp_path: Path) -> None:
    """A wall clock that jumps ahead, or a monotonic one after a sleep, aborts nothing: both must agree."""

    async def main() -> None:
        clocks = Clocks()
        plane, store = FaultyPlane(tmp_path / "control.db"), faulty_store(tmp_path)
        committer = Committer(
            plane=plane, stores=StoreSet([store], append_seconds_max=10), now_ms=lambda: clocks.wall_ms
        )
        committer.recover()
        opened: list[Committed] = []
        commits = GroupCommit(
            committer, queue_bytes_max=1000, on_committed=opened.append, counters=Counters()
        )
        commits.start()
        coordinator = TransactionCoordinator(
            plane,
            commits,
            ProducerIds(plane, commits),
            timeout_ms_max=1000,
            now_ms=lambda: clocks.monotonic_ms,
            wall_ms=lambda: clocks.wall_ms,
        )
        try:
            state = await coordinator.initialise("tx", None, 20)
            coordinator.announce("tx", state.producer_id, state.epoch, session=1, groups=["g"])
            alarm = coordinator._alarm
            assert alarm._set == {"tx": 20}
            clocks.wall_ms += 3_600_000
            coordinator._look_at_timeout("tx")
            assert coordinator.standings.describe("tx")[0].phase is Phase.ONGOING
            clocks.monotonic_ms += 3_600_000
            clocks.wall_ms -= 7_200_000
            await until(lambda: alarm._set["tx"] > 20)
            assert coordinator.standings.describe("tx")[0].phase is Phase.ONGOING
            for _ in range(3):
                clocks.wall_ms += 10
                clocks.monotonic_ms += 10
                coordinator._look_at_timeout("tx")
            await until(lambda: coordinator.timeouts == 1)
            assert coordinator.standings.describe("tx")[0].phase is Phase.ABORTED
        finally:
            coordinator.stop()
            await commits.stop()
            store.close()
            plane.close()

    asyncio.run(main())


@dataclass(frozen=True, slots=True)
class SetEpoch(Write):
    """What thousands of transactions would come to."""

    epoch: int

    def plan(self, plan: CommitPlan) -> TransactionalId:
        """The id at that epoch."""

        def update(state: TransactionalId | None) -> TransactionalId:
            assert state is not None
            return state._replace(epoch=self.epoch, turn=state.turn + 1)

        return plan.transactions.change("tx", update)


@pytest.mark.parametrize("versions", GENERATIONS)
def test_a_timeout_at_the_last_epoch_leaves_nobody_beyond_fencing(tmp_path: Path, versions: Versions) -> None:
    """The producer comes back under a new id: the last epoch of the old one could not be fenced once more."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer(versions=versions, timeout_ms=700)
        await desk.agent.commits.submit(SetEpoch(EPOCH_LAST - 1))
        producer.who = replace(producer.who, producer_epoch=EPOCH_LAST - 1)
        before = producer.who
        await producer.write(b"lost")
        await timed_out(desk)
        assert (await describe(desk.client)).epoch == EPOCH_LAST
        for _ in range(2):
            if versions is TV1:
                producer.who = before
                assert await producer.init(timeout_ms=700, resume=True) == 0
            else:
                producer.who = before
                assert await producer.end(commit=False) == 0
            assert producer.who.producer_id != before.producer_id
            assert producer.who.producer_epoch == 0
        await producer.write(b"lost too")
        await timed_out(desk, before=1)
        assert await producer.produce(b"late") == (OLD_EPOCH, -1)
        assert await desk.read(committed=True) == ([], 2, 2)

    run(tmp_path, scenario)


def test_every_end_at_the_last_epochs(tmp_path: Path) -> None:
    """TV2: from 32765 on to the id after it, each end told twice, as Kafka 4.2 answered."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer(versions=TV2)
        first = producer.who.producer_id
        await desk.agent.commits.submit(SetEpoch(EPOCH_LAST - 2))
        producer.who = replace(producer.who, producer_epoch=EPOCH_LAST - 2)
        for number, epoch in enumerate((EPOCH_LAST - 1, 0, 1)):
            await producer.write(b"%d" % number)
            repeated = transactions.end_txn(producer.who, committed=True)
            other = transactions.end_txn(producer.who, committed=False)
            assert await producer.end(commit=True) == 0
            assert producer.who.producer_epoch == epoch
            assert (producer.who.producer_id == first) == (number == 0)
            again = await producer.ask(repeated, 5)
            told = (again.error_code, again.producer_id, again.producer_epoch)
            assert told == (0, producer.who.producer_id, epoch)
            assert (await producer.ask(other, 5)).error_code == ENDED
        assert (await desk.read(committed=True)).values == [b"0", b"1", b"2"]

    run(tmp_path, scenario)
