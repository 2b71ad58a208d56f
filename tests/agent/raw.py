"""A Kafka client of sockets and kafka-python's message classes: what goes over the wire is up to the test."""

import socket
import struct
from typing import Any

from kafka.protocol.admin import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

__all__ = [
    "REQUESTS",
    "RESPONSES",
    "AddOffsetsToTxnRequest",
    "AddPartitionsToTxnRequest",
    "AlterConfigsRequest",
    "AlterPartitionReassignmentsRequest",
    "ApiVersionsRequest",
    "CreatePartitionsRequest",
    "CreateTopicsRequest",
    "DeleteGroupsRequest",
    "DeleteRecordsRequest",
    "DeleteTopicsRequest",
    "DescribeClusterRequest",
    "DescribeConfigsRequest",
    "DescribeGroupsRequest",
    "DescribeLogDirsRequest",
    "DescribeProducersRequest",
    "DescribeTopicPartitionsRequest",
    "DescribeTransactionsRequest",
    "ElectLeadersRequest",
    "EndTxnRequest",
    "FetchRequest",
    "FindCoordinatorRequest",
    "HeartbeatRequest",
    "IncrementalAlterConfigsRequest",
    "InitProducerIdRequest",
    "JoinGroupRequest",
    "LeaveGroupRequest",
    "ListGroupsRequest",
    "ListOffsetsRequest",
    "ListPartitionReassignmentsRequest",
    "ListTransactionsRequest",
    "MetadataRequest",
    "OffsetCommitRequest",
    "OffsetDeleteRequest",
    "OffsetFetchRequest",
    "OffsetForLeaderEpochRequest",
    "ProduceRequest",
    "RawClient",
    "SyncGroupRequest",
    "TxnOffsetCommitRequest",
    "WriteTxnMarkersRequest",
    "decode",
    "encode",
]

RESPONSES: dict[int, Any] = {
    response.API_KEY: response
    for response in (
        ProduceResponse,
        FetchResponse,
        ListOffsetsResponse,
        MetadataResponse,
        OffsetCommitResponse,
        OffsetFetchResponse,
        FindCoordinatorResponse,
        JoinGroupResponse,
        HeartbeatResponse,
        LeaveGroupResponse,
        SyncGroupResponse,
        DescribeGroupsResponse,
        ListGroupsResponse,
        ApiVersionsResponse,
        CreateTopicsResponse,
        InitProducerIdResponse,
        DeleteGroupsResponse,
        OffsetDeleteResponse,
        OffsetForLeaderEpochResponse,
        ElectLeadersResponse,
        AlterConfigsResponse,
        AlterPartitionReassignmentsResponse,
        ListPartitionReassignmentsResponse,
        CreatePartitionsResponse,
        DeleteRecordsResponse,
        DeleteTopicsResponse,
        DescribeConfigsResponse,
        IncrementalAlterConfigsResponse,
        DescribeClusterResponse,
        DescribeLogDirsResponse,
        DescribeProducersResponse,
        DescribeTopicPartitionsResponse,
        AddOffsetsToTxnResponse,
        AddPartitionsToTxnResponse,
        EndTxnResponse,
        TxnOffsetCommitResponse,
        WriteTxnMarkersResponse,
        DescribeTransactionsResponse,
        ListTransactionsResponse,
    )
}
REQUESTS: dict[int, Any] = {
    request.API_KEY: request
    for request in (
        ProduceRequest,
        FetchRequest,
        ListOffsetsRequest,
        MetadataRequest,
        OffsetCommitRequest,
        OffsetFetchRequest,
        FindCoordinatorRequest,
        JoinGroupRequest,
        HeartbeatRequest,
        LeaveGroupRequest,
        SyncGroupRequest,
        DescribeGroupsRequest,
        ListGroupsRequest,
        ApiVersionsRequest,
        CreateTopicsRequest,
        InitProducerIdRequest,
        DeleteGroupsRequest,
        OffsetDeleteRequest,
        OffsetForLeaderEpochRequest,
        ElectLeadersRequest,
        AlterConfigsRequest,
        AlterPartitionReassignmentsRequest,
        ListPartitionReassignmentsRequest,
        CreatePartitionsRequest,
        DeleteRecordsRequest,
        DeleteTopicsRequest,
        DescribeConfigsRequest,
        IncrementalAlterConfigsRequest,
        DescribeClusterRequest,
        DescribeLogDirsRequest,
        DescribeProducersRequest,
        DescribeTopicPartitionsRequest,
        AddOffsetsToTxnRequest,
        AddPartitionsToTxnRequest,
        EndTxnRequest,
        TxnOffsetCommitRequest,
        WriteTxnMarkersRequest,
        DescribeTransactionsRequest,
        ListTransactionsRequest,
    )
}

SECONDS_MAX = 20.0


class RawClient:
    """One connection. `call` is a whole exchange; `send` and `receive` are its halves."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX)
        self._correlation_id = 0

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *exception: object) -> None:
        self.socket.close()

    def send(self, message: Any) -> None:
        """Send a request message; its answer is to be received in turn."""
        self.socket.sendall(self.encode(message))

    def encode(self, message: Any) -> bytes:
        """The request as it goes over the wire."""
        self._correlation_id += 1
        return encode(message, self._correlation_id)

    def receive(self, message: Any) -> Any:
        """The answer to `message`, decoded by kafka-python's own class."""
        return decode(message, self.receive_frame())

    def call(self, message: Any) -> Any:
        """Send and receive."""
        self.send(message)
        return self.receive(message)

    def receive_frame(self) -> bytes:
        """The bytes of the next answer without its length; ConnectionError at the end of the stream."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def is_closed_by_peer(self) -> bool:
        """Whether the other side ends the connection within the time limit; answers are skipped."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionError:
            return True
        return True

    def _exactly(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            piece = self.socket.recv(size - len(received))
            if not piece:
                raise ConnectionError(f"closed after {len(received)} of {size} bytes")
            received += piece
        return bytes(received)


def encode(message: Any, correlation_id: int = 1) -> bytes:
    """A framed request."""
    message.with_header(correlation_id=correlation_id, client_id="raw")
    return bytes(message.encode(header=True, framed=True))


def decode(message: Any, frame: bytes) -> Any:
    """The answer to `message`; every byte of the frame must belong to it."""
    response = RESPONSES[message.API_KEY].decode(frame, version=message.API_VERSION, header=True)
    response_again = RESPONSES[message.API_KEY].decode(frame, version=message.API_VERSION, header=True)
    response_again.with_header(correlation_id=response.header.correlation_id)
    assert bytes(response_again.encode(header=True)) == frame, "bytes are left over or out of place"
    return response
