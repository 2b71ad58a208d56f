"""DeleteGroups (key 42), v0-2.

Behaviour: a group without members is forgotten, and its positions with it, durably. NON_EMPTY_GROUP for one
that has members, GROUP_ID_NOT_FOUND for one that is not there; each group on its own.

Versions: v2 flexible.
"""

from typing import Any

from kafka.protocol.admin import DeleteGroupsRequest, DeleteGroupsResponse

from holdfast.agent.agent import Agent
from holdfast.agent.coordinator_codes import coordinator_code_of
from holdfast.agent.registry import serves
from holdfast.errors import HoldfastError


@serves(DeleteGroupsRequest, first=0, last=2)
async def delete_groups(agent: Agent, request: Any) -> Any:
    """Delete the groups one after the other; one that is named twice is deleted once."""
    version: int = request.API_VERSION
    results = []
    for group_id in dict.fromkeys(request.groups_names):
        code = 0
        try:
            await agent.groups.delete(group_id)
        except HoldfastError as refusal:
            code = coordinator_code_of(refusal)
        results.append(
            DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=code, version=version)
        )
    return DeleteGroupsResponse(throttle_time_ms=0, results=results, version=version)
