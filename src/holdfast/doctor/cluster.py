"""A whole cluster: which topics can diverge at all, and the examination of each of their partitions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial

from holdfast.client.cluster import Cluster, Topic
from holdfast.client.groups import TopicPartition
from holdfast.client.offsets import EARLIEST, LATEST, list_offsets
from holdfast.client.topics import describe_configs
from holdfast.doctor.examine import Examination, Examiner, NotExamined
from holdfast.doctor.live import BrokerSource, Meter, list_coordinated
from holdfast.errors import HoldfastError, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The topics that are examined; those that keep every record until retention takes it cannot diverge so."""

    topics: tuple[Topic, ...]
    not_compacted: tuple[str, ...]

    @property
    def places(self) -> list[TopicPartition]:
        """Their partitions, in order."""
        return [
            TopicPartition(topic.name, number) for topic in self.topics for number in sorted(topic.partitions)
        ]


def choose_topics(cluster: Cluster, patterns: Sequence[str]) -> Chosen:
    """The compacted topics, internal ones too, or those of them that match a pattern; UsageError if none exists."""
    known = cluster.metadata().topics
    names = [
        name for name in sorted(known) if not patterns or any(fnmatchcase(name, each) for each in patterns)
    ]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise UsageError(f"no topic matches {pattern!r} at {cluster.bootstrap}")
    compacted = [name for name in names if _is_compacted(cluster, name)]
    return Chosen(
        topics=tuple(known[name] for name in compacted),
        not_compacted=tuple(name for name in names if name not in compacted),
    )


def count_offsets(cluster: Cluster, chosen: Chosen) -> int:
    """How many offsets there are to read on all replicas, as far as leaders can tell."""
    total = 0
    for topic in chosen.topics:
        try:
            starts = list_offsets(cluster, topic.name, dict.fromkeys(topic.partitions, EARLIEST))
            ends = list_offsets(cluster, topic.name, dict.fromkeys(topic.partitions, LATEST))
        except HoldfastError:
            continue  # its examination will say why
        total += sum(
            (ends[number] - starts[number]) * len(partition.replicas)
            for number, partition in topic.partitions.items()
        )
    return total


def examine_topics(
    cluster: Cluster, chosen: Chosen, *, meter: Meter, wait_s_max: float
) -> Iterator[Examination]:
    """One examination for each partition; what stands against one of them is in it."""
    for topic in chosen.topics:
        for number, partition in sorted(topic.partitions.items()):
            place = TopicPartition(topic.name, number)
            examiner = Examiner(
                place,
                [
                    BrokerSource(name=node, cluster=cluster, place=place, meter=meter)
                    for node in sorted(partition.replicas)
                ],
                list_coordinated=partial(list_coordinated, cluster, place),
                wait_s_max=wait_s_max,
            )
            try:
                yield examiner.examine()
            except HoldfastError as failure:
                whole = NotExamined(place=place, replica=None, why=str(failure))
                yield Examination(place=place, not_examined=[whole])


def _is_compacted(cluster: Cluster, topic: str) -> bool:
    configs = {entry.name: entry.value for entry in describe_configs(cluster, topic)}
    return "compact" in (configs.get("cleanup.policy") or "")
