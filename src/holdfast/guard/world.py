"""A Kafka cluster as a guard sees and changes it: every broker is asked for its own view."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final, TypeVar
from uuid import UUID

from kafka.protocol.admin import DescribeAclsRequest

from holdfast.client.cluster import Cluster, Metadata, Topic
from holdfast.client.groups import TopicPartition
from holdfast.client.log_dirs import bytes_on
from holdfast.client.replica_log import find_ends
from holdfast.client.topics import (
    ConfigEntry,
    ConfigSource,
    alter_configs,
    describe_configs_on,
    try_configs,
)
from holdfast.doctor.rights import needing
from holdfast.errors import ConnectionFailed, HoldfastError, UnsupportedVersion, UsageError
from holdfast.guard.decide import Alter
from holdfast.guard.lever import MAX_LAG, MIN_LAG, Lags, pulled
from holdfast.guard.sight import Look, SeenPartition, SeenTopic, Verdict
from holdfast.guard.state import State

POLICY: Final = "cleanup.policy"
RETENTION: Final = "delete.retention.ms"
CONFIGS: Final = (MIN_LAG, MAX_LAG, POLICY, RETENTION)
TOPICS_PER_REQUEST: Final = 500
CONFIGS_AGAIN_S: Final = 30.0
"""Topics that nothing happens to are asked for their settings that often."""
SIZES_AGAIN_S: Final = 10.0
SILENCE_FACTOR: Final = 5
"""A broker that kept us waiting is left alone for so many times as long."""

Result = TypeVar("Result")
Configs = Mapping[str, ConfigEntry]


class KafkaWorld:
    """Implements `run.World` on a stock cluster."""

    def __init__(
        self,
        cluster: Cluster,
        patterns: Sequence[str],
        *,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._patterns = patterns
        self._clock_ms = clock_ms
        self._monotonic = monotonic
        self._not_before: dict[int, float] = {}
        self._configs: dict[str, dict[int, Configs]] = {}
        """By topic and broker, as told last."""
        self._all_configs_at = -CONFIGS_AGAIN_S
        self._sizes: dict[str, int] = {}
        self._sizes_at = -SIZES_AGAIN_S

    def look(self, state: State, verdicts: Sequence[Verdict]) -> Look:
        """Metadata of every broker; of topics that matter now also settings, log ends and sizes, from each."""
        began_ms = self._clock_ms()
        views = self._views()
        held = {hold.topic for hold in state.holds}
        found = {
            name: merged
            for name in sorted({name for view in views.values() for name in view.topics})
            if name in held or self._is_wanted(name)
            for merged in [
                _merge(name, [view.topics[name] for view in views.values() if name in view.topics])
            ]
        }
        urgent = {name for name, topic in found.items() if name in held or topic.out}
        refused = self._refresh_configs(views.keys(), found, urgent)
        whole = {name: topic for name, topic in found.items() if name in held and not topic.out}
        ends = self._find_ends(whole)
        sizes = self._find_sizes(views.keys(), {name: found[name] for name in urgent})
        topics = {}
        for name, topic in found.items():
            told = self._configs.get(name, {})
            if name in held or any(_is_compacted(configs) for configs in told.values()):
                topics[name] = replace(
                    topic,
                    lags={node: _lags(configs) for node, configs in told.items()},
                    retention_ms=min((_retention_ms(configs) for configs in told.values()), default=0),
                    ends=ends.get(name, {}),
                    size_bytes=sizes.get(name),
                )
        return Look(
            began_ms=began_ms,
            at_ms=self._clock_ms(),
            brokers=frozenset(node for view in views.values() for node in view.brokers),
            topics=topics,
            unseen=refused,
            verdicts=tuple(verdicts),
        )

    def alter(self, step: Alter) -> None:
        """In one request, so that the controller sees both settings at once."""
        alter_configs(self._cluster, step.topic, put=step.change.put, unset=step.change.unset)

    def check(self, mark: int) -> int:
        """How many topics there are to be guarded; UsageError, RightMissing or another error if they cannot be."""
        known = self._cluster.metadata().topics
        for pattern in self._patterns:
            if not any(fnmatchcase(name, pattern) for name in known):
                raise UsageError(f"no topic matches {pattern!r} at {self._cluster.bootstrap}")
        nodes = list(self._cluster.metadata([]).brokers)
        wanted = [name for name in sorted(known) if self._is_wanted(name)]
        compacted = []
        for names in _chunks(wanted):
            for name, found in describe_configs_on(self._cluster, nodes[0], names, CONFIGS).items():
                if isinstance(found, HoldfastError):
                    with needing("DescribeConfigs", name):
                        raise found
                if _is_compacted(found):
                    compacted.append(name)
        lever = Lags().changes_to(pulled(mark)).put
        for names in _chunks(compacted):
            for name, failure in try_configs(self._cluster, names, lever).items():
                if failure is not None:
                    with needing("AlterConfigs", name):
                        raise failure
        return len(compacted)

    def _is_wanted(self, name: str) -> bool:
        return not self._patterns or any(fnmatchcase(name, pattern) for pattern in self._patterns)

    def _views(self) -> dict[int, Metadata]:
        known = self._cluster.metadata([]).brokers
        views = self._ask_each(known, self._cluster.metadata_of)
        if not views:
            raise ConnectionFailed(f"no broker of {self._cluster.bootstrap} tells of its topics")
        return views

    def _refresh_configs(
        self, nodes: Iterable[int], found: Mapping[str, SeenTopic], urgent: set[str]
    ) -> frozenset[str]:
        """Ask every broker for what matters now, and one of them for the rest at times; the topics that none tells."""
        nodes = list(nodes)
        answers: dict[str, dict[int, Configs]] = {name: {} for name in urgent}
        told = self._ask_each(nodes, lambda node: self._configs_on(node, sorted(urgent))) if urgent else {}
        for node, configs in told.items():
            for name, each in configs.items():
                answers[name][node] = each
        rest = found.keys() - urgent
        due = self._monotonic() - self._all_configs_at >= CONFIGS_AGAIN_S
        asked = sorted(rest if due else rest - self._configs.keys())
        for node in nodes if asked else ():
            one = self._ask_each([node], lambda node: self._configs_on(node, asked))
            if one:
                answers |= {name: {node: each} for name, each in one[node].items()}
                self._all_configs_at = self._monotonic() if due else self._all_configs_at
                break
        self._configs |= answers
        self._configs = {name: told for name, told in self._configs.items() if name in found}
        return frozenset(name for name in found if not self._configs.get(name))

    def _configs_on(self, node: int, names: Sequence[str]) -> dict[str, Configs]:
        found: dict[str, Configs] = {}
        for some in _chunks(names):
            told = describe_configs_on(self._cluster, node, some, CONFIGS)
            found |= {name: each for name, each in told.items() if not isinstance(each, HoldfastError)}
        return found

    def _find_ends(self, topics: Mapping[str, SeenTopic]) -> dict[str, dict[tuple[int, int], int]]:
        ends: dict[str, dict[tuple[int, int], int]] = {}
        for name, topic in topics.items():
            here = {
                node: sorted(number for number, each in topic.partitions.items() if node in each.replicas)
                for node in topic.hosts
            }
            answers = self._ask_each(here, lambda node: find_ends(self._cluster, node, name, here[node]))  # noqa: B023
            ends[name] = {
                (number, node): end for node, told in answers.items() for number, end in told.items()
            }
        return ends

    def _find_sizes(self, nodes: Iterable[int], topics: Mapping[str, SeenTopic]) -> dict[str, int]:
        """One copy of each partition, the largest; from time to time, and not at all where brokers do not tell."""
        if topics.keys() <= self._sizes.keys() and self._monotonic() - self._sizes_at < SIZES_AGAIN_S:
            return self._sizes
        by_topic = {name: list(topic.partitions) for name, topic in topics.items()}
        largest: dict[TopicPartition, int] = {}
        if by_topic:
            for told in self._ask_each(nodes, lambda node: bytes_on(self._cluster, node, by_topic)).values():
                for place, size in told.items():
                    largest[place] = max(largest.get(place, 0), size)
        self._sizes = {}
        for place, size in largest.items():
            self._sizes[place.topic] = self._sizes.get(place.topic, 0) + size
        self._sizes_at = self._monotonic()
        return self._sizes

    def _ask_each(self, nodes: Iterable[int], ask: Callable[[int], Result]) -> dict[int, Result]:
        """Every broker's answer; one that fails is left out, and for a while if it kept us waiting."""
        answers = {}
        for node in sorted(nodes):
            began = self._monotonic()
            if began < self._not_before.get(node, began):
                continue
            try:
                answers[node] = ask(node)
            except HoldfastError:
                now = self._monotonic()
                self._not_before[node] = now + SILENCE_FACTOR * (now - began)
        return answers


