"""SyncGroup (key 14), v0-5.

Behaviour: waits for the leader's assignment, and for that to be durable: after a crash the group goes on in
the same generation. Assignments pass through unread, so cooperative rebalancing needs nothing here.

Versions: v3 static members (KIP-345); v4 flexible; v5 names the protocol that the member believes in
(KIP-559).
"""

from typing import Any

from kafka.protocol.consumer import SyncGroupRequest, SyncGroupResponse

from holdfast.agent.agent import Agent
from holdfast.agent.groups.messages import Caller, Sync
from holdfast.agent.registry import serves
from holdfast.errors import InconsistentGroupProtocol, KafkaRefusal

PROTOCOL_SINCE = 5


@serves(SyncGroupRequest, first=0, last=5)
async def sync_group(agent: Agent, request: Any) -> Any:
    """The member's assignment."""
    version: int = request.API_VERSION
    try:
        if version >= PROTOCOL_SINCE and None in (request.protocol_type, request.protocol_name):
            raise InconsistentGroupProtocol("protocol type and name must be given")
        synced = await agent.groups.sync(request.group_id, _sync(request))
    except KafkaRefusal as refusal:
        return SyncGroupResponse(
            throttle_time_ms=0,
            error_code=refusal.kafka_code,
            protocol_type=None,
            protocol_name=None,
            assignment=b"",
            version=version,
        )
    return SyncGroupResponse(
        throttle_time_ms=0,
        error_code=0,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol,
        assignment=synced.assignment,
        version=version,
    )


def _sync(request: Any) -> Sync:
    return Sync(
        caller=Caller(
            member_id=request.member_id,
            generation=request.generation_id,
            instance_id=request.group_instance_id,
        ),
        assignments={given.member_id: given.assignment or b"" for given in request.assignments},
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
    )
