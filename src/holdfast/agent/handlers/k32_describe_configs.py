"""DescribeConfigs (key 32), v1-4.

Behaviour: the configs of topics, and the settings of this node under Kafka's names, which are read-only; only the
ones named, if any are. Defaults are shown as such. Nothing is sensitive. The empty broker name asks for what was
changed for all nodes while they run: nothing ever is.

Versions: v1 synonyms (KIP-226); v3 types and documentation (KIP-569); v4 flexible.
"""

from collections.abc import Iterable
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse

from holdfast.agent.agent import Agent
from holdfast.agent.catalog import check_name
from holdfast.agent.config_changes import ResourceType, check_broker
from holdfast.agent.config_view import ConfigEntry, describe_broker, describe_topic
from holdfast.agent.registry import serves
from holdfast.errors import HoldfastError, InvalidRequest

RESULT: Any = DescribeConfigsResponse.DescribeConfigsResult
CONFIG = RESULT.DescribeConfigsResourceResult


@serves(DescribeConfigsRequest, first=1, last=4)
async def describe_configs(agent: Agent, request: Any) -> Any:
    """One result for each resource."""
    version: int = request.API_VERSION
    results = []
    for resource in request.resources:
        code, message, configs = 0, "", []
        try:
            keys = resource.configuration_keys
            configs = [
                _config(entry, request) for entry in _find(agent, resource) if not keys or entry.name in keys
            ]
        except HoldfastError as refusal:
            code, message = refusal.kafka_code, str(refusal)
        results.append(
            RESULT(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=configs,
                version=version,
            )
        )
    return DescribeConfigsResponse(throttle_time_ms=0, results=results, version=version)


def _find(agent: Agent, resource: Any) -> Iterable[ConfigEntry]:
    name: str = resource.resource_name
    if resource.resource_type == ResourceType.TOPIC:
        check_name(name)
        return describe_topic(agent.catalog.get(name), agent.settings)
    if resource.resource_type == ResourceType.BROKER:
        check_broker(agent, name)
        return describe_broker(agent.node_id, agent.settings) if name else ()
    raise InvalidRequest(f"resources of type {resource.resource_type} have no configs here")


def _config(entry: ConfigEntry, request: Any) -> Any:
    version: int = request.API_VERSION
    synonyms = entry.synonyms if request.include_synonyms else ()
    return CONFIG(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=False,
        synonyms=[CONFIG.DescribeConfigsSynonym(**each._asdict(), version=version) for each in synonyms],
        config_type=entry.type,
        documentation=entry.doc if version >= 3 and request.include_documentation else None,
        version=version,
    )
