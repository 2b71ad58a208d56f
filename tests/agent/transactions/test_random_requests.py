"""Random requests, repeated and delayed, of producers and their zombies: the server and the model say the same."""

import asyncio
import itertools
from collections.abc import Awaitable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from holdfast.agent.committer import Committer
from holdfast.agent.fetch_plan import PartitionReader
from holdfast.agent.group_commit import Deliver, resolve
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.plan import CommitPlan
from holdfast.agent.store_set import StoreSet
from holdfast.agent.transactions.coordinator import TransactionCoordinator
from holdfast.agent.writes import AppendBatch, CreateTopic, Stored, Write
from holdfast.errors import HoldfastError
from holdfast.records.build import read_records
from holdfast.records.walk import walk_valid
from holdfast.rules.entry import Isolation
from holdfast.rules.transaction import NO_INSTANCE
from holdfast.rules.transactional_id import EPOCH_LAST, TransactionalId
from holdfast.store.footer import GroupOffsetCommitted, TopicCreated
from tests.agent.batches import NOW_MS, batch, view
from tests.agent.faults import FaultyPlane, faulty_store
from tests.agent.transactions.model import TIMEOUTS_MS, Ask, Model, told

TOPIC = UUID(int=1)
PARTITIONS = (0, 1)


@dataclass(frozen=True, slots=True)
class Age(Write):
    """What tens of thousands of transactions would come to: the last epochs."""

    name: str

    def plan(self, plan: CommitPlan) -> TransactionalId:
        """The id at that epoch."""

        def update(state: TransactionalId | None) -> TransactionalId:
            assert state is not None
            return state._replace(epoch=max(state.epoch, EPOCH_LAST - 2))

        return plan.transactions.change(self.name, update)


class ManualCommits:
    """A group commit that the test lets go."""

    def __init__(self) -> None:
        self.queue: list[tuple[Write, Deliver]] = []

    def submit_to(self, write: Write, deliver: Deliver) -> None:
        """Queue it."""
        self.queue.append((write, deliver))

    def submit(self, write: Write) -> "asyncio.Future[object]":
        """Queue it, with a future for its answer."""
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.submit_to(write, partial(resolve, future))
        return future


