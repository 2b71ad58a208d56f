"""FindCoordinator (key 10), v0-6.

Behaviour: this node coordinates every group and every transactional id. Share groups (key type 2), which
there are none of, and unknown key types are INVALID_REQUEST.

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
    """Always us."""
    version: int = request.API_VERSION
    here = {"node_id": agent.node_id, "host": agent.host, "port": agent.port, "error_code": 0}
    if request.key_type not in (GROUP, TRANSACTION):
        here = {"node_id": -1, "host": "", "port": -1, "error_code": InvalidRequest.kafka_code}
    if version < 4:
        return FindCoordinatorResponse(throttle_time_ms=0, error_message=None, **here, version=version)
    coordinators = [
        FindCoordinatorResponse.Coordinator(key=key, error_message=None, **here, version=version)
        for key in request.coordinator_keys
    ]
    return FindCoordinatorResponse(throttle_time_ms=0, coordinators=coordinators, version=version)
