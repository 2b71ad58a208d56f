"""Heartbeat (key 12), v0-4.

Behaviour: the member's session begins anew. REBALANCE_IN_PROGRESS while the group waits for its members to
join again; that counts as a heartbeat too.

Versions: v3 static members (KIP-345); v4 flexible.
"""

from typing import Any

from kafka.protocol.consumer import HeartbeatRequest, HeartbeatResponse

from holdfast.agent.agent import Agent
from holdfast.agent.groups.messages import Caller
from holdfast.agent.registry import serves
from holdfast.errors import KafkaRefusal


@serves(HeartbeatRequest, first=0, last=4)
async def heartbeat(agent: Agent, request: Any) -> Any:
    """Whether all is well, or what to do."""
    code = 0
    caller = Caller(
        member_id=request.member_id,
        generation=request.generation_id,
        instance_id=request.group_instance_id,
    )
    try:
        agent.groups.heartbeat(request.group_id, caller)
    except KafkaRefusal as refusal:
        code = refusal.kafka_code
    return HeartbeatResponse(throttle_time_ms=0, error_code=code, version=request.API_VERSION)
