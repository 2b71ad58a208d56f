"""How a pipeline is, seen from outside: by what its parts tell of themselves, and by where their groups stand."""

from dataclasses import dataclass

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition, fetch_group_offsets
from holdfast.client.offsets import EARLIEST, LATEST, Isolation, list_offsets
from holdfast.pipelines.config import Mode, Pipeline
from holdfast.pipelines.state import PartFiles, PartState

SERVICE = "service"
ADAPTER = "adapter"
FINGERPRINTS = "fingerprints"
"""A query in the service's process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """A group in its topic."""

    name: str
    topic: str
    group: str
    lag: int
    """Committed messages that it has not come past."""
    partitions: dict[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartStatus:
    """One process that the pipeline should have."""

    part: str
    is_running: bool
    state: PartState | None
    lags: tuple[GroupLag, ...]

    @property
    def phase(self) -> str:
        """In a word. One that says that it runs and does not was killed."""
        if self.state is None:
            return "running" if self.is_running else "never started"
        if not self.is_running and self.state.phase in {"starting", "running"}:
            return "killed"
        return self.state.phase


def parts_of(pipeline: Pipeline) -> tuple[str, ...]:
    """The processes that the pipeline consists of."""
    return (SERVICE, ADAPTER) if pipeline.mode is Mode.ADAPTER else (SERVICE,)


def look_at(pipeline: Pipeline, cluster: Cluster) -> list[PartStatus]:
    """All of its parts, by the cluster and by their files."""
    groups = {SERVICE: [(SERVICE, pipeline.ingest, pipeline.service_group)]}
    groups[ADAPTER] = [(each.name, each.topic, each.group) for each in pipeline.adapters]
    found = []
    for part in parts_of(pipeline):
        files = PartFiles(pipeline.checkpoint, part)
        lags = tuple(_group_lag(cluster, *each) for each in groups[part])
        found.append(PartStatus(part=part, is_running=files.is_running(), state=files.read(), lags=lags))
    return found


def find_lag(cluster: Cluster, topic: str, positions: dict[int, int]) -> dict[int, int]:
    """By partition; where there is no position, everything waits."""
    partitions = cluster.topic(topic).partitions
    ends = list_offsets(cluster, topic, dict.fromkeys(partitions, LATEST), isolation=Isolation.READ_COMMITTED)
    missing = [each for each in partitions if each not in positions]
    starts = list_offsets(cluster, topic, dict.fromkeys(missing, EARLIEST)) | positions
    return {each: max(0, ends[each] - starts[each]) for each in sorted(partitions)}


def _group_lag(cluster: Cluster, name: str, topic: str, group: str) -> GroupLag:
    committed = fetch_group_offsets(cluster, group)
    positions = {
        place.partition: offset
        for place, offset in committed.items()
        if place == TopicPartition(topic, place.partition)
    }
    partitions = find_lag(cluster, topic, positions)
    return GroupLag(name=name, topic=topic, group=group, lag=sum(partitions.values()), partitions=partitions)
