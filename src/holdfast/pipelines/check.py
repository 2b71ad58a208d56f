"""Whether a pipeline could run, asked of the cluster: topics, retention, and whether messages say who they are."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from holdfast.client import BOOTSTRAP_DEFAULT
from holdfast.client.cluster import Cluster, Topic
from holdfast.client.consumer import Consumer
from holdfast.client.offsets import EARLIEST, LATEST, Isolation, list_offsets
from holdfast.client.topics import describe_configs, find_broker_config
from holdfast.errors import ClusterAuthorizationFailed, UnsupportedVersion
from holdfast.pipelines.config import Mode, Pipeline
from holdfast.pipelines.identity import Identified, identify
from holdfast.records.record import Record

SAMPLE_MAX: Final = 1000
"""Records looked at, the newest of all partitions alike."""
POLL_MS: Final = 200
POLLS_MAX: Final = 100
UNLIMITED: Final = -1
EXAMPLES_MAX: Final = 3
TOKENS_KEPT: Final = "offsets.retention.minutes"
MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    is_good: bool
    where: str
    """The file, and the line if there is one."""
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def check_cluster(pipeline: Pipeline, cluster: Cluster) -> Iterator[Finding]:
    """Everything that the cluster can tell; what is not there is not looked into."""
    keys = _topics(pipeline)
    found = cluster.metadata(sorted(set(keys.values()))).topics
    for key, topic in keys.items():
        if topic not in found:
            creation = _creation(pipeline, cluster.bootstrap, topic)
            yield _bad(
                pipeline, key, f"there is no topic {topic!r} at {cluster.bootstrap}: `{creation}` makes it"
            )
    there = {key: topic for key, topic in keys.items() if topic in found}
    if there == keys:
        names = ", ".join(dict.fromkeys(keys.values()))
        yield Finding(is_good=True, where=str(pipeline.path), what=f"every topic is there: {names}")
    for key, topic in there.items():
        if key == "ingest.topic" or key.startswith("end_states."):
            yield from _check_retention(pipeline, cluster, key, topic)
    if pipeline.mode is not Mode.DUAL:
        yield _check_tokens(pipeline, cluster)
    if pipeline.ingest in found:
        yield _check_identity(pipeline, cluster, found[pipeline.ingest])


def _topics(pipeline: Pipeline) -> dict[str, str]:
    """By the key of the file that names it."""
    topics = {"ingest.topic": pipeline.ingest}
    topics |= {f"end_states.{state.value}": topic for state, topic in pipeline.topics.items()}
    topics["audit.topic"] = pipeline.audit
    if pipeline.tally is not None and pipeline.mode is Mode.TRANSACTION:
        topics["tally.topic"] = pipeline.tally.topic
    return topics


def _check_retention(pipeline: Pipeline, cluster: Cluster, key: str, topic: str) -> Iterator[Finding]:
    """Whoever was away for as long as the recovery window must find everything when it is back."""
    configs = {entry.name: entry.value for entry in describe_configs(cluster, topic)}
    window_ms = pipeline.recovery_window_ms
    if "compact" in (configs.get("cleanup.policy") or ""):
        why = "compaction may take records away before they are read"
        yield _bad(pipeline, key, f"{topic!r} has cleanup.policy={configs['cleanup.policy']}: {why}")
    retention_ms = _number(configs.get("retention.ms"))
    if retention_ms is None:
        yield _bad(pipeline, key, f"the cluster does not tell retention.ms of {topic!r}")
    elif UNLIMITED < retention_ms < window_ms:
        yield _bad(
            pipeline,
            key,
            f"{topic!r} keeps records for {told(retention_ms)}, less than the recovery window of"
            f" {told(window_ms)}: raise its retention.ms, or lower recovery_window",
        )
    else:
        kept = "for ever" if retention_ms == UNLIMITED else f"for {told(retention_ms)}"
        what = f"{topic!r} keeps records {kept}; the recovery window is {told(window_ms)}"
        yield Finding(is_good=True, where=pipeline.at(key), what=what)
    retention_bytes = _number(configs.get("retention.bytes"))
    if retention_bytes is not None and retention_bytes != UNLIMITED:
        why = "a busy hour may push records out within the recovery window: unset it"
        yield _bad(pipeline, key, f"{topic!r} has retention.bytes={retention_bytes:,}: {why}")


def _check_tokens(pipeline: Pipeline, cluster: Cluster) -> Finding:
    """Which batch was committed last is a group's offset: a batch in doubt would be written again without it."""
    try:
        minutes = _number(find_broker_config(cluster, min(cluster.metadata([]).brokers), TOKENS_KEPT))
    except (ClusterAuthorizationFailed, UnsupportedVersion):
        minutes = None
    if minutes is None:
        why = f"the brokers do not tell {TOKENS_KEPT}: see that it is not less than the recovery window"
        return Finding(is_good=True, where=pipeline.at("recovery_window"), what=why)
    kept, window = told(minutes * MINUTE_MS), told(pipeline.recovery_window_ms)
    if minutes * MINUTE_MS < pipeline.recovery_window_ms:
        why = (
            f"a service that comes back after {window} may write its last batch twice: the cluster keeps"
            f" groups' offsets for {kept}; raise its {TOKENS_KEPT}, or lower recovery_window"
        )
        return _bad(pipeline, "recovery_window", why)
    what = f"which batch was committed last is kept for {kept}; the recovery window is {window}"
    return Finding(is_good=True, where=pipeline.at("recovery_window"), what=what)


