"""Expiry of positions: which may go (KIP-211), and that a position committed meanwhile stays."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from holdfast.agent.agent import Agent
from holdfast.agent.groups.messages import Join, Joined, Leaver
from holdfast.agent.groups.offset_expiry import ExpireOffsets
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.plan import CommitPlan
from holdfast.agent.topic_plan import KnownTopics
from holdfast.agent.transactions.plan import KnownTransactions
from holdfast.agent.writes import CommitGroupOffsets
from holdfast.control.memory import MemoryControlPlane
from holdfast.control.plane import GroupOffset
from holdfast.errors import CoordinatorNotAvailable, GroupIdNotFound, StorageUnavailable
from holdfast.store.footer import (
    Change,
    GroupDeleted,
    GroupOffsetCommitted,
    GroupOffsetDeleted,
    GroupOffsetStaged,
    GroupProtocol,
)
from tests.agent import requests
from tests.agent.groups.driving import subscription
from tests.agent.groups.test_coordinator import a_join, a_sync
from tests.agent.serving import AsyncRawClient, serving

LONG_AFTER_MS = 1 << 60


def run(data: Path, scenario: Callable[[Agent], Awaitable[None]], **settings: Any) -> None:
    """With topics t and u of two partitions."""

    async def main() -> None:
        async with serving(data, expire_seconds=1000, **settings) as (agent, _):
            for name in ("t", "u"):
                await agent.cluster.create_topic(name, 2)
            await scenario(agent)

    asyncio.run(asyncio.wait_for(main(), 30))


async def commit(agent: Agent, topic: str, partition: int, *, at_ms: int, group: str = "g") -> None:
    topic_id = agent.catalog.get(topic).topic_id
    await agent.commits.submit(
        CommitGroupOffsets([GroupOffsetCommitted(group, topic_id, partition, 5, -1, "", at_ms)])
    )


def positions(agent: Agent, group: str = "g") -> list[tuple[str, int]]:
    return [(offset.topic, offset.partition) for offset in agent.plane.find_group_offsets(group)]


async def join(agent: Agent, *, group: str = "g", **fields: Any) -> Joined:
    """The only member, which reads t."""
    wanted: Join = replace(a_join(), protocols=(GroupProtocol("range", subscription("t")),), **fields)
    joined = await agent.groups.join(group, wanted)
    await agent.groups.sync(group, a_sync(joined))
    return joined


async def leave(agent: Agent, joined: Joined) -> int:
    """The time at which the group is saved as empty."""
    agent.groups.leave("g", [Leaver(member_id=joined.member_id)])
    while (saved := agent.plane.find_group("g")) is None or saved.members:
        await asyncio.sleep(0.001)
    # What the control plane has is not yet told to the group.
    while "g" in agent.groups._groups:
        await asyncio.sleep(0.001)
    return saved.saved_ms


def test_a_consumer_without_a_group(tmp_path: Path) -> None:
    """Each position goes by its own age; with the last one the group is not there any more."""

    async def scenario(agent: Agent) -> None:
        await commit(agent, "t", 0, at_ms=100)
        await commit(agent, "t", 1, at_ms=101)
        await agent.groups.expire("g", 99)
        assert positions(agent) == [("t", 0), ("t", 1)]
        await agent.groups.expire("g", 100)
        assert positions(agent) == [("t", 1)]
        assert agent.groups.describe("g").members == ()
        await agent.groups.expire("g", 101)
        with pytest.raises(GroupIdNotFound):
            agent.groups.describe("g")

    run(tmp_path, scenario)


def test_an_empty_group(tmp_path: Path) -> None:
    """Positions stay until the last member is gone for so long, however old they are; then the group goes too."""

    async def scenario(agent: Agent) -> None:
        joined = await join(agent)
        await commit(agent, "t", 0, at_ms=100)
        await commit(agent, "u", 0, at_ms=100)
        empty_since_ms = await leave(agent, joined)
        await agent.groups.expire("g", empty_since_ms - 1)
        assert positions(agent) == [("t", 0), ("u", 0)]
        await agent.groups.expire("g", empty_since_ms)
        assert positions(agent) == []
        assert agent.plane.find_group("g") is None
        assert (await join(agent)).generation == 1, "it is another group now"

    run(tmp_path, scenario)


def test_a_position_that_was_reset_in_an_empty_group(tmp_path: Path) -> None:
    """What was committed since the last member left has its own time, and the group stays with it."""

    async def scenario(agent: Agent) -> None:
        empty_since_ms = await leave(agent, await join(agent))
        await commit(agent, "t", 0, at_ms=100)
        await commit(agent, "t", 1, at_ms=empty_since_ms + 1)
        await agent.groups.expire("g", empty_since_ms)
        assert positions(agent) == [("t", 1)]
        assert agent.plane.find_group("g") is not None
        assert (await join(agent)).generation > 1

    run(tmp_path, scenario)


def test_a_group_with_members(tmp_path: Path) -> None:
    """Only topics that nobody reads lose their positions, only in a stable group, and only among consumers."""

    async def scenario(agent: Agent) -> None:
        for group, kind in (("g", "consumer"), ("workers", "connect")):
            await join(agent, group=group, protocol_type=kind)
            for topic in ("t", "u"):
                await commit(agent, topic, 0, at_ms=100, group=group)
        await commit(agent, "u", 1, at_ms=101)
        for group in ("g", "workers"):
            await agent.groups.expire(group, 100)
        assert positions(agent) == [("t", 0), ("u", 1)]
        assert positions(agent, "workers") == [("t", 0), ("u", 0)]
        reads_t = replace(a_join(), protocols=(GroupProtocol("range", subscription("t")),))
        newcomer = asyncio.create_task(agent.groups.join("g", reads_t))
        while agent.groups.describe("g").state.name == "STABLE":
            await asyncio.sleep(0.001)
        await agent.groups.expire("g", LONG_AFTER_MS)
        assert positions(agent) == [("t", 0), ("u", 1)], "in the middle of a rebalance"
        newcomer.cancel()

    run(tmp_path, scenario)


def test_a_group_with_nothing(tmp_path: Path) -> None:
    """Neither members nor positions: it goes with the next round, as in Kafka."""

    async def scenario(agent: Agent) -> None:
        await leave(agent, await join(agent))
        await agent.cluster.expiry.expire()
        assert agent.plane.find_group("g") is None
        assert agent.groups.list_groups() == []

    run(tmp_path, scenario)


def test_committed_meanwhile(tmp_path: Path) -> None:
    """A commit that is on its way when the positions are chosen is not lost, nor the group."""

    async def scenario(agent: Agent) -> None:
        empty_since_ms = await leave(agent, await join(agent))
        await commit(agent, "t", 0, at_ms=100)
        on_its_way = asyncio.create_task(commit(agent, "t", 0, at_ms=empty_since_ms + 1))
        await asyncio.sleep(0)
        await agent.groups.expire("g", empty_since_ms)
        await on_its_way
        assert positions(agent) == [("t", 0)]
        assert (await join(agent)).generation > 1, "the group is served again"

    run(tmp_path, scenario)


def test_the_disk_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is forgotten, and the group is served again; meanwhile it takes nobody in."""

    async def scenario(agent: Agent) -> None:
        empty_since_ms = await leave(agent, await join(agent))
        await commit(agent, "t", 0, at_ms=100)
        failing: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        with monkeypatch.context() as patch:
            patch.setattr(agent.commits, "submit", lambda write: failing)
            expiring = asyncio.create_task(agent.groups.expire("g", empty_since_ms))
            await asyncio.sleep(0)
            with pytest.raises(CoordinatorNotAvailable):
                await agent.groups.join("g", a_join())
            failing.set_exception(StorageUnavailable("no space"))
            with pytest.raises(StorageUnavailable):
                await expiring
        assert positions(agent) == [("t", 0)]
        assert (await join(agent)).generation > 1

    run(tmp_path, scenario)


