"""The coordinator of all groups: requests in, answers out, time and durability from outside."""

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar
from uuid import uuid4

from holdfast.agent.alarm import Alarm
from holdfast.agent.group_commit import GroupCommit
from holdfast.agent.groups.group import Group, GroupDescription
from holdfast.agent.groups.messages import (
    Answer,
    Caller,
    GroupLimits,
    GroupState,
    Join,
    Joined,
    Leaver,
    Refuse,
    Save,
    Sync,
    Synced,
    Ticket,
)
from holdfast.agent.groups.offset_expiry import ExpireOffsets, Reads, find_expired
from holdfast.agent.groups.subscription import CONSUMER
from holdfast.agent.groups.writes import ChangeGroup
from holdfast.control.plane import ControlPlane
from holdfast.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    InvalidGroupId,
    KafkaRefusal,
    NonEmptyGroup,
    NotCoordinator,
    UnknownMemberId,
)
from holdfast.store.footer import GroupDeleted, GroupOffsetDeleted

logger = logging.getLogger(__name__)

GROUPS_ACTIVE_MAX = 10_000
"""Groups with members, or about to have some."""

T = TypeVar("T")


class GroupListing(NamedTuple):
    """A group as ListGroups shows it."""

    group: str
    protocol_type: str
    state: GroupState


