"""Topic configs: the ones that change what the log does; anything else is refused by name."""

from collections.abc import Callable

from holdfast.control.plane import Partition, Topic
from holdfast.errors import InvalidConfig

MAX_MESSAGE_BYTES = "max.message.bytes"
TIMESTAMP_TYPE = "message.timestamp.type"
COMPRESSION_TYPE = "compression.type"
CLEANUP_POLICY = "cleanup.policy"
MIN_INSYNC_REPLICAS = "min.insync.replicas"


def _one_of(*values: str) -> Callable[[str], bool]:
    return lambda value: value in values


_ACCEPTS: dict[str, tuple[Callable[[str], bool], str]] = {
    MAX_MESSAGE_BYTES: (lambda value: value.isdecimal() and int(value) < 2**31, "a number of bytes"),
    TIMESTAMP_TYPE: (_one_of("CreateTime", "LogAppendTime"), "CreateTime or LogAppendTime"),
    COMPRESSION_TYPE: (_one_of("producer"), "producer: nothing is transcoded"),
    MIN_INSYNC_REPLICAS: (lambda value: value.isdecimal() and int(value) > 0, "a number of replicas"),
    CLEANUP_POLICY: (_one_of("delete"), "delete"),
}


def check_configs(configs: dict[str, str | None]) -> dict[str, str]:
    """The configs as they are stored; InvalidConfig names the first one that does not fit."""
    checked: dict[str, str] = {}
    for name, value in configs.items():
        if name not in _ACCEPTS:
            raise InvalidConfig(f"unknown topic config name: {name}; known are {', '.join(sorted(_ACCEPTS))}")
        accepts, what = _ACCEPTS[name]
        if value is None or not accepts(value):
            raise InvalidConfig(f"{name} takes {what}, not {value!r}")
        checked[name] = value
    return checked


def min_insync_replicas(topic: Topic, partition: Partition) -> int:
    """How many replicas must have a write with acks=all: with three or more, two unless the topic says else."""
    default = 2 if len(partition.replicas) > 2 else 1
    return int(topic.configs.get(MIN_INSYNC_REPLICAS, default))