class DryWorld(KafkaWorld):
    """The same cluster, changed in thought alone."""

    def __init__(self, cluster: Cluster, patterns: Sequence[str]) -> None:
        super().__init__(cluster, patterns)
        self._imagined: dict[str, Alter] = {}

    def look(self, state: State, verdicts: Sequence[Verdict]) -> Look:
        """As if what was asked for had been done."""
        look = super().look(state, verdicts)
        topics = {
            name: replace(topic, lags={node: self._imagine(name, lags) for node, lags in topic.lags.items()})
            for name, topic in look.topics.items()
        }
        return replace(look, topics=topics)

    def alter(self, step: Alter) -> None:
        """Nothing is sent."""
        self._imagined[step.topic] = step

    def _imagine(self, name: str, lags: Lags) -> Lags:
        step = self._imagined.get(name)
        if step is None:
            return lags
        put, unset = step.change.put, step.change.unset
        return Lags(
            put.get(MIN_LAG, None if MIN_LAG in unset else lags.min_ms),
            put.get(MAX_LAG, None if MAX_LAG in unset else lags.max_ms),
        )


def is_holdfast(cluster: Cluster) -> bool:
    """Whether a Holdfast answers: its id is a UUID in words, and it does not know the ACLs that every Kafka has."""
    try:
        UUID(cluster.metadata([]).cluster_id or "")
    except ValueError:
        return False
    try:
        cluster.any_broker().check_offers(DescribeAclsRequest, versions=(0, 3))
    except UnsupportedVersion:
        return True
    return False


