"""JoinGroup (key 11), v0-9.

Behaviour: waits until the group's next generation begins. The leader is told of all members, the others of
none. A new dynamic member is first told its id and comes back with it; a static member that comes back
without its id gets a new one and fences the old.

Versions: v1 rebalance timeout of its own (before: the session timeout); v4 MEMBER_ID_REQUIRED (KIP-394);
v5 static members (KIP-345); v6 flexible; v7 protocol type, null where there is none (KIP-559); v8 reason
(KIP-800); v9 a returning leader may be told to skip the assignment (KIP-814).
"""

from typing import Any

from kafka.protocol.consumer import JoinGroupRequest, JoinGroupResponse

from holdfast.agent.agent import Agent
from holdfast.agent.groups.messages import Join, Joined
from holdfast.agent.registry import Request, serves
from holdfast.errors import KafkaRefusal, MemberIdRequired
from holdfast.store.footer import GroupProtocol

REBALANCE_TIMEOUT_SINCE = 1
KNOWN_ID_SINCE = 4
NULL_PROTOCOL_SINCE = 7
SKIP_ASSIGNMENT_SINCE = 9


@serves(JoinGroupRequest, first=0, last=9, with_request=True)
async def join_group(agent: Agent, request: Any, origin: Request) -> Any:
    """The generation that the member is part of."""
    version: int = request.API_VERSION
    try:
        joined = await agent.groups.join(request.group_id, _join(request, origin))
    except KafkaRefusal as refusal:
        member_id = refusal.member_id if isinstance(refusal, MemberIdRequired) else request.member_id
        return JoinGroupResponse(
            throttle_time_ms=0,
            error_code=refusal.kafka_code,
            generation_id=-1,
            protocol_type=None,
            protocol_name=None if version >= NULL_PROTOCOL_SINCE else "",
            leader="",
            skip_assignment=False,
            member_id=member_id,
            members=[],
            version=version,
        )
    return _response(joined, version)


def _join(request: Any, origin: Request) -> Join:
    version: int = request.API_VERSION
    has_timeout = version >= REBALANCE_TIMEOUT_SINCE
    return Join(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=origin.client_id or "",
        client_host=f"/{origin.client_host}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms if has_timeout else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple(GroupProtocol(offer.name, offer.metadata or b"") for offer in request.protocols),
        needs_known_id=version >= KNOWN_ID_SINCE,
        may_skip_assignment=version >= SKIP_ASSIGNMENT_SINCE,
    )


def _response(joined: Joined, version: int) -> Any:
    return JoinGroupResponse(
        throttle_time_ms=0,
        error_code=0,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
                version=version,
            )
            for member in joined.members
        ],
        version=version,
    )
