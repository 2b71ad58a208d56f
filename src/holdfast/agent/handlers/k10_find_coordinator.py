"""FindCoordinator (key 10), v0-6.

Behaviour: groups and transactional ids are spread over the nodes by their names; nodes share what they know, so
a request that goes to another one is served too. Share groups (key type 2), which there are none of, and unknown
key types are INVALID_REQUEST.

Versions: v1 key types; v3 flexible; v4 several keys at once (KIP-699); v6 share groups (KIP-932).
"""

from typing import Any

from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from holdfast.agent.agent import Agent
from holdfast.agent.registry import serves
from holdfast.errors import InvalidRequest

GROUP, TRANSACTION = 0, 1


@serves(FindCoordinatorRequest, first=0, last=6)
async def find_coordinator(agent: Agent, request: Any) -> Any:
    """Where to go with each key."""
    version: int = request.API_VERSION
    if version < 4:
        answer = _locate(agent, request.key, request.key_type)
        return FindCoordinatorResponse(throttle_time_ms=0, **answer, version=version)
    coordinators = [
        FindCoordinatorResponse.Coordinator(key=key, **_locate(agent, key, request.key_type), version=version)
        for key in request.coordinator_keys
    ]
    return FindCoordinatorResponse(throttle_time_ms=0, coordinators=coordinators, version=version)


def _locate(agent: Agent, key: str, key_type: int) -> dict[str, Any]:
    if key_type not in (GROUP, TRANSACTION):
        why = f"key type {key_type} has no coordinator"
        code = InvalidRequest.kafka_code
        return {"node_id": -1, "host": "", "port": -1, "error_code": code, "error_message": why}
    node = agent.coordinator_of(key)
    return {
        "node_id": node.node_id,
        "host": node.host,
        "port": node.port,
        "error_code": 0,
        "error_message": None,
    }
