"""What each version of the group requests must answer; `test_versions` runs them all."""

from collections.abc import Callable
from typing import Any, Protocol

from tests.agent import requests
from tests.agent.raw import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetDeleteRequest,
    SyncGroupRequest,
)


class Exchange(Protocol):
    """A connection."""

    @property
    def call(self) -> Callable[[Any], Any]:
        """Sends a request and returns its answer."""
        ...


def join_request(group: str, version: int, *, member_id: str = "", instance_id: str | None = None) -> Any:
    """A consumer that knows one assignor."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"mine", version=version)
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[protocol],
        version=version,
    )


def sync_request(group: str, version: int, member_id: str, *, generation: int = 1) -> Any:
    """A leader that assigns everything to itself."""
    given: Any = SyncGroupRequest.SyncGroupRequestAssignment
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[given(member_id=member_id, assignment=b"all", version=version)],
        version=version,
    )


def join_alone(exchange: Exchange, group: str) -> str:
    """The id of the only member of a stable group in generation 1."""
    member_id: str = exchange.call(join_request(group, 3)).member_id
    assert exchange.call(sync_request(group, 3, member_id)).error_code == 0
    return member_id


def check_join_group(exchange: Exchange, version: int) -> None:
    group = f"join-{version}"
    answer = exchange.call(join_request(group, version))
    if version >= 4:
        assert (answer.error_code, answer.generation_id) == (79, -1)
        assert answer.protocol_name == (None if version >= 7 else "")
        answer = exchange.call(join_request(group, version, member_id=answer.member_id))
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
    assert answer.leader == answer.member_id
    assert answer.member_id.startswith("raw-")
    assert [(one.member_id, one.metadata) for one in answer.members] == [(answer.member_id, b"mine")]
    if version >= 7:
        assert answer.protocol_type == "consumer"
    stranger = exchange.call(join_request(group, version, member_id="stranger"))
    assert (stranger.error_code, stranger.member_id) == (25, "stranger")
    hasty = join_request(group, version)
    hasty.session_timeout_ms = 1
    assert exchange.call(hasty).error_code == 26
    hasty.group_id, hasty.member_id = "nobody", "stranger"
    assert exchange.call(hasty).error_code == 26
    assert exchange.call(join_request("", version)).error_code == 24
    if version >= 5:
        static = exchange.call(join_request(f"static-{version}", version, instance_id="i"))
        assert (static.error_code, static.members[0].group_instance_id) == (0, "i")
        assert exchange.call(sync_request(f"static-{version}", 3, static.member_id)).error_code == 0
        back = exchange.call(join_request(f"static-{version}", version, instance_id="i"))
        assert (back.error_code, back.generation_id) == (0, 1)
        assert back.member_id != static.member_id
        if version >= 9:
            assert (back.skip_assignment, back.leader, len(back.members)) == (True, back.member_id, 1)
        else:
            assert (back.leader, back.members) == (static.member_id, [])


def check_sync_group(exchange: Exchange, version: int) -> None:
    group = f"sync-{version}"
    member_id = exchange.call(join_request(group, 3)).member_id
    early = exchange.call(sync_request(group, version, member_id, generation=2))
    assert (early.error_code, early.assignment) == (22, b"")
    answer = exchange.call(sync_request(group, version, member_id))
    assert (answer.error_code, answer.assignment) == (0, b"all")
    assert exchange.call(sync_request(group, version, "stranger")).error_code == 25
    if version >= 5:
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
        for name in ("sticky", None):
            mistaken = sync_request(group, version, member_id)
            mistaken.protocol_name = name
            assert exchange.call(mistaken).error_code == 23


def check_heartbeat(exchange: Exchange, version: int) -> None:
    group = f"heartbeat-{version}"
    member_id = join_alone(exchange, group)

    def beat(generation: int, member_id: str) -> int:
        request = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member_id, version=version
        )
        return int(exchange.call(request).error_code)

    assert beat(1, member_id) == 0
    assert beat(2, member_id) == 22
    assert beat(1, "stranger") == 25
    group = "nobody"
    assert beat(1, member_id) == 25
    group = ""
    assert beat(1, member_id) == 24


def check_leave_group(exchange: Exchange, version: int) -> None:
    group = f"leave-{version}"
    member_id = join_alone(exchange, group)
    if version < 3:
        for code in (0, 25):
            request = LeaveGroupRequest(group_id=group, member_id=member_id, version=version)
            assert exchange.call(request).error_code == code
        return
    leaver: Any = LeaveGroupRequest.MemberIdentity
    members = [
        leaver(member_id="", group_instance_id="nobody", version=version),
        leaver(member_id=member_id, group_instance_id=None, version=version),
    ]
    answer = exchange.call(LeaveGroupRequest(group_id=group, members=members, version=version))
    assert answer.error_code == 0
    assert [(one.member_id, one.group_instance_id, one.error_code) for one in answer.members] == [
        ("", "nobody", 25),
        (member_id, None, 0),
    ]


def check_describe_groups(exchange: Exchange, version: int) -> None:
    group = f"describe-{version}"
    member_id = join_alone(exchange, group)
    request = DescribeGroupsRequest(
        groups=[group, "g", "nobody"], include_authorized_operations=True, version=version
    )
    stable, simple, unknown = exchange.call(request).groups
    assert (stable.error_code, stable.group_state) == (0, "Stable")
    assert (stable.protocol_type, stable.protocol_data) == ("consumer", "range")
    (member,) = stable.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "raw", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (b"mine", b"all")
    assert (simple.error_code, simple.group_state, simple.members) == (0, "Empty", [])
    assert (unknown.group_state, unknown.error_code) == ("Dead", 69 if version >= 6 else 0)
    if version >= 3:
        assert stable.authorized_operations == {3, 6, 8, 10, 11}
        assert unknown.authorized_operations == (None if version >= 6 else {3, 6, 8, 10, 11})


def check_list_groups(exchange: Exchange, version: int) -> None:
    group = f"list-{version}"
    join_alone(exchange, group)

    def listed(**filters: list[str]) -> dict[str, Any]:
        answer = exchange.call(ListGroupsRequest(**filters, version=version))
        assert answer.error_code == 0
        return {one.group_id: one for one in answer.groups}

    everything = listed()
    assert (everything[group].protocol_type, everything["g"].protocol_type) == ("consumer", "")
    if version >= 4:
        assert (everything[group].group_state, everything["g"].group_state) == ("Stable", "Empty")
        stable = listed(states_filter=["stable"])
        assert group in stable
        assert "g" not in stable
    if version >= 5:
        assert everything[group].group_type == "classic"
        assert listed(types_filter=["Classic"]) == everything
        assert listed(types_filter=["consumer"]) == {}


def check_delete_groups(exchange: Exchange, version: int) -> None:
    busy, simple = f"delete-{version}", f"delete-simple-{version}"
    member_id = join_alone(exchange, busy)
    exchange.call(requests.commit_offset(simple, "t", 1))
    request = DeleteGroupsRequest(groups_names=[busy, simple, "nobody"], version=version)
    codes = {one.group_id: one.error_code for one in exchange.call(request).results}
    assert codes == {busy: 68, simple: 0, "nobody": 69}
    exchange.call(LeaveGroupRequest(group_id=busy, member_id=member_id, version=0))
    codes = {one.group_id: one.error_code for one in exchange.call(request).results}
    assert codes == {busy: 0, simple: 69, "nobody": 69}


def check_offset_delete(exchange: Exchange, version: int) -> None:
    exchange.call(requests.commit_offset("forgetful", "t", 1))
    topic: Any = OffsetDeleteRequest.OffsetDeleteRequestTopic
    topics = [
        topic(
            name=name,
            partitions=[topic.OffsetDeleteRequestPartition(partition_index=0, version=version)],
            version=version,
        )
        for name in ("t", "nowhere")
    ]
    answer = exchange.call(OffsetDeleteRequest(group_id="forgetful", topics=topics, version=version))
    assert answer.error_code == 0
    assert {one.name: one.partitions[0].error_code for one in answer.topics} == {"t": 0, "nowhere": 3}
    assert (
        exchange.call(requests.fetch_offset("forgetful", "t"))
        .groups[0]
        .topics[0]
        .partitions[0]
        .committed_offset
        == -1
    )
    unknown = exchange.call(OffsetDeleteRequest(group_id="nobody", topics=topics, version=version))
    assert (unknown.error_code, unknown.topics) == (69, [])
    nameless = exchange.call(OffsetDeleteRequest(group_id="", topics=topics, version=version))
    assert (nameless.error_code, nameless.topics) == (24, [])


GROUP_CHECKS: dict[int, Callable[[Exchange, int], None]] = {
    11: check_join_group,
    12: check_heartbeat,
    13: check_leave_group,
    14: check_sync_group,
    15: check_describe_groups,
    16: check_list_groups,
    42: check_delete_groups,
    47: check_offset_delete,
}
