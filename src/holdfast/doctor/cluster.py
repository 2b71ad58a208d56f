"""A whole cluster: which topics can diverge at all, and the examination of each of their partitions."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import Final

from holdfast.client.cluster import Cluster, Topic
from holdfast.client.groups import TopicPartition
from holdfast.client.offsets import EARLIEST, LATEST, list_offsets
from holdfast.client.topics import describe_configs
from holdfast.doctor.examine import LIMITS, Examination, Examiner, Limits, NotExamined
from holdfast.doctor.live import BrokerSource, Meter, list_coordinated
from holdfast.doctor.ranges import PrintAll
from holdfast.doctor.rights import needing
from holdfast.errors import HoldfastError, RightMissing, UsageError

_WILDCARD: Final = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The topics that are examined; those that keep every record until retention takes it cannot diverge so."""

    topics: tuple[Topic, ...]
    not_compacted: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    """Why nobody can tell of some of them whether they are compacted."""

    @property
    def places(self) -> list[TopicPartition]:
        """Their partitions, in order."""
        return [
            TopicPartition(topic.name, number) for topic in self.topics for number in sorted(topic.partitions)
        ]


def choose_topics(cluster: Cluster, patterns: Sequence[str]) -> Chosen:
    """The compacted topics, internal ones too, or those of them that match a pattern; UsageError if none exists.

    RightMissing where there is nothing to be seen: brokers say nothing of topics that one may not describe.
    """
    known = cluster.metadata().topics
    if not known and not patterns:
        raise RightMissing(
            f"no topic is to be seen at {cluster.bootstrap}: there is none, or the right Describe on topics is missing"
        )
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            _check_hidden(cluster, pattern)
            raise UsageError(f"no topic matches {pattern!r} at {cluster.bootstrap}")
    names = [
        name for name in sorted(known) if not patterns or any(fnmatchcase(name, each) for each in patterns)
    ]
    compacted: list[str] = []
    others: list[str] = []
    refused: dict[str, str] = {}
    for name in names:
        try:
            (compacted if _is_compacted(cluster, name) else others).append(name)
        except RightMissing as failure:
            compacted.append(name)
            refused[name] = str(failure)
    return Chosen(
        topics=tuple(known[name] for name in compacted), not_compacted=tuple(others), refused=refused
    )


def _check_hidden(cluster: Cluster, name: str) -> None:
    """Asked by its name, a broker says of a topic that it may not tell us of it; or of one that is not there."""
    if not _WILDCARD.search(name):
        with needing("Describe", name):
            cluster.metadata([name])


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
    cluster: Cluster,
    chosen: Chosen,
    *,
    meter: Meter,
    wait_s_max: float,
    limits: Limits = LIMITS,
    printer_of: Callable[[TopicPartition], PrintAll] | None = None,
) -> Iterator[Examination]:
    """One examination for each partition; what stands against one of them is in it.

    `printer_of` makes who takes the fingerprints of a partition elsewhere; without it, large ones alone have them.
    """
    for topic in chosen.topics:
        refused = chosen.refused.get(topic.name)
        for number, partition in sorted(topic.partitions.items()):
            place = TopicPartition(topic.name, number)
            if refused is not None:
                yield _not_examined(place, refused)
                continue
            examiner = Examiner(
                place,
                [
                    BrokerSource(name=node, cluster=cluster, place=place, meter=meter)
                    for node in sorted(partition.replicas)
                ],
                list_coordinated=partial(list_coordinated, cluster, place),
                wait_s_max=wait_s_max,
                limits=limits,
                print_all=None if printer_of is None else printer_of(place),
            )
            try:
                yield examiner.examine()
            except RightMissing as failure:
                refused = str(failure)  # the right is the topic's: the next partition is refused alike
                yield _not_examined(place, refused)
            except HoldfastError as failure:
                yield _not_examined(place, str(failure))


def _not_examined(place: TopicPartition, why: str) -> Examination:
    return Examination(place=place, not_examined=[NotExamined(place=place, replica=None, why=why)])


def _is_compacted(cluster: Cluster, topic: str) -> bool:
    with needing("DescribeConfigs", topic):
        configs = {entry.name: entry.value for entry in describe_configs(cluster, topic)}
    return "compact" in (configs.get("cleanup.policy") or "")