class Server:
    """The coordinator, the committer, a store and a control plane: the real ones."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._producer_ids = itertools.count(1)
        self.clock_ms = 0
        self._start()
        self._committer.commit([CreateTopic(TopicCreated("t", TOPIC, [[1], [1]], {}))])

    def _start(self) -> None:
        self.plane = FaultyPlane(self._directory / "control.db")
        self._store = faulty_store(self._directory)
        self._committer = Committer(
            plane=self.plane, stores=StoreSet([self._store], append_seconds_max=10), now_ms=lambda: NOW_MS
        )
        self._committer.recover()
        self.reader = PartitionReader(self.plane, self._store)
        self._commits = ManualCommits()
        self.coordinator = TransactionCoordinator(
            self.plane,
            self._commits,  # type: ignore[arg-type]
            SimpleNamespace(allot=self._allot),  # type: ignore[arg-type]
            timeout_ms_max=1000,
            now_ms=lambda: self.clock_ms,
            wall_ms=lambda: self.clock_ms,
        )
        # Time passes when the test says so.
        self.coordinator.stop()

    async def _allot(self) -> int:
        return next(self._producer_ids)

    def close(self) -> None:
        self._store.close()
        self.plane.close()

    def restart(self) -> None:
        self.close()
        self._start()

    def ask(self, ask: Ask) -> "asyncio.Future[Any]":
        """Hand a request over; what is wrong with it at once is in the future, too."""
        return asyncio.ensure_future(self._answered(getattr(self, f"_{ask.kind}")(ask)))

    async def _answered(self, handled: Awaitable[Any]) -> Any:
        try:
            return await handled
        except HoldfastError as refusal:
            return refusal

    async def _init(self, ask: Ask) -> TransactionalId:
        claimed = None if ask.producer_id < 0 else (ask.producer_id, ask.epoch)
        return await self.coordinator.initialise(ask.name, claimed, TIMEOUTS_MS[ask.name])

    async def _add(self, ask: Ask) -> str:
        self.coordinator.announce(
            *_who(ask), session=ask.session, partitions=[PartitionKey(TOPIC, ask.partition)], groups=["g"]
        )
        return "added"

    async def _produce(self, ask: Ask) -> int:
        data = batch(
            b"x",
            producer_id=ask.producer_id,
            producer_epoch=ask.epoch,
            base_sequence=ask.sequence,
            transactional=True,
        )
        write = AppendBatch(PartitionKey(TOPIC, ask.partition), view(data), 1)
        write.membership = self.coordinator.join(*_who(ask), implicit=ask.tv2, place=write.key)
        stored = await self._commits.submit(write)
        assert isinstance(stored, Stored)
        return stored.first_offset

    async def _stage(self, ask: Ask) -> None:
        membership = self.coordinator.join(*_who(ask), implicit=ask.tv2, group="g")
        offset = GroupOffsetCommitted("g", TOPIC, 0, ask.sequence, -1, "", NOW_MS)
        await self.coordinator.stage(membership, ask.producer_id, ask.epoch, [offset])

    async def _end(self, ask: Ask) -> TransactionalId:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.coordinator.end(
            *_who(ask),
            commit=ask.commit,
            bump=ask.tv2,
            session=ask.session,
            deliver=partial(resolve, answer),
        )
        state = await answer
        assert isinstance(state, TransactionalId)
        return state

    async def _age(self, ask: Ask) -> object:
        return await self._commits.submit(Age(ask.name))

    async def _abort(self, ask: Ask) -> bool:
        await self.coordinator.abort(ask.name)
        return True

    def tick(self, passed_ms: int) -> None:
        self.clock_ms += passed_ms
        for name in sorted(TIMEOUTS_MS):
            self.coordinator._look_at_timeout(name)

    async def commit(self) -> None:
        """Commit what is queued, tell everybody, and let them hear it."""
        queue, self._commits.queue = self._commits.queue, []
        if queue:
            committed = self._committer.commit([write for write, _ in queue])
            self.coordinator.watch(committed.transactional_ids, is_replay=committed.is_replay)
            for (_, deliver), answer in zip(queue, committed.answers, strict=True):
                deliver(answer)
        await settle()

    def seen(self, partition: int, *, committed: bool) -> tuple[list[int], int]:
        """Offsets that a reader is given, and the last stable one."""
        offset = 0
        found: list[int] = []
        while True:
            key = PartitionKey(TOPIC, partition)
            data = self.reader.read(key, offset, bytes_max=300, at_least_one=True, committed_only=committed)
            batches = [one for chunk in data.chunks for one in walk_valid(chunk)]
            if not batches:
                return found, data.bounds.last_stable
            found += [
                record.offset or 0 for one in batches if not one.is_control for record in read_records(one)
            ]
            offset = batches[-1].next_offset


def _who(ask: Ask) -> tuple[str, int, int]:
    return ask.name, ask.producer_id, ask.epoch


async def settle() -> None:
    """Let tasks and callbacks run until they wait for a commit."""
    for _ in range(8):
        await asyncio.sleep(0)


class Play:
    """One example: the same requests to both, everything compared after each commit."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.model = Model(itertools.count(1).__next__)
        self.waiting: list[tuple[Any, asyncio.Future[Any]]] = []
        self.sent: list[Ask] = []
        self.given: dict[str, list[tuple[int, int]]] = {name: [] for name in TIMEOUTS_MS}
        self.newest_session = 1

    async def send(self, ask: Ask) -> None:
        self.sent.append(ask)
        self.waiting.append((self.model.ask(ask), self.server.ask(ask)))
        await settle()

    async def step(self, step: "Step") -> None:
        if step.kind == "again" and self.sent:
            await self.send(self.sent[-1 - step.pick % min(len(self.sent), 5)])
        elif step.kind == "tick":
            self.model.tick(100)
            self.server.tick(100)
        elif step.kind == "reconnect":
            self.newest_session += 1
        elif step.kind == "restart":
            await self.commit()
            self.model.restart()
            self.server.restart()
            self.check()
        elif step.kind != "again":
            await self.send(self._request(step))
        if step.commits:
            await self.commit()

    def _request(self, step: "Step") -> Ask:
        given = self.given[step.name]
        producer_id, epoch = given[-1 - min(step.zombie, len(given) - 1)] if given else (-1, -1)
        if step.kind == "init":
            producer_id, epoch = -1, -1
        kind = "init" if step.kind == "resume" else step.kind
        return Ask(
            kind=kind if given else "init",
            name=step.name,
            producer_id=producer_id if given else -1,
            epoch=epoch if given else -1,
            session=self.newest_session - min(step.zombie, self.newest_session - 1),
            partition=step.partition,
            sequence=self._sequence(producer_id, epoch, step.partition),
            commit=step.pick % 2 == 0,
            # One id is of the first generation, the other one of the second.
            tv2=step.name == "b",
        )

    def _sequence(self, producer_id: int, epoch: int, partition: int) -> int:
        """What comes next, after what is durable and what waits."""
        known = self.model.producers.get((partition, producer_id))
        last = known.last_sequence if known is not None and known.epoch == epoch else -1
        waiting = sum(
            reply.ask.kind == "produce"
            and (reply.ask.producer_id, reply.ask.epoch, reply.ask.partition)
            == (producer_id, epoch, partition)
            for reply in self.model.queue
        )
        return last + 1 + waiting

    async def commit(self) -> None:
        self.model.commit()
        await self.server.commit()
        waiting, self.waiting = self.waiting, []
        for reply, future in waiting:
            assert future.done(), reply.ask
            assert told(future.result()) == told(reply.outcome), reply.ask
            if isinstance(reply.outcome, TransactionalId):
                self.given[reply.ask.name].append(told(reply.outcome))
        self.check()

    def check(self) -> None:
        plane = self.server.plane
        for partition in PARTITIONS:
            for isolation in Isolation:
                committed = isolation is Isolation.READ_COMMITTED
                seen, stable = self.server.seen(partition, committed=committed)
                assert seen == self.model.seen(partition, isolation)
                assert stable == self.model.stable(partition)
        positions = [position.offset for position in plane.find_group_offsets("g")]
        assert positions == ([] if self.model.position < 0 else [self.model.position])
        assert bool(plane.find_staged("g")) == bool(self.model.staged)
        for name, state in plane.list_transactional_ids().items():
            mine = self.model.states[name]
            assert (state.producer_id, state.epoch, state.phase, state.turn) == (
                mine.producer_id,
                mine.epoch,
                mine.phase,
                mine.turn,
            )
            opening = self.server.coordinator._openings.get(name)
            if state.instance != NO_INSTANCE:
                assert opening is not None, "it could never time out"
                assert opening.turn == state.turn
            assert (opening is None) == (name not in self.model.openings)


