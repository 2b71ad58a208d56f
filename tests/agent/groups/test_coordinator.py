"""The coordinator: broken connections, a failing disk, a stop, and groups that nobody is in."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.agent.groups import coordinator as module
from holdfast.agent.groups.coordinator import Coordinator, GroupListing
from holdfast.agent.groups.messages import Caller, GroupLimits, GroupState, Join, Joined, Leaver, Sync
from holdfast.control.plane import ListedGroup
from holdfast.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    NotCoordinator,
    StorageUnavailable,
    UnknownMemberId,
)
from holdfast.store.footer import GroupDeleted, GroupOffsetDeleted, GroupProtocol, GroupSaved

SECONDS_MAX = 10.0
LIMITS = GroupLimits(session_timeout_ms_min=1, initial_rebalance_delay_ms=0)


class Disk:
    """Plays control plane and group commit: what is committed can be read, unless it fails or hangs."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupSaved] = {}
        self.fails = False
        self.hanging: list[Callable[[], None]] | None = None

    def submit(self, write: Any) -> "asyncio.Future[object]":
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()

        def commit() -> None:
            if self.fails:
                future.set_exception(StorageUnavailable("no space"))
                return
            for change in write.changes:
                self._apply(change)
            if not future.cancelled():
                future.set_result(None)

        if self.hanging is None:
            asyncio.get_running_loop().call_soon(commit)
        else:
            self.hanging.append(commit)
        return future

    def _apply(self, change: GroupSaved | GroupDeleted | GroupOffsetDeleted) -> None:
        if isinstance(change, GroupSaved):
            self.groups[change.group] = change
        elif isinstance(change, GroupDeleted):
            self.groups.pop(change.group, None)

    def find_group(self, group: str) -> GroupSaved | None:
        return self.groups.get(group)

    def find_group_offsets(self, group: str) -> list[object]:
        return []

    def list_groups(self) -> list[ListedGroup]:
        return [
            ListedGroup(group=name, protocol_type=saved.protocol_type, members=len(saved.members))
            for name, saved in sorted(self.groups.items())
        ]


def start(disk: Any) -> Coordinator:
    """A coordinator on that disk."""
    clock = asyncio.get_running_loop().time
    return Coordinator(
        disk, disk, limits=LIMITS, now_ms=lambda: int(clock() * 1000), wall_ms=lambda: 1_700_000_000_000
    )


def a_join(member_id: str = "", *, session_ms: int = 60_000) -> Join:
    """Of an old client, which needs no id first."""
    return Join(
        member_id=member_id,
        instance_id=None,
        client_id="c",
        client_host="/127.0.0.1",
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=(GroupProtocol("range", b""),),
        needs_known_id=False,
        may_skip_assignment=False,
    )


async def stable(groups: Coordinator, group: str = "g", *, session_ms: int = 60_000) -> Joined:
    """The only member of a stable group."""
    joined = await groups.join(group, a_join(session_ms=session_ms))
    await groups.sync(group, a_sync(joined))
    return joined


def a_sync(joined: Joined) -> Sync:
    """A leader's, all for itself."""
    caller = Caller(member_id=joined.member_id, generation=joined.generation)
    return Sync(caller=caller, assignments={joined.member_id: b"all"})


def run(main: Callable[[], Awaitable[None]]) -> None:
    """On an event loop, with a limit."""

    async def limited() -> None:
        async with asyncio.timeout(SECONDS_MAX):
            await main()

    asyncio.run(limited())


def test_a_member_whose_connection_breaks_is_waited_for_no_longer_than_its_session() -> None:
    """The rebalance that it had joined completes without it."""

    async def main() -> None:
        groups = start(Disk())
        first = await stable(groups)
        gone = asyncio.ensure_future(groups.join("g", a_join(session_ms=20)))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait([gone])
        again = await groups.join("g", a_join(first.member_id))
        assert again.generation == first.generation + 1
        assert [member.member_id for member in again.members] == [first.member_id]
        groups.stop()

    run(main)


def test_time_passes_by_itself() -> None:
    """A silent member is out when its session is over; the group is empty, saved, and out of memory."""

    async def main() -> None:
        disk = Disk()
        groups = start(disk)
        await stable(groups, session_ms=20)
        while disk.groups["g"].members:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0)
        assert groups._groups == {}
        assert groups.list_groups() == [GroupListing("g", "consumer", GroupState.EMPTY)]
        assert groups.describe("g").state is GroupState.EMPTY
        assert groups._groups == {}, "asking for it does not keep it"
        groups.stop()

    run(main)


