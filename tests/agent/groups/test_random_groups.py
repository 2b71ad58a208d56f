"""Random clients, crashes and failing disks against one group: what holds whatever happens."""

import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.agent.groups.messages import GroupState, Joined, Leaver, Synced, Ticket
from holdfast.errors import KafkaRefusal, MemberIdRequired
from tests.agent.groups.driving import REBALANCE_MS, SESSION_MS, Driver, subscription

INSTANCES = st.sampled_from(["a", "b", "c"])
TOPICS = st.sampled_from([subscription("t"), subscription("t", "u"), subscription("t", user_data=b"x")])
PROTOCOLS = st.sampled_from([("range",), ("range", "sticky"), ("sticky", "range")])
PICK = st.integers(0, 10**6)
PHASES_WITH_DEADLINE = (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)


class RandomGroup(RuleBasedStateMachine):
    """Clients act on anything that they were ever told, so that most of them are zombies sooner or later."""

    @initialize(delay_ms=st.sampled_from([0, 0, 3_000]), members_max=st.sampled_from([3, 100]))
    def begin(self, delay_ms: int, members_max: int) -> None:
        self.driver = Driver(
            saves_at_once=False, initial_rebalance_delay_ms=delay_ms, members_max=members_max
        )
        self.instance_of: dict[str, str | None] = {}
        self.asked: dict[Ticket, str | None] = {}
        self.seen: set[Ticket] = set()
        self.told: list[Joined] = []
        self.lost: set[Ticket] = set()
        self.generation = 0

    @rule(protocols=PROTOCOLS, metadata=TOPICS)
    def a_client_comes(self, protocols: tuple[str, ...], metadata: bytes) -> None:
        self._watch(self.driver.join(protocols=protocols, metadata=metadata), None)

    @rule(instance=INSTANCES, protocols=PROTOCOLS, metadata=TOPICS)
    def a_static_client_starts(self, instance: str, protocols: tuple[str, ...], metadata: bytes) -> None:
        self._watch(self.driver.join(instance=instance, protocols=protocols, metadata=metadata), instance)

    @precondition(lambda self: self.instance_of)
    @rule(pick=PICK, protocols=PROTOCOLS, metadata=TOPICS)
    def a_client_joins_again(self, pick: int, protocols: tuple[str, ...], metadata: bytes) -> None:
        member_id, instance = self._anybody(pick)
        ticket = self.driver.join(member_id, instance=instance, protocols=protocols, metadata=metadata)
        self._watch(ticket, instance)

    @precondition(lambda self: self.told)
    @rule(pick=PICK, recent=st.booleans())
    def a_client_syncs(self, pick: int, recent: bool) -> None:
        joined = self.told[-1 - pick % min(len(self.told), 4)] if recent else self.told[pick % len(self.told)]
        assignments = {
            member.member_id: f"{joined.generation}:{member.instance_id or member.member_id}".encode()
            for member in joined.members
        }
        instance = self.instance_of[joined.member_id]
        ticket = self.driver.sync(joined.member_id, joined.generation, assignments, instance=instance)
        self._watch(ticket, instance)

    @precondition(lambda self: self.told)
    @rule(pick=PICK, commits=st.booleans())
    def a_client_shows_up(self, pick: int, commits: bool) -> None:
        joined = self.told[pick % len(self.told)]
        instance = self.instance_of[joined.member_id]
        act = self.driver.commit if commits else self.driver.heartbeat
        try:
            act(joined.member_id, joined.generation, instance=instance)
        except KafkaRefusal:
            return
        assert joined.generation == self.driver.group._rebalance.generation
        assert joined.member_id in self._member_ids()
        assert not commits or self.driver.group.state is not GroupState.COMPLETING_REBALANCE

    @precondition(lambda self: self.instance_of)
    @rule(pick=PICK, by_instance=st.booleans())
    def a_client_leaves(self, pick: int, by_instance: bool) -> None:
        member_id, instance = self._anybody(pick)
        leaver = Leaver(member_id="" if by_instance and instance else member_id, instance_id=instance)
        (result,) = self.driver.group.leave([leaver], self.driver.now_ms)
        self.driver.settle()
        assert result is not None or member_id not in self._member_ids()

    @precondition(lambda self: self._waiting())
    @rule(pick=PICK)
    def a_connection_breaks(self, pick: int) -> None:
        waiting = self._waiting()
        ticket = waiting[pick % len(waiting)]
        self.driver.group.abandon(ticket, self.driver.now_ms)
        self.driver.settle()
        self.lost.add(ticket)

    @rule(milliseconds=st.sampled_from([1, 1_000, 3_000, SESSION_MS - 1, SESSION_MS, REBALANCE_MS]))
    def time_passes(self, milliseconds: int) -> None:
        self.driver.pass_time(milliseconds)

    @precondition(lambda self: self.driver.unsaved)
    @rule()
    def the_disk_is_done(self) -> None:
        self.driver.save_all()

    @precondition(lambda self: self.driver.unsaved)
    @rule()
    def the_disk_fails(self) -> None:
        self.driver.fail_save()

    @rule()
    def the_process_is_killed(self) -> None:
        self.lost.update(self._waiting())
        self.driver.restart()
        self.generation = 0 if self.driver.durable is None else self.driver.durable.generation
        assert self.driver.group._rebalance.generation == self.generation

    @invariant()
    def answers_are_true(self) -> None:
        answers = self.driver.answers
        new = [ticket for ticket in answers if ticket not in self.seen]
        self.seen.update(new)
        for ticket in new:
            answer, instance = answers[ticket], self.asked[ticket]
            if isinstance(answer, MemberIdRequired):
                self.instance_of[answer.member_id] = None
            elif isinstance(answer, Joined):
                self.instance_of[answer.member_id] = instance
                self.told.append(answer)
                if answer.members:
                    assert answer.leader == answer.member_id
                    assert answer.member_id in {member.member_id for member in answer.members}
            elif isinstance(answer, Synced):
                saved = self.driver.durable
                assert saved is not None
                assert answer.assignment in {member.assignment for member in saved.members}

    @invariant()
    def members_are_distinct_and_led(self) -> None:
        members = self.driver.group.describe().members
        static = [member.instance_id for member in members if member.instance_id is not None]
        assert len(static) == len(set(static))
        assert len(members) <= self.driver.limits.members_max
        assert (self.driver.group.state is GroupState.EMPTY) <= (not members)
        leader = self.driver.group._roster.leader
        assert (leader in self._member_ids()) if members else (leader is None)

    @invariant()
    def a_stable_group_is_what_its_leader_made_it(self) -> None:
        group = self.driver.group
        if group.state is not GroupState.STABLE:
            return
        description = group.describe()
        for member in description.members:
            given = f"{group._rebalance.generation}:{member.instance_id or member.member_id}"
            assert member.assignment == given.encode()
            assert description.protocol in dict(member.protocols)

    @invariant()
    def generations_only_grow(self) -> None:
        generation = self.driver.group._rebalance.generation
        assert generation >= self.generation
        self.generation = generation

    @invariant()
    def nobody_waits_without_a_deadline(self) -> None:
        group = self.driver.group
        waits_for_members = group.state in PHASES_WITH_DEADLINE and not self.driver.unsaved
        assert not waits_for_members or group.deadline_ms is not None

    def teardown(self) -> None:
        """When all fall silent, every request has been answered and the group is empty."""
        if not hasattr(self, "driver"):
            return
        for _ in itertools.takewhile(lambda _: self.driver.group.state is not GroupState.EMPTY, range(10)):
            self.driver.save_all()
            self.driver.pass_time(REBALANCE_MS + SESSION_MS)
        assert self.driver.group.state is GroupState.EMPTY
        assert self._waiting() == []

    def _watch(self, ticket: Ticket, instance: str | None) -> None:
        self.asked[ticket] = instance

    def _anybody(self, pick: int) -> tuple[str, str | None]:
        known = list(self.instance_of.items())
        return known[pick % len(known)]

    def _waiting(self) -> list[Ticket]:
        return [
            ticket for ticket in self.asked if ticket not in self.driver.answers | dict.fromkeys(self.lost)
        ]

    def _member_ids(self) -> set[str]:
        return {member.member_id for member in self.driver.group.describe().members}


RandomGroup.TestCase.settings = settings(max_examples=300, stateful_step_count=50)
TestRandomGroup = RandomGroup.TestCase
