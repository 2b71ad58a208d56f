"""Drives one group in virtual time: requests get tickets, answers are kept by ticket, saves are at hand."""

import itertools
import struct
from collections.abc import Sequence
from typing import Any

from holdfast.agent.groups.group import Group
from holdfast.agent.groups.messages import (
    Answer,
    Caller,
    GroupLimits,
    GroupState,
    Join,
    Joined,
    Refuse,
    Save,
    Sync,
    Synced,
    Ticket,
)
from holdfast.errors import CoordinatorNotAvailable, KafkaRefusal, MemberIdRequired
from holdfast.store.footer import GroupProtocol, GroupSaved

SESSION_MS = 10_000
REBALANCE_MS = 60_000


def subscription(*topics: str, user_data: bytes = b"") -> bytes:
    """A consumer's metadata, version 0."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", len(user_data)) + user_data


class Driver:
    """A group and its clients. With `saves_at_once` off, the test says when a save has succeeded or failed."""

    def __init__(self, *, saves_at_once: bool = True, **limits: int) -> None:
        self.limits = GroupLimits(**{"initial_rebalance_delay_ms": 0, **limits})
        self._ids = itertools.count(1)
        self._tickets = itertools.count(1)
        self.now_ms = 0
        self.saves_at_once = saves_at_once
        self.unsaved: list[Save] = []
        self.durable: GroupSaved | None = None
        self.answers: dict[Ticket, Joined | Synced | KafkaRefusal] = {}
        self.group = Group("g", limits=self.limits, new_id=self._new_id)

    def _new_id(self) -> str:
        return str(next(self._ids))

    def restart(self) -> None:
        """A new process finds what was durable; nobody's request waits any more."""
        self.unsaved.clear()
        if self.durable is None:
            self.group = Group("g", limits=self.limits, new_id=self._new_id)
        else:
            self.group = Group.restore(
                self.durable, limits=self.limits, new_id=self._new_id, now_ms=self.now_ms
            )

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: Sequence[str] = ("range",),
        metadata: bytes = subscription("t"),
        version: int = 9,
        **fields: Any,
    ) -> Ticket:
        """Send a JoinGroup."""
        ticket = Ticket(next(self._tickets))
        values: dict[str, Any] = {
            "client_id": "c",
            "client_host": "/127.0.0.1",
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocol_type": "consumer",
            "needs_known_id": version >= 4,
            "may_skip_assignment": version >= 9,
            **fields,
        }
        offered = tuple(GroupProtocol(name, metadata) for name in protocols)
        join = Join(member_id=member_id, instance_id=instance, protocols=offered, **values)
        self.group.join(ticket, join, self.now_ms)
        self.settle()
        return ticket

    def enter(self, **options: Any) -> tuple[str, Ticket]:
        """A new dynamic member, by way of the id that it is given: its id and its waiting join."""
        refusal = self.refusal(self.join(**options))
        assert isinstance(refusal, MemberIdRequired)
        return refusal.member_id, self.join(refusal.member_id, **options)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        **fields: Any,
    ) -> Ticket:
        """Send a SyncGroup."""
        ticket = Ticket(next(self._tickets))
        caller = Caller(member_id=member_id, generation=generation, instance_id=instance)
        sync = Sync(caller=caller, assignments=assignments or {}, **fields)
        self.group.sync(ticket, sync, self.now_ms)
        self.settle()
        return ticket

    def heartbeat(self, member_id: str, generation: int, *, instance: str | None = None) -> None:
        """Send a Heartbeat; raises its refusal."""
        caller = Caller(member_id=member_id, generation=generation, instance_id=instance)
        self.group.heartbeat(caller, self.now_ms)

    def commit(self, member_id: str, generation: int, *, instance: str | None = None) -> None:
        """Ask to commit; raises its refusal."""
        caller = Caller(member_id=member_id, generation=generation, instance_id=instance)
        self.group.check_commit(caller, self.now_ms)

    def stable(self, count: int = 1, **options: Any) -> list[str]:
        """A stable group of so many dynamic members, oldest (and leader) first."""
        members = [self.enter(**options)]
        for _ in range(count - 1):
            members.append(self.enter(**options))
            self.rejoin(*(member_id for member_id, _ in members[:-1]))
        ids = [member_id for member_id, _ in members]
        generation = self.generation
        for member_id in ids:
            self.sync(member_id, generation, {each: f"to {each}".encode() for each in ids})
        return ids

    def rejoin(self, *member_ids: str, **options: Any) -> list[Ticket]:
        """These members join again."""
        return [self.join(member_id, **options) for member_id in member_ids]

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass; everything that falls due on the way happens at its time."""
        end_ms = self.now_ms + milliseconds
        while (due_ms := self.group.deadline_ms) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.group.expire(self.now_ms)
            self.settle()
        self.now_ms = end_ms

    def settle(self) -> None:
        """Collect what the group has decided."""
        while effects := self.group.take_effects():
            for effect in effects:
                match effect:
                    case Answer(ticket, answer) | Refuse(ticket, answer):
                        assert ticket not in self.answers, "a request is answered twice"
                        self.answers[ticket] = answer
                    case Save():
                        self.unsaved.append(effect)
            if self.saves_at_once:
                self.save_all()

    def save_all(self) -> None:
        """Everything that waits to be saved is durable now."""
        while self.unsaved:
            save = self.unsaved.pop(0)
            self.durable = save.group
            self.group.saved(save.revision, None, self.now_ms)
            self.settle()

    def fail_save(self) -> None:
        """The oldest save could not be made durable."""
        save = self.unsaved.pop(0)
        self.group.saved(save.revision, CoordinatorNotAvailable("full disk"), self.now_ms)
        self.settle()

    def joined(self, ticket: Ticket) -> Joined:
        """The answer to a join that succeeded."""
        answer = self.answers[ticket]
        assert isinstance(answer, Joined), answer
        return answer

    def assignment(self, ticket: Ticket) -> bytes:
        """The answer to a sync that succeeded."""
        answer = self.answers[ticket]
        assert isinstance(answer, Synced), answer
        return answer.assignment

    def refusal(self, ticket: Ticket) -> KafkaRefusal:
        """The answer to a request that was turned down."""
        answer = self.answers[ticket]
        assert isinstance(answer, KafkaRefusal), answer
        return answer

    def is_waiting(self, ticket: Ticket) -> bool:
        """Whether there is no answer yet."""
        return ticket not in self.answers

    def state(self) -> GroupState:
        """Where the group stands."""
        return self.group.state

    @property
    def generation(self) -> int:
        """The number of the newest generation that anybody was told of."""
        return max((a.generation for a in self.answers.values() if isinstance(a, Joined)), default=0)
