"""LeaveGroup (key 13), v0-5.

Behaviour: members go at once, and the others rebalance once for all who go. A static member may be named by
its instance id alone, which is how an operator takes out one that is gone for good.

Versions: v0-2 one member, whose error is the answer's; v3 several members, each with an error of its own
(KIP-345); v4 flexible; v5 reason (KIP-800).
"""

from typing import Any

from kafka.protocol.consumer import LeaveGroupRequest, LeaveGroupResponse

from holdfast.agent.agent import Agent
from holdfast.agent.groups.messages import Leaver
from holdfast.agent.registry import serves
from holdfast.errors import KafkaRefusal

SEVERAL_MEMBERS_SINCE = 3


@serves(LeaveGroupRequest, first=0, last=5)
async def leave_group(agent: Agent, request: Any) -> Any:
    """What became of each member's wish to leave."""
    version: int = request.API_VERSION
    code = 0
    members: list[Any] = []
    try:
        if version < SEVERAL_MEMBERS_SINCE:
            (result,) = agent.groups.leave(request.group_id, [Leaver(member_id=request.member_id)])
            code = 0 if result is None else result.kafka_code
        else:
            members = _leave(agent, request)
    except KafkaRefusal as refusal:
        code = refusal.kafka_code
    return LeaveGroupResponse(throttle_time_ms=0, error_code=code, members=members, version=version)


def _leave(agent: Agent, request: Any) -> list[Any]:
    leavers = [
        Leaver(member_id=member.member_id, instance_id=member.group_instance_id) for member in request.members
    ]
    results = agent.groups.leave(request.group_id, leavers)
    return [
        LeaveGroupResponse.MemberResponse(
            member_id=leaver.member_id,
            group_instance_id=leaver.instance_id,
            error_code=0 if result is None else result.kafka_code,
            version=request.API_VERSION,
        )
        for leaver, result in zip(leavers, results, strict=True)
    ]
