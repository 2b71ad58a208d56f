"""ListGroups (key 16), v0-5.

Behaviour: all groups that this node coordinates, those included that have positions and never had members.
Filters leave out what does not match; upper and lower case are the same to them.

Versions: v3 flexible; v4 states, to filter by and to see (KIP-518); v5 types: all groups are `classic`
(KIP-848).
"""

from typing import Any

from kafka.protocol.admin import ListGroupsRequest, ListGroupsResponse

from holdfast.agent.agent import Agent
from holdfast.agent.registry import serves

CLASSIC = "classic"


@serves(ListGroupsRequest, first=0, last=5)
async def list_groups(agent: Agent, request: Any) -> Any:
    """The groups that pass the filters."""
    version: int = request.API_VERSION
    states = {state.lower() for state in request.states_filter or ()}
    types = {type_.lower() for type_ in request.types_filter or ()}
    groups = [
        ListGroupsResponse.ListedGroup(
            group_id=listing.group,
            protocol_type=listing.protocol_type,
            group_state=listing.state.value,
            group_type=CLASSIC,
            version=version,
        )
        for listing in agent.groups.list_groups()
        if agent.coordinator_of(listing.group) is agent
        and (not states or listing.state.lower() in states)
        and (not types or CLASSIC in types)
    ]
    return ListGroupsResponse(throttle_time_ms=0, error_code=0, groups=groups, version=version)
