"""Where a stream stands: the next offset of each partition, and which topics those are. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from holdfast.client.groups import TopicPartition
from holdfast.spark.admission import Positions

TOPIC_IDS: Final = "topic ids"
"""Beside the topics in an offset of the stream: no topic can have a space in its name."""

StreamOffset = dict[str, dict[str, int | str]]
"""As JSON in checkpoints and progress reports."""

_ANEW: Final = "begin a new query, with a checkpoint of its own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a query has read or will read up to, or what there is to read."""

    positions: Positions
    ids: Mapping[str, str]
    """By topic. A topic that is deleted and created anew has another; brokers that are too old tell none (KIP-516)."""

    @property
    def topics(self) -> set[str]:
        """Those that it says something of."""
        return {place.topic for place in self.positions}


def parse_offset(offset: StreamOffset) -> Standing:
    """Reads a checkpoint's offset; those of earlier versions have no ids."""
    return Standing(
        positions={
            TopicPartition(topic, int(partition)): int(position)
            for topic, partitions in offset.items()
            if topic != TOPIC_IDS
            for partition, position in partitions.items()
        },
        ids={topic: str(each) for topic, each in offset.get(TOPIC_IDS, {}).items()},
    )


def tell_offset(positions: Mapping[TopicPartition, int], ids: Mapping[str, str]) -> StreamOffset:
    """In one order always: Spark takes what is written differently for something new."""
    found: StreamOffset = {}
    for place, position in sorted(positions.items()):
        found.setdefault(place.topic, {})[str(place.partition)] = position
    return found | ({TOPIC_IDS: dict(sorted(ids.items()))} if ids else {})


def find_lost(stood: Standing, found: Standing) -> str | None:
    """Why what is there is not what was read, with more behind it; None if it is. Topics that are gone are left out."""
    for topic in sorted(stood.topics & found.topics):
        old, new = stood.ids.get(topic), found.ids.get(topic)
        if old is not None and new is not None and old != new:
            return (
                f"topic {topic}, with id {old}, was deleted and created anew, with id {new}, since it was read up to"
                f" {tell_topic(stood.positions, topic)}: {_ANEW}"
            )
    for place, position in sorted(stood.positions.items()):
        where = f"{place.topic}-{place.partition} was read up to {position}"
        if place.topic in found.topics and found.positions.get(place, -1) < position:
            now = f"ends at {found.positions[place]}" if place in found.positions else "is not there"
            return f"{where} and now {now}: was the topic deleted and created anew? Then {_ANEW}"
    return None


def tell_topic(positions: Mapping[TopicPartition, int], topic: str) -> str:
    """The topic's partitions as `0:5013, 1:4987`."""
    return ", ".join(
        f"{place.partition}:{position}"
        for place, position in sorted(positions.items())
        if place.topic == topic
    )
