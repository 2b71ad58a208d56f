"""What AlterConfigs and IncrementalAlterConfigs make of a topic's configs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Any, NamedTuple

from holdfast.agent.agent import Agent
from holdfast.agent.catalog import check_name
from holdfast.agent.topic_config import ConfigType, check_configs, find_config
from holdfast.agent.writes import ConfigureTopic
from holdfast.errors import HoldfastError, InvalidConfig, InvalidRequest

Update = Callable[[Mapping[str, str]], dict[str, str]]
"""New configs from the present ones; may refuse."""


class ResourceType(IntEnum):
    """What has configs, by its number on the wire."""

    TOPIC = 2
    BROKER = 4


class Operation(IntEnum):
    """What becomes of one config, by its number on the wire."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One operation on one config."""

    name: str
    operation: Operation
    value: str | None


def replacing(configs: Sequence[tuple[str, str | None]]) -> Update:
    """The configs given and no others."""
    _check_once(name for name, _ in configs)
    for name, value in configs:
        if value is None:
            raise InvalidRequest(f"{name} has no value")
    return lambda present: check_configs(dict(configs))


def changing(changes: Sequence[ConfigChange]) -> Update:
    """The present configs with some changed."""
    _check_once(change.name for change in changes)
    for change in changes:
        if change.value is None and change.operation is not Operation.DELETE:
            raise InvalidRequest(f"{change.name} has no value")
    return partial(_changed, changes)


async def alter_resources(
    agent: Agent, request: Any, response_class: Any, read_update: Callable[[Any], Update]
) -> Any:
    """The answer to a request of either kind: its resources are changed one after the other."""
    version: int = request.API_VERSION
    named = [(resource.resource_type, resource.resource_name) for resource in request.resources]
    responses = []
    for key, resource in zip(named, request.resources, strict=True):
        code, message = 0, None
        try:
            if named.count(key) > 1:
                raise InvalidRequest("the resource is named twice")
            await _alter(agent, *key, read_update(resource), validate_only=request.validate_only)
        except HoldfastError as refusal:
            code, message = refusal.kafka_code, str(refusal)
        responses.append(
            response_class.AlterConfigsResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=key[0],
                resource_name=key[1],
                version=version,
            )
        )
    return response_class(throttle_time_ms=0, responses=responses, version=version)


async def _alter(agent: Agent, resource_type: int, name: str, update: Update, *, validate_only: bool) -> None:
    if resource_type == ResourceType.BROKER:
        check_broker(agent, name)
        raise InvalidRequest("settings of a node cannot be changed while it runs")
    if resource_type != ResourceType.TOPIC:
        raise InvalidRequest(f"resources of type {resource_type} have no configs here")
    if not name:
        raise InvalidRequest("there are no defaults for all topics")
    check_name(name)
    topic = agent.catalog.get(name)
    if validate_only:
        update(topic.configs)
    else:
        await agent.commits.submit(ConfigureTopic(topic.topic_id, update))


def check_broker(agent: Agent, name: str) -> None:
    """InvalidRequest unless the resource is this node, or (empty) what all nodes share."""
    if name not in ("", str(agent.node_id)):
        raise InvalidRequest(f"this is node {agent.node_id}, not {name!r}")


def _changed(changes: Sequence[ConfigChange], present: Mapping[str, str]) -> dict[str, str]:
    configs: dict[str, str | None] = {**present}
    for name, operation, value in changes:
        match operation:
            case Operation.SET:
                configs[name] = value
            case Operation.DELETE:
                configs.pop(name, None)
            case _:
                configs[name] = _with_parts(present, name, operation, value or "")
    return check_configs(configs)


def _with_parts(present: Mapping[str, str], name: str, operation: Operation, value: str) -> str:
    config = find_config(name)
    if config.type is not ConfigType.LIST:
        raise InvalidConfig(f"{name} is no list: it can only be set")
    parts = _parts(present.get(name, config.default))
    given = _parts(value)
    if operation is Operation.APPEND:
        parts += [part for part in given if part not in parts]
    else:
        parts = [part for part in parts if part not in given]
    return ",".join(parts)


def _parts(value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]


def _check_once(names: Iterable[str]) -> None:
    listed = list(names)
    if len(set(listed)) != len(listed):
        raise InvalidRequest("a config is named twice")
