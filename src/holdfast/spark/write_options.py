"""The options of writing with `format("holdfast")` and of the sink, read and checked before anything is written."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from holdfast.client.endpoint import Endpoint
from holdfast.errors import UsageError
from holdfast.records.batch import Codec
from holdfast.spark.endpoint_options import (
    CLIENT_OPTIONS,
    ENDPOINT_OPTIONS,
    is_client_option,
    parse_endpoint,
)

ALIASES: Final = {
    "kafka.bootstrap.servers": "bootstrap",
    "kafka.transactional.id": "transactionalId",
    "kafka.transaction.timeout.ms": "transactionTimeoutMs",
    "kafka.compression.type": "compression",
    "kafka.batch.size": "batchBytes",
}
"""What Spark's Kafka sink calls the same thing."""

KNOWN: Final = (
    *ENDPOINT_OPTIONS,
    "topic",
    "topics",
    "delivery",
    "transactionalId",
    "transactionTimeoutMs",
    "compression",
    "batchBytes",
    "writers",
)
SPARKS_OWN: Final = ("checkpointlocation", "queryname", "path")
"""Spark hands these to every sink."""

TRANSACTION_MS: Final = 300_000
BATCH_BYTES: Final = 1_000_000
"""Below the 1,048,588 bytes that a topic takes unless told otherwise."""

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


class Delivery(Enum):
    """How often a row arrives when tasks, drivers and brokers fail."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Where rows go, and how."""

    endpoint: Endpoint
    topic: str | None = None
    """Where all rows go; else the column `topic` says it."""
    topics: tuple[str, ...] = ()
    """What the column `topic` may name; empty: every topic that there is."""
    delivery: Delivery = Delivery.EXACTLY_ONCE
    transactional_id: str | None = None
    transaction_ms: int = TRANSACTION_MS
    codec: Codec = Codec.NONE
    batch_bytes: int = BATCH_BYTES
    writers: int | None = None
    """How many tasks write at the same time; no more than there are output partitions."""
    checkpoint: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The topics that are known beforehand."""
        return (self.topic,) if self.topic is not None else self.topics


def parse_write_options(options: Mapping[str, str], *, default: Delivery) -> WriteOptions:
    """Reads the options, whatever the case of their names; a UsageError names the option that is wrong."""
    given = _by_name(options)
    if "topic" in given and "topics" in given:
        raise UsageError("option topics is for rows with a column topic; option topic sends all rows to one")
    return WriteOptions(
        endpoint=parse_endpoint(given, options),
        topic=_topics(given["topic"], "topic", count_max=1)[0] if "topic" in given else None,
        topics=_topics(given["topics"], "topics") if "topics" in given else (),
        delivery=_choice(given.get("delivery", default.value), "delivery", Delivery),
        transactional_id=given.get("transactionalId") or None,
        transaction_ms=_count(given.get("transactionTimeoutMs", str(TRANSACTION_MS)), "transactionTimeoutMs"),
        codec=_codec(given.get("compression", "none")),
        batch_bytes=_count(given.get("batchBytes", str(BATCH_BYTES)), "batchBytes"),
        writers=_count(given["writers"], "writers") if "writers" in given else None,
        checkpoint=_lowered(options).get("checkpointlocation"),
    )


def options_from(words: Mapping[str, str | int], *, default: Delivery) -> WriteOptions:
    """The same from Python's keywords: `transactional_id` stands for `transactionalId`."""
    spelled = {
        re.sub(r"_(.)", lambda found: found[1].upper(), name): str(value) for name, value in words.items()
    }
    return parse_write_options(spelled, default=default)


def _lowered(options: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in options.items()}


def _by_name(options: Mapping[str, str]) -> dict[str, str]:
    spelled = {name.lower(): name for name in KNOWN} | ALIASES
    given: dict[str, str] = {}
    for written, value in options.items():
        if written.lower() in SPARKS_OWN or is_client_option(written):
            continue
        name = spelled.get(written.lower())
        if name is None:
            raise UsageError(
                f"option {written} is not known to writes of format holdfast; "
                f"known are {', '.join(KNOWN)}, the aliases {', '.join(ALIASES)}, and {CLIENT_OPTIONS}"
            )
        if given.setdefault(name, value) != value:
            raise UsageError(f"option {name} is given twice, as {given[name]!r} and as {value!r}")
    return given


def _topics(value: str, option: str, *, count_max: int | None = None) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(filter(None, (name.strip() for name in value.split(",")))))
    if not names or (count_max is not None and len(names) > count_max):
        raise UsageError(
            f"option {option}: {value!r} is not {'the name of a topic' if count_max else 'names of topics'}"
        )
    for name in names:
        if not _TOPIC.fullmatch(name):
            raise UsageError(f"option {option}: {name!r} cannot be the name of a topic")
    return names


def _choice(value: str, option: str, choices: type[Delivery]) -> Delivery:
    for choice in choices:
        if choice.value == value.strip().lower():
            return choice
    raise UsageError(f"option {option}: {value!r} is not one of {', '.join(each.value for each in choices)}")


def _codec(value: str) -> Codec:
    names = {codec.name.lower(): codec for codec in Codec}
    if value.strip().lower() not in names:
        raise UsageError(f"option compression: {value!r} is not one of {', '.join(names)}")
    return names[value.strip().lower()]


def _count(value: str, option: str) -> int:
    if not (value.strip().isascii() and value.strip().isdigit() and int(value) > 0):
        raise UsageError(f"option {option}: {value!r} is not a whole number above 0")
    return int(value)