@pytest.mark.parametrize(("retention_seconds", "offset"), [(0.0, -1), (3600.0, 7)])
def test_a_round(tmp_path: Path, retention_seconds: float, offset: int) -> None:
    """The task does it by the setting, durably; what is young enough stays."""

    async def main() -> None:
        for is_first in (True, False):
            async with serving(
                tmp_path, expire_seconds=1000, offsets_retention_seconds=retention_seconds
            ) as (agent, port):
                client = await AsyncRawClient.connect(port)
                if is_first:
                    await agent.cluster.create_topic("t", 1)
                    await client.call(requests.commit_offset("g", "t", 7))
                    await agent.cluster.expiry.expire()
                answer = await client.call(requests.fetch_offset("g", "t"))
                found = answer.groups[0].topics[0].partitions[0].committed_offset
                assert found == offset
                await client.close()

    asyncio.run(asyncio.wait_for(main(), 30))


TOPIC = UUID(int=1)


def planned(
    *before: Change, old: int, new: int = 0, forgets_group: bool = True, staged: tuple[int, ...] = ()
) -> tuple[object, list[Change]]:
    """The answer and the changes of a write that has chosen the positions of partitions 0 to old - 1."""
    offsets = [
        GroupOffset(
            topic_id=TOPIC,
            topic="t",
            partition=number,
            offset=0,
            leader_epoch=-1,
            metadata="",
            committed_ms=10 if number < old else 11,
        )
        for number in range(old + new)
    ]
    plan = CommitPlan(
        find_tail=lambda key: pytest.fail("no log is touched"),
        topics=KnownTopics(),
        transactions=KnownTransactions(MemoryControlPlane()),
        in_sync=frozenset(),
        now_ms=0,
    )
    plan.changes.extend(before)
    places = frozenset(PartitionKey(TOPIC, number) for number in range(old + new))
    staged_places = {(TOPIC, number) for number in staged}
    write = ExpireOffsets("g", places, 10, forgets_group, lambda group: offsets, lambda group: staged_places)
    answer = write.plan(plan)
    return answer, plan.changes[len(before) :]


def test_the_write() -> None:
    """Planned on what is committed by then, what the same frame commits included."""
    deleted = GroupOffsetDeleted("g", TOPIC, 0)
    assert planned(old=2) == (True, [GroupDeleted("g")])
    assert planned(old=0) == (True, [GroupDeleted("g")])
    assert planned(old=1, forgets_group=False) == (False, [deleted])
    assert planned(old=1, new=1) == (False, [deleted])
    renewed = GroupOffsetCommitted("g", TOPIC, 1, 9, -1, "", 5)
    assert planned(renewed, old=2) == (False, [deleted])
    assert planned(renewed, old=1) == (False, [deleted]), "one that was not there yet"
    assert planned(old=2, staged=(1,)) == (False, [deleted]), "a transaction may still renew it"
    assert planned(GroupOffsetStaged(7, "g", TOPIC, 1, 9, -1, ""), old=2) == (False, [deleted])
    other = GroupOffsetCommitted("another", TOPIC, 1, 9, -1, "", 5)
    assert planned(other, old=1) == (True, [GroupDeleted("g")])
