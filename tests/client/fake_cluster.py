"""Fake brokers that together hold one partition `orders-0`, for tests of metadata, offsets and reading."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from holdfast.client.cluster import Cluster
from holdfast.records.batch import BatchView
from holdfast.records.build import build_batch
from holdfast.records.record import Record
from holdfast.records.walk import walk
from tests.client.fake_broker import FakeBroker

NOT_LEADER = 6
OFFSET_OUT_OF_RANGE = 1


class FakeCluster:
    """Two brokers, nodes 0 and 1; a test appends to `log`, moves `leader` or replaces a handler."""

    def __init__(self, stack: ExitStack) -> None:
        self.log = b""
        self.log_start = 0
        self.leader = 0
        self.aborted: list[tuple[int, int]] = []
        self.brokers = [
            stack.enter_context(
                FakeBroker(
                    {
                        MetadataRequest: self.metadata,
                        FetchRequest: partial(self.fetch, node=node),
                        ListOffsetsRequest: partial(self.list_offsets, node=node),
                    }
                )
            )
            for node in range(2)
        ]
        self.bootstrap = f"127.0.0.1:{self.brokers[0].port}"

    @property
    def log_end(self) -> int:
        """Behind the last batch."""
        return max((batch.next_offset for batch in walk(self.log)), default=0)

    def fetches(self, node: int) -> list[int]:
        """The offsets that this node was asked for."""
        received = [each for each in self.brokers[node].received if isinstance(each, FetchRequest)]
        return [each.topics[0].partitions[0].fetch_offset for each in received]

    def metadata(self, request: Any) -> dict[str, Any]:
        """Knows `orders` and nothing else."""
        broker_part, topic_part = (
            MetadataResponse.MetadataResponseBroker,
            MetadataResponse.MetadataResponseTopic,
        )
        partition = topic_part.MetadataResponsePartition(
            error_code=0, partition_index=0, leader_id=self.leader, replica_nodes=[0, 1], isr_nodes=[0, 1],
            offline_replicas=[],
        )  # fmt: skip
        names = ["orders"] if request.topics is None else [topic.name for topic in request.topics]
        return {
            "brokers": [
                broker_part(node_id=node, host="127.0.0.1", port=broker.port)
                for node, broker in enumerate(self.brokers)
            ],
            "topics": [
                topic_part(error_code=0, name=name, partitions=[partition])
                if name == "orders"
                else topic_part(error_code=3, name=name, partitions=[])
                for name in names
            ],
        }

    def fetch(self, request: Any, node: int) -> dict[str, Any] | None:
        """Bytes from the batch that holds the offset on, up to the limit, but at least that batch."""
        wanted = request.topics[0].partitions[0]
        if node != self.leader:
            return fetched(error_code=NOT_LEADER)
        if not self.log_start <= wanted.fetch_offset <= self.log_end:
            return fetched(error_code=OFFSET_OUT_OF_RANGE)
        batches = [batch for batch in walk(self.log) if batch.next_offset > wanted.fetch_offset]
        sent = self.log[batches[0].position :][: self._limit(batches[0], wanted)] if batches else b""
        return fetched(records=sent, high_watermark=self.log_end, aborted=self.aborted)

    def misdirect_once(self, topic: str, partition: int) -> None:
        """Node 0 answers its next fetch with what is sound, but another partition's."""
        other = fetched(records=build_batch([Record(value=b"somebody else's")]), high_watermark=1)
        other["responses"][0].topic = topic
        other["responses"][0].partitions[0].partition_index = partition
        answers = [other]

        def answer(request: Any) -> dict[str, Any] | None:
            return answers.pop() if answers else self.fetch(request, 0)

        self.brokers[0].handlers[FetchRequest.API_KEY] = answer

    def list_offsets(self, request: Any, node: int) -> dict[str, Any] | None:
        """Earliest and latest."""
        topic_part = ListOffsetsResponse.ListOffsetsTopicResponse
        wanted = request.topics[0].partitions[0]
        offset = self.log_start if wanted.timestamp == -2 else self.log_end
        code = 0 if node == self.leader else NOT_LEADER
        partition = topic_part.ListOffsetsPartitionResponse(
            partition_index=0, error_code=code, timestamp=-1, offset=offset
        )
        return {"topics": [topic_part(name="orders", partitions=[partition])]}

    def _limit(self, first: BatchView, wanted: Any) -> int:
        return max(first.size_bytes, int(wanted.partition_max_bytes))


def fetched(
    *,
    records: bytes = b"",
    error_code: int = 0,
    high_watermark: int = 0,
    aborted: list[tuple[int, int]] | None = None,
) -> dict[str, Any]:
    """The fields of a fetch answer for `orders-0`."""
    topic_part = FetchResponse.FetchableTopicResponse
    entry = topic_part.PartitionData.AbortedTransaction
    partition = topic_part.PartitionData(
        partition_index=0,
        error_code=error_code,
        high_watermark=high_watermark,
        last_stable_offset=high_watermark,
        aborted_transactions=[entry(producer_id=who, first_offset=at) for who, at in aborted or []],
        records=records,
    )
    return {"responses": [topic_part(topic="orders", partitions=[partition])]}


@contextmanager
def fake_cluster(*, patience_s: float = 5.0) -> Iterator[tuple[FakeCluster, Cluster]]:
    """The brokers, and a client of theirs."""
    with ExitStack() as stack:
        brokers = FakeCluster(stack)
        client = stack.enter_context(Cluster(brokers.bootstrap, timeout=5.0, patience_s=patience_s))
        yield brokers, client