def test_a_restart_watches_over_the_members_it_finds() -> None:
    """They may go on; if they do not, they expire."""

    async def main() -> None:
        disk = Disk()
        before = start(disk)
        kept = await stable(before, "kept")
        await stable(before, "silent", session_ms=20)
        before.stop()
        after = start(disk)
        after.heartbeat("kept", Caller(member_id=kept.member_id, generation=1))
        while disk.groups["silent"].members:
            await asyncio.sleep(0.005)
        assert len(disk.groups["kept"].members) == 1
        after.stop()

    run(main)


def test_a_disk_that_fails_is_told_to_those_who_wait() -> None:
    """No assignment without durability; when the disk is back, the group is too."""

    async def main() -> None:
        disk = Disk()
        groups = start(disk)
        joined = await groups.join("g", a_join())
        disk.fails = True
        with pytest.raises(CoordinatorNotAvailable, match="no space"):
            await groups.sync("g", a_sync(joined))
        disk.fails = False
        again = await groups.join("g", a_join(joined.member_id))
        assert (await groups.sync("g", a_sync(again))).assignment == b"all"
        assert disk.groups["g"].generation == again.generation == 2
        assert disk.groups["g"].saved_ms == 1_700_000_000_000
        groups.stop()

    run(main)


def test_a_stop_sends_everybody_away_and_changes_nothing() -> None:
    """Whoever waits looks for a coordinator again; the next process has the group as it was."""

    async def main() -> None:
        disk = Disk()
        groups = start(disk)
        joined = await stable(groups)
        waiting = asyncio.ensure_future(groups.join("g", a_join()))
        await asyncio.sleep(0)
        groups.stop()
        with pytest.raises(NotCoordinator):
            await waiting
        with pytest.raises(NotCoordinator):
            groups.heartbeat("g", Caller(member_id=joined.member_id, generation=1))
        assert [member.member_id for member in disk.groups["g"].members] == [joined.member_id]

    run(main)


def test_a_group_is_deleted_even_if_nobody_waits_for_it() -> None:
    """A client that hangs up in the middle must not leave a group that is neither here nor gone."""

    async def main() -> None:
        disk = Disk()
        groups = start(disk)
        joined = await stable(groups)
        groups.leave("g", [Leaver(member_id=joined.member_id)])
        disk.hanging = []
        deleting = asyncio.ensure_future(groups.delete("g"))
        await asyncio.sleep(0)
        with pytest.raises(CoordinatorNotAvailable):
            await groups.join("g", a_join())
        deleting.cancel()
        await asyncio.wait([deleting])
        for commit in disk.hanging:
            commit()
        disk.hanging = None
        await asyncio.sleep(0)
        with pytest.raises(GroupIdNotFound):
            groups.describe("g")
        assert (await stable(groups)).generation == 1
        groups.stop()

    run(main)


def test_a_group_that_could_not_be_deleted_is_served_again() -> None:
    """It has lost nothing."""

    async def main() -> None:
        disk = Disk()
        groups = start(disk)
        joined = await stable(groups)
        groups.leave("g", [Leaver(member_id=joined.member_id)])
        await asyncio.sleep(0)
        disk.fails = True
        with pytest.raises(StorageUnavailable):
            await groups.delete("g")
        disk.fails = False
        assert (await stable(groups)).generation == 3
        groups.stop()

    run(main)


def test_only_so_many_groups_have_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients are asked to come back later."""
    monkeypatch.setattr(module, "GROUPS_ACTIVE_MAX", 1)

    async def main() -> None:
        groups = start(Disk())
        await stable(groups, "one")
        with pytest.raises(CoordinatorNotAvailable):
            await groups.join("two", a_join())
        groups.stop()

    run(main)


def test_strangers_do_not_make_groups() -> None:
    """A group comes into being with its first member."""

    async def main() -> None:
        groups = start(Disk())
        with pytest.raises(UnknownMemberId):
            await groups.join("g", a_join("stranger"))
        with pytest.raises(UnknownMemberId):
            groups.heartbeat("g", Caller(member_id="stranger", generation=1))
        with pytest.raises(GroupIdNotFound):
            groups.check_commit("g", Caller(member_id="stranger", generation=1))
        groups.check_commit("g", Caller(member_id="", generation=-1))
        assert groups.list_groups() == []
        groups.stop()

    run(main)
