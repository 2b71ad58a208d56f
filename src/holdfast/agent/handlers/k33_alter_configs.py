"""AlterConfigs (key 33), v0-2.

Behaviour: a topic has the configs of the request from then on, and its defaults for all others: what the request
does not name is unset. IncrementalAlterConfigs is the better choice. Settings of a node are refused.

Versions: v2 flexible.
"""

from typing import Any

from kafka.protocol.admin import AlterConfigsRequest, AlterConfigsResponse

from holdfast.agent.agent import Agent
from holdfast.agent.config_changes import Update, alter_resources, replacing
from holdfast.agent.registry import serves


@serves(AlterConfigsRequest, first=0, last=2)
async def alter_configs(agent: Agent, request: Any) -> Any:
    """Change one resource after the other."""
    return await alter_resources(agent, request, AlterConfigsResponse, _update)


def _update(resource: Any) -> Update:
    return replacing([(each.name, each.value) for each in resource.configs])
