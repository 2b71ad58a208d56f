"""IncrementalAlterConfigs (key 44), v0-1.

Behaviour: the configs named are set, deleted, or, where they are lists, appended to and subtracted from; others
stay. All changes to a topic are made together or not at all, on top of what others changed before (KIP-339).
Settings of a node are refused: they are given at its start.

Versions: v1 flexible.
"""

from typing import Any

from kafka.protocol.admin import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

from holdfast.agent.agent import Agent
from holdfast.agent.config_changes import ConfigChange, Operation, Update, alter_resources, changing
from holdfast.agent.registry import serves
from holdfast.errors import InvalidRequest


@serves(IncrementalAlterConfigsRequest, first=0, last=1)
async def incremental_alter_configs(agent: Agent, request: Any) -> Any:
    """Change one resource after the other."""
    return await alter_resources(agent, request, IncrementalAlterConfigsResponse, _update)


def _update(resource: Any) -> Update:
    try:
        return changing(
            [
                ConfigChange(each.name, Operation(each.config_operation), each.value)
                for each in resource.configs
            ]
        )
    except ValueError as unknown:
        raise InvalidRequest(f"no such operation: {unknown}") from unknown