class Coordinator:
    """All groups of this node; refusals are raised as the errors that clients know.

    Groups with members live here from the start, each under the deadline of its members; a group without any
    is read when somebody asks for it and forgotten again. `now_ms` is monotonic, `wall_ms` is not.
    """

    def __init__(
        self,
        plane: ControlPlane,
        commits: GroupCommit,
        *,
        limits: GroupLimits,
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
    ) -> None:
        self._plane = plane
        self._commits = commits
        self._limits = limits
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        self._groups: dict[str, Group] = {}
        self._tickets = itertools.count(1)
        self._waiting: dict[Ticket, asyncio.Future[Joined | Synced]] = {}
        self._alarm = Alarm(now_ms=now_ms, on_due=self._expire)
        self._is_stopped = False
        for listed in plane.list_groups():
            if listed.members:
                self._ask(listed.group, lambda group: None)

    async def join(self, group_id: str, join: Join) -> Joined:
        """Wait for the generation that the member is part of."""
        _check_id(group_id)
        group = self._find(group_id)
        if group is None:
            if len(self._groups) >= GROUPS_ACTIVE_MAX:
                raise CoordinatorNotAvailable(f"{GROUPS_ACTIVE_MAX} groups have members already")
            group = self._groups[group_id] = Group(group_id, limits=self._limits, new_id=_new_id)
        answer = await self._wait(group_id, group, lambda ticket, now_ms: group.join(ticket, join, now_ms))
        assert isinstance(answer, Joined)
        return answer

    async def sync(self, group_id: str, sync: Sync) -> Synced:
        """Wait for the member's assignment, durable."""
        _check_id(group_id)
        group = self._find(group_id)
        if group is None:
            raise UnknownMemberId(f"there is no group {group_id!r}")
        answer = await self._wait(group_id, group, lambda ticket, now_ms: group.sync(ticket, sync, now_ms))
        assert isinstance(answer, Synced)
        return answer

    def heartbeat(self, group_id: str, caller: Caller) -> None:
        """Keep the member's session alive."""
        _check_id(group_id)
        self._ask(group_id, lambda group: group.heartbeat(caller, self._now_ms()))

    def leave(self, group_id: str, leavers: Sequence[Leaver]) -> list[KafkaRefusal | None]:
        """Take members out; a refusal or None for each, in order."""
        _check_id(group_id)
        if self._find(group_id) is None:
            return [UnknownMemberId(f"there is no group {group_id!r}")] * len(leavers)
        return self._ask(group_id, lambda group: group.leave(leavers, self._now_ms()))

    def check_commit(self, group_id: str, caller: Caller, *, transactional: bool = False) -> None:
        """Raise unless the caller may commit positions now, or stage them in a transaction.

        What is committed next is ordered before any later generation becomes durable, so whoever takes a
        partition over finds it. GroupIdNotFound if somebody claims to be a member of a group that is not there.
        """
        if self._find(group_id) is not None:
            self._ask(
                group_id,
                lambda group: group.check_commit(caller, self._now_ms(), transactional=transactional),
            )
        elif caller.generation >= 0:
            self._check_exists(group_id)
            raise UnknownMemberId(f"group {group_id!r} has no members")

    def describe(self, group_id: str) -> GroupDescription:
        """The group; GroupIdNotFound."""
        if self._find(group_id) is not None:
            return self._ask(group_id, lambda group: group.describe())
        self._check_exists(group_id)
        return GroupDescription(state=GroupState.EMPTY, protocol_type="", protocol="", members=())

    def list_groups(self) -> list[GroupListing]:
        """All groups, by name."""
        listed = {
            row.group: GroupListing(row.group, row.protocol_type, GroupState.EMPTY)
            for row in self._plane.list_groups()
        }
        for group_id, group in self._groups.items():
            description = group.describe()
            listed[group_id] = GroupListing(group_id, description.protocol_type, description.state)
        return sorted(listed.values())

    async def delete(self, group_id: str) -> None:
        """Forget a group without members and its positions; GroupIdNotFound, NonEmptyGroup."""
        group = self._find(group_id)
        if group is None:
            self._check_exists(group_id)
        else:
            group.begin_delete()
        commit = self._commits.submit(ChangeGroup([GroupDeleted(group_id)]))
        commit.add_done_callback(partial(self._deleted, group_id, group))
        # Shielded: the group must learn what became of it, be the client still there or not.
        await asyncio.shield(commit)

    async def delete_offsets(self, offsets: Sequence[GroupOffsetDeleted]) -> None:
        """Forget positions."""
        await self._commits.submit(ChangeGroup(offsets))

    async def expire(self, group_id: str, before_ms: int) -> None:
        """Forget positions that were committed at the time or before, and a group that has neither them nor members.

        Those of a group without members stay until it has been empty since that time. While it has members, only
        consumers' are forgotten, in topics that none of them reads, and not in the middle of a rebalance.
        """
        group = self._find(group_id)
        offsets = self._plane.find_group_offsets(group_id)
        places = find_expired(offsets, before_ms=before_ms, reads=self._reads(group_id, before_ms))
        forgets_group = group is not None and group.is_idle and len(places) == len(offsets)
        if group is not None and forgets_group:
            group.begin_delete()
        elif group is not None:
            self._settle(group_id, group)
        if not places and not forgets_group:
            return
        commit = self._commits.submit(
            ExpireOffsets(
                group_id,
                places,
                before_ms,
                forgets_group,
                self._plane.find_group_offsets,
                self._plane.find_staged,
            )
        )
        if forgets_group:
            # If a position came in between, the group is still saved as it was, and found there again.
            commit.add_done_callback(partial(self._deleted, group_id, group))
        await asyncio.shield(commit)

    def subscription(self, group_id: str) -> Callable[[str], bool]:
        """Tells whether the group reads a topic; GroupIdNotFound, NonEmptyGroup if its topics are not known."""
        _check_id(group_id)
        description = self.describe(group_id)
        if description.state is GroupState.EMPTY:
            return lambda topic: False
        if description.protocol_type != CONSUMER:
            raise NonEmptyGroup(f"group {group_id!r} has members whose topics are not known")
        return self._groups[group_id].subscribes

    def stop(self) -> None:
        """Send everybody who waits to look for a coordinator again; the groups stay as they were saved."""
        self._is_stopped = True
        self._alarm.stop()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(NotCoordinator("shutting down"))

    def _reads(self, group_id: str, before_ms: int) -> Reads:
        """Of which topics the group keeps its positions, whatever their age."""
        group = self._groups.get(group_id)
        if group is not None and not group.is_idle:
            knows = group.state is GroupState.STABLE and group.describe().protocol_type == CONSUMER
            return group.subscribes if knows else lambda topic: True
        saved = self._plane.find_group(group_id)
        was_read = saved is not None and saved.saved_ms > before_ms
        return lambda topic: was_read

    def _find(self, group_id: str) -> Group | None:
        if self._is_stopped:
            raise NotCoordinator("shutting down")
        group = self._groups.get(group_id)
        if group is None and (saved := self._plane.find_group(group_id)) is not None:
            group = Group.restore(saved, limits=self._limits, new_id=_new_id, now_ms=self._now_ms())
            self._groups[group_id] = group
        return group

    def _check_exists(self, group_id: str) -> None:
        if group_id not in self._groups and not self._plane.find_group_offsets(group_id):
            raise GroupIdNotFound(f"there is no group {group_id!r}")

    def _ask(self, group_id: str, question: Callable[[Group], T]) -> T:
        group = self._find(group_id)
        if group is None:
            raise UnknownMemberId(f"there is no group {group_id!r}")
        try:
            return question(group)
        finally:
            self._settle(group_id, group)

    async def _wait(self, group_id: str, group: Group, ask: Callable[[Ticket, int], None]) -> Joined | Synced:
        ticket = Ticket(next(self._tickets))
        future: asyncio.Future[Joined | Synced] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = future
        ask(ticket, self._now_ms())
        self._settle(group_id, group)
        try:
            return await future
        except asyncio.CancelledError:
            group.abandon(ticket, self._now_ms())
            self._settle(group_id, group)
            raise
        finally:
            del self._waiting[ticket]

    def _settle(self, group_id: str, group: Group) -> None:
        """Do what the group has decided, and see to its next deadline."""
        for effect in group.take_effects():
            match effect:
                case Answer(ticket, answer):
                    if (future := self._waiting.get(ticket)) is not None and not future.done():
                        future.set_result(answer)
                case Refuse(ticket, refusal):
                    if (future := self._waiting.get(ticket)) is not None and not future.done():
                        future.set_exception(refusal)
                case Save(revision, saved):
                    change = replace(saved, saved_ms=self._wall_ms())
                    commit = self._commits.submit(ChangeGroup([change]))
                    commit.add_done_callback(partial(self._saved, group_id, group, revision))
                    logger.info(
                        "group %s: generation %d, %d members", group_id, saved.generation, len(saved.members)
                    )
        self._alarm.set(group_id, group.deadline_ms)
        if group.is_idle and self._groups.get(group_id) is group:
            del self._groups[group_id]

    def _saved(self, group_id: str, group: Group, revision: int, commit: "asyncio.Future[object]") -> None:
        failure = commit.exception()
        if failure is not None:
            logger.warning("group %s could not be saved: %s", group_id, failure)
        refusal = None if failure is None else CoordinatorNotAvailable(f"the group is not saved: {failure}")
        group.saved(revision, refusal, self._now_ms())
        self._settle(group_id, group)

    def _deleted(self, group_id: str, group: Group | None, commit: "asyncio.Future[object]") -> None:
        if group is None:
            return
        if commit.exception() is not None:
            group.cancel_delete()
        elif self._groups.get(group_id) is group:
            del self._groups[group_id]

    def _expire(self, group_id: str) -> None:
        group = self._groups.get(group_id)
        if group is not None:
            group.expire(self._now_ms())
            self._settle(group_id, group)


def _check_id(group_id: str) -> None:
    """Only positions may belong to a group without a name, for the sake of old clients."""
    if not group_id:
        raise InvalidGroupId("a group without a name has no members")


def _new_id() -> str:
    return str(uuid4())