@dataclass(frozen=True)
class Step:
    """What a random hand does next."""

    kind: str
    name: str
    zombie: int
    partition: int
    pick: int
    commits: bool


KINDS = [
    *["produce"] * 6,
    *["add"] * 4,
    *["end"] * 4,
    *["again"] * 4,
    *["init", "resume", "stage", "tick", "tick", "abort", "reconnect", "restart", "age"],
]
SEEDS = range(40)
STEPS = 60


def draw(seed: int) -> list[Step]:
    """Uniform on purpose: what these guards are for shows within the first few seeds, and far later by strategies."""
    random = Random(seed)
    return [
        Step(
            kind=random.choice(KINDS),
            name=random.choice(sorted(TIMEOUTS_MS)),
            zombie=random.choice([0, 0, 0, 0, 1, 2]),
            partition=random.choice(PARTITIONS),
            pick=random.randrange(1000),
            commits=random.random() < 0.5,
        )
        for _ in range(STEPS)
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_server_and_model_agree(tmp_path: Path, seed: int) -> None:
    """The same errors, records under both isolation levels, last stable offsets, positions, after every commit."""

    async def main() -> None:
        server = Server(tmp_path)
        try:
            play = Play(server)
            for name in TIMEOUTS_MS:
                await play.send(Ask(kind="init", name=name))
            await play.commit()
            for step in draw(seed):
                await play.step(step)
            await play.commit()
        finally:
            server.close()

    asyncio.run(main())