def _merge(name: str, views: Sequence[Topic]) -> SeenTopic:
    """What brokers know of a topic, taken together: in sync is who is so for all of them."""
    (topic_id, _), *_ = Counter(view.topic_id for view in views).most_common(1)
    alike = [view for view in views if view.topic_id == topic_id]
    partitions = {}
    for number in sorted({number for view in alike for number in view.partitions}):
        told = [view.partitions[number] for view in alike if number in view.partitions]
        newest = max(told, key=lambda each: each.leader_epoch)
        partitions[number] = SeenPartition(
            replicas=frozenset(node for each in told for node in each.replicas),
            in_sync=frozenset.intersection(*(frozenset(each.in_sync) for each in told)),
            leader=newest.leader,
            leader_epoch=newest.leader_epoch,
        )
    return SeenTopic(
        name=name, topic_id=str(topic_id) if topic_id else name, retention_ms=0, partitions=partitions
    )


def _is_compacted(configs: Configs) -> bool:
    return POLICY in configs and "compact" in (configs[POLICY].value or "")


def _lags(configs: Configs) -> Lags:
    return Lags(_own(configs.get(MIN_LAG)), _own(configs.get(MAX_LAG)))


def _own(entry: ConfigEntry | None) -> str | None:
    return entry.value if entry is not None and entry.source is ConfigSource.TOPIC else None


def _retention_ms(configs: Configs) -> int:
    return int(configs[RETENTION].value or 0) if RETENTION in configs else 0


def _chunks(names: Sequence[str]) -> Iterable[Sequence[str]]:
    return (names[start : start + TOPICS_PER_REQUEST] for start in range(0, len(names), TOPICS_PER_REQUEST))
