"""Two fake brokers, each with its own copy of one partition: what a cluster is whose replicas have diverged."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any

from kafka.protocol.admin import DescribeProducersRequest, DescribeProducersResponse, ListTransactionsRequest
from kafka.protocol.consumer import ListOffsetsResponse

from holdfast.client.groups import TopicPartition
from holdfast.records.walk import walk
from holdfast.rules.entry import Entry
from tests.client.fake_broker import OFFERED
from tests.client.fake_cluster import FakeCluster, fetched
from tests.doctor.model_source import batch_of

PLACE = TopicPartition("orders", 0)
SPOKEN = OFFERED | {DescribeProducersRequest.API_KEY: (0, 0), ListTransactionsRequest.API_KEY: (0, 1)}


def logs(seed: int, length: int, keys: int) -> tuple[list[Entry], list[Entry]]:
    """One history as two cleaners left it, each by its own clock; the second one has not heard of some deletes."""
    rng = Random(seed)
    history = [
        Entry(offset=offset, key=f"k{rng.randrange(keys)}", value=rng.choice(("v", "w", None)))
        for offset in range(length)
    ]
    newest = {entry.key: entry.offset for entry in history}
    unheard = {key for key, offset in newest.items() if history[offset].value is None and rng.random() < 0.1}

    def kept(entry: Entry, *, cleaned_to: int, is_late: bool) -> bool:
        if entry.key in unheard:
            # The value before the delete is what is left on one of them, and nothing on the other.
            return is_late and entry.offset == before[entry.key]
        return entry.offset >= cleaned_to or newest[entry.key] == entry.offset

    before = {
        entry.key: entry.offset
        for entry in history
        if entry.key in unheard and entry.value is not None and entry.offset < newest[entry.key]
    }
    before |= {key: -1 for key in unheard if key not in before}
    ours = [entry for entry in history if kept(entry, cleaned_to=length // 2, is_late=False)]
    theirs = [entry for entry in history if kept(entry, cleaned_to=length // 3, is_late=True)]
    end = Entry(offset=length, key="end", value="1")
    return [*ours, end], [*theirs, end]


class ReplicaCluster(FakeCluster):
    """Nodes 0 and 1; whoever is asked answers for itself."""

    def __init__(self, stack: ExitStack, copies: tuple[list[Entry], list[Entry]]) -> None:
        super().__init__(stack)
        self._logs = [b"".join(bytes(batch.buffer) for batch in map(batch_of, entries)) for entries in copies]
        self._end = copies[0][-1].offset + 1
        for node, broker in enumerate(self.brokers):
            broker.offered = SPOKEN
            broker.handlers[DescribeProducersRequest.API_KEY] = self._producers
            broker.handlers[ListTransactionsRequest.API_KEY] = lambda _: {"transaction_states": []}
            assert node in (0, 1)

    def fetch(self, request: Any, node: int) -> dict[str, Any] | None:
        """From the batch that holds the offset on, or from the next one: compaction left gaps."""
        wanted = request.topics[0].partitions[0]
        log = self._logs[node]
        position = next(
            (batch.position for batch in walk(log) if batch.next_offset > wanted.fetch_offset), len(log)
        )
        sent = log[position:][: max(200, min(2000, wanted.partition_max_bytes))]
        return fetched(records=sent, high_watermark=self._end)

    def list_offsets(self, request: Any, node: int) -> dict[str, Any] | None:
        """Its own."""
        topic_part = ListOffsetsResponse.ListOffsetsTopicResponse
        offset = 0 if request.topics[0].partitions[0].timestamp == -2 else self._end
        partition = topic_part.ListOffsetsPartitionResponse(
            partition_index=0, error_code=0, timestamp=-1, offset=offset
        )
        return {"topics": [topic_part(name=PLACE.topic, partitions=[partition])]}

    def _producers(self, _: Any) -> dict[str, Any]:
        topic_part = DescribeProducersResponse.TopicResponse
        partition = topic_part.PartitionResponse(partition_index=0, error_code=0, active_producers=[])
        return {"topics": [topic_part(name=PLACE.topic, partitions=[partition])]}


@contextmanager
def replica_cluster(copies: tuple[list[Entry], list[Entry]]) -> Iterator[ReplicaCluster]:
    """For as long as the block lasts."""
    with ExitStack() as stack:
        yield ReplicaCluster(stack, copies)
