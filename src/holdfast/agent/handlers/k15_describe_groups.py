"""DescribeGroups (key 15), v0-6.

Behaviour: state and members of groups. What members said of themselves and what they were assigned is shown
while the group is stable. A group that is not there is `Dead`.

Versions: v3 authorized operations: all, as nobody is kept from any; v4 instance ids; v5 flexible; v6
GROUP_ID_NOT_FOUND with a message instead of a `Dead` group without an error (KIP-1043).
"""

from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest, DescribeGroupsResponse

from holdfast.agent.agent import Agent
from holdfast.agent.groups.group import GroupDescription
from holdfast.agent.groups.messages import GroupState
from holdfast.agent.registry import serves
from holdfast.errors import GroupIdNotFound, KafkaRefusal
from holdfast.store.footer import GroupMember

NOT_FOUND_SINCE = 6
ALL_OPERATIONS = frozenset({3, 6, 8, 10, 11})
"""Read, delete and describe a group, describe and alter its configs: by their numbers in Kafka."""


@serves(DescribeGroupsRequest, first=0, last=6)
async def describe_groups(agent: Agent, request: Any) -> Any:
    """Each group on its own."""
    groups = [_describe(agent, group_id, request) for group_id in request.groups]
    return DescribeGroupsResponse(throttle_time_ms=0, groups=groups, version=request.API_VERSION)


def _describe(agent: Agent, group_id: str, request: Any) -> Any:
    version: int = request.API_VERSION
    code, message = 0, None
    try:
        description = agent.groups.describe(group_id)
    except KafkaRefusal as refusal:
        description = GroupDescription(state=GroupState.DEAD, protocol_type="", protocol="", members=())
        if version >= NOT_FOUND_SINCE or not isinstance(refusal, GroupIdNotFound):
            code, message = refusal.kafka_code, str(refusal)
    has_operations = request.include_authorized_operations and code == 0
    return DescribeGroupsResponse.DescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state=description.state.value,
        protocol_type=description.protocol_type,
        protocol_data=description.protocol,
        members=[_member(member, description.protocol, version) for member in description.members],
        authorized_operations=ALL_OPERATIONS if has_operations else None,
        version=version,
    )


def _member(member: GroupMember, protocol: str, version: int) -> Any:
    metadata = dict(member.protocols).get(protocol, b"")
    return DescribeGroupsResponse.DescribedGroup.DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=metadata,
        member_assignment=member.assignment,
        version=version,
    )