def _creation(pipeline: Pipeline, bootstrap: str, topic: str) -> str:
    """The command that makes the topic; secrets that were given as options are left to whoever knows them."""
    words = ["holdfast", "topic", "create", topic]
    if bootstrap != BOOTSTRAP_DEFAULT:
        words += ["-b", bootstrap]
    if pipeline.client_config is not None:
        words += ["--client-config", str(pipeline.client_config)]
    return shlex.join(words)


def _check_identity(pipeline: Pipeline, cluster: Cluster, topic: Topic) -> Finding:
    """Looks at the newest messages: one that does not say who it is can never be accounted for."""
    missing: dict[str, list[str]] = {}
    looked_at = 0
    for partition, record in sample(cluster, topic, records_max=SAMPLE_MAX):
        looked_at += 1
        for what in _missing(pipeline, identify(record, pipeline.identity)):
            missing.setdefault(what, []).append(f"{topic.name}/{partition}@{record.offset}")
    if not looked_at:
        what = f"{topic.name!r} is empty: whether messages have ids is not known yet"
        return Finding(is_good=True, where=pipeline.at("ingest.topic"), what=what)
    if missing:
        parts = [_tell(what, places, looked_at) for what, places in missing.items()]
        return _bad(pipeline, "identity", "; ".join(parts))
    what = f"all of the newest {looked_at:,} messages of {topic.name!r} have id, tenant and time"
    return Finding(is_good=True, where=pipeline.at("ingest.topic"), what=what)


def sample(cluster: Cluster, topic: Topic, *, records_max: int) -> Iterator[tuple[int, Record]]:
    """Up to so many committed records from the ends of all partitions."""
    partitions = topic.partitions
    first = list_offsets(cluster, topic.name, dict.fromkeys(partitions, EARLIEST))
    end = list_offsets(
        cluster, topic.name, dict.fromkeys(partitions, LATEST), isolation=Isolation.READ_COMMITTED
    )
    share = max(1, records_max // len(partitions))
    starts = {each: max(first[each], end[each] - share) for each in partitions}
    consumer = Consumer(
        cluster,
        topic.name,
        {each: start for each, start in starts.items() if start < end[each]},
        isolation=Isolation.READ_COMMITTED,
    )
    yield from islice(_until(consumer, end), records_max)


def _until(consumer: Consumer, end: dict[int, int]) -> Iterator[tuple[int, Record]]:
    for _ in range(POLLS_MAX):
        if not consumer.positions:
            return
        yield from consumer.poll(POLL_MS)
        for partition in [each for each, position in consumer.positions.items() if position >= end[each]]:
            del consumer.positions[partition]


def _missing(pipeline: Pipeline, found: Identified) -> Iterator[str]:
    identity = pipeline.identity
    if found.id is None:
        yield f"id ({identity.id})"
    if found.tenant is None:
        yield f"tenant ({identity.tenant})"
    if found.time_ms is None and str(identity.time) != "timestamp":
        yield f"time ({identity.time})"


def _tell(what: str, places: list[str], looked_at: int) -> str:
    more = ", …" if len(places) > EXAMPLES_MAX else ""
    return (
        f"{len(places):,} of the newest {looked_at:,} messages have no {what}:"
        f" {', '.join(places[:EXAMPLES_MAX])}{more}"
    )


def told(duration_ms: int) -> str:
    """A duration as the file would have it: 90s, 15m, 7d."""
    for unit, unit_ms in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if duration_ms % unit_ms == 0:
            return f"{duration_ms // unit_ms}{unit}"
    return f"{duration_ms}ms"


def _number(text: str | None) -> int | None:
    return int(text) if text is not None else None


def _bad(pipeline: Pipeline, key: str, what: str) -> Finding:
    return Finding(is_good=False, where=pipeline.at(key), what=what)
