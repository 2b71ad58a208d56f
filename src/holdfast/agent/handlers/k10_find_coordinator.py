"""FindCoordinator (key 10), v0-6.

Behaviour: this node coordinates every group.

Versions: v3 flexible; v4 several keys at once.
"""

from typing import Any

from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from holdfast.agent.agent import NODE_ID, Agent
from holdfast.agent.registry import serves


@serves(FindCoordinatorRequest, first=0, last=6)
async def find_coordinator(agent: Agent, request: Any) -> Any:
    """Always us."""
    version: int = request.API_VERSION
    here = {"node_id": NODE_ID, "host": agent.host, "port": agent.port, "error_code": 0}
    if version < 4:
        return FindCoordinatorResponse(throttle_time_ms=0, error_message=None, **here, version=version)
    coordinators = [
        FindCoordinatorResponse.Coordinator(key=key, error_message=None, **here, version=version)
        for key in request.coordinator_keys
    ]
    return FindCoordinatorResponse(throttle_time_ms=0, coordinators=coordinators, version=version)
