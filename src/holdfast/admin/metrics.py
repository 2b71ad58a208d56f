"""The metrics of a running agent; `docs/metrics.md` lists them, and a test holds it to that."""

from collections.abc import Iterator
from importlib.metadata import version

from kafka.protocol.api_key import ApiKey

from holdfast.admin import compaction_metrics, process
from holdfast.admin.prometheus import Family, counter, counters, gauge, histogram
from holdfast.agent.agent import Agent
from holdfast.agent.cluster import wall_clock_ms
from holdfast.agent.replica_standing import Coordination

_NAMES = {int(key): key.name for key in ApiKey}


def families(agent: Agent, coordination: Coordination) -> Iterator[Family]:
    """Everything that is told, read at this moment."""
    yield gauge("holdfast_build_info", "The version that runs.", 1, (("version", version("holdfast")),))
    yield from _clients(agent)
    yield from _commits(agent)
    yield from _transactions(agent)
    yield gauge("holdfast_nodes", "Nodes that this process hosts.", len(agent.peers))
    in_sync = sum(peer.node_id in agent.catalog.in_sync for peer in agent.peers)
    yield gauge("holdfast_nodes_in_sync", "Nodes whose store has every acknowledged byte.", in_sync)
    topics = agent.catalog.all()
    yield gauge("holdfast_topics", "Topics.", len(topics))
    yield gauge("holdfast_partitions", "Partitions.", sum(len(topic.partitions) for topic in topics))
    yield from compaction_metrics.families(coordination)
    yield from _keepers(agent)
    yield from process.families()


def _clients(agent: Agent) -> Iterator[Family]:
    counts = agent.counters
    yield gauge(
        "holdfast_connections", "Open client connections.", sum(len(peer.connections) for peer in agent.peers)
    )
    yield counter(
        "holdfast_connections_accepted_total", "Connections that clients opened.", counts.connections_accepted
    )
    yield counter(
        "holdfast_connections_refused_total",
        "Connections closed because of what the client sent, or of a failure of ours.",
        counts.connections_refused,
    )
    yield counter("holdfast_produce_requests_total", "Produce requests.", counts.requests[ApiKey.Produce])
    yield counter(
        "holdfast_produce_bytes_total", "Bytes of produce requests.", counts.request_bytes[ApiKey.Produce]
    )
    yield counter("holdfast_fetch_requests_total", "Fetch requests.", counts.requests[ApiKey.Fetch])
    yield counter("holdfast_fetch_bytes_total", "Bytes of fetch answers.", counts.answer_bytes[ApiKey.Fetch])
    yield counters("holdfast_requests_total", "Requests by Kafka API.", "api", _by_api(counts.requests))
    yield counters(
        "holdfast_request_bytes_total",
        "Bytes of requests by Kafka API.",
        "api",
        _by_api(counts.request_bytes),
    )
    yield counters(
        "holdfast_response_bytes_total", "Bytes of answers by Kafka API.", "api", _by_api(counts.answer_bytes)
    )


def _commits(agent: Agent) -> Iterator[Family]:
    seconds = agent.counters.commit_seconds
    yield histogram(
        "holdfast_commit_seconds",
        "Duration of group commits, from taking the queue to the record in the control plane.",
        bounds=seconds.bounds,
        counts=list(seconds.counts),
        total=seconds.total,
    )
    yield counter(
        "holdfast_commit_writes_total",
        "Writes in group commits, refused ones included.",
        agent.counters.commit_writes,
    )
    yield counter(
        "holdfast_commit_failures_total",
        "Group commits of which nothing was acknowledged.",
        agent.counters.commit_failures,
    )
    yield gauge("holdfast_commit_queue_writes", "Writes that wait for a commit.", agent.commits.queued_writes)
    yield gauge("holdfast_commit_queue_bytes", "Bytes that wait for a commit.", agent.commits.queued_bytes)
    yield gauge("holdfast_last_frame", "Number of the newest frame.", agent.commits.last_frame)


def _transactions(agent: Agent) -> Iterator[Family]:
    found = agent.transactions.standings.list_open()
    age_ms = max(0, wall_clock_ms() - found[0].started_ms) if found else 0
    yield gauge("holdfast_transactions_open", "Transactions under way.", len(found))
    yield gauge(
        "holdfast_transactions_open_age_seconds",
        "Age of the oldest transaction under way; 0 if there is none.",
        age_ms / 1000,
    )
    counts = agent.counters
    yield counter(
        "holdfast_transactions_begun_total",
        "Transactions that wrote or staged something.",
        counts.transactions_begun,
    )
    yield counter(
        "holdfast_transactions_committed_total",
        "Of these, those that were committed.",
        counts.transactions_committed,
    )
    yield counter(
        "holdfast_transactions_aborted_total",
        "Of these, those that were aborted, for whatever reason.",
        counts.transactions_aborted,
    )
    yield counter(
        "holdfast_transactions_timed_out_total",
        "Transactions ended by their timeout, empty ones included.",
        agent.transactions.timeouts,
    )


def _keepers(agent: Agent) -> Iterator[Family]:
    activity = agent.cluster.desk.activity
    yield counter(
        "holdfast_keeper_rewrites_total", "Rewrites by keepers that took effect.", activity.published
    )
    yield counter(
        "holdfast_keeper_rewrites_refused_total",
        "Rewrites that came too late: something else had changed meanwhile.",
        activity.refused,
    )


def _by_api(counts: list[int]) -> Iterator[tuple[str, int]]:
    return ((_NAMES.get(key, str(key)), number) for key, number in enumerate(counts) if number)
