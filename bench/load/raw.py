"""Produce requests over plain sockets: no client's cleverness between the load and the agent."""

import socket
import struct

from kafka.protocol.producer import ProduceRequest

from bench.load.process import cpu_seconds
from holdfast.records.build import Record, build_batch

CONNECTIONS = 8
IN_FLIGHT = 16
"""Requests that a connection has under way."""

_SIZE = struct.Struct(">i")


def cpu_us_per_request(port: int, pid: int, topic: str, *, requests: int, value_bytes: int) -> float:
    """Processor time that the agent spends on one produce request with one record, answer and sync included."""
    request = _request(topic, value_bytes)
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
    try:
        _run(sockets, request, requests // 20)
        before = cpu_seconds(pid)
        done = _run(sockets, request, requests)
        return (cpu_seconds(pid) - before) / done * 1e6
    finally:
        for each in sockets:
            each.close()


def _request(topic: str, value_bytes: int) -> bytes:
    data = ProduceRequest.TopicProduceData
    records = build_batch([Record(value=bytes(value_bytes), timestamp_ms=1_700_000_000_000)])
    part = data.PartitionProduceData(index=0, records=records, version=9)
    message = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[data(name=topic, partition_data=[part], version=9)],
        version=9,
    )
    message.with_header(correlation_id=1, client_id="bench")
    return bytes(message.encode(header=True, framed=True))


def _run(sockets: list[socket.socket], request: bytes, requests: int) -> int:
    """Send in turns and read all answers of a turn; the number of requests that were answered."""
    turns = max(1, requests // (len(sockets) * IN_FLIGHT))
    answer_bytes = _answer_bytes(sockets[0], request)
    burst = request * IN_FLIGHT
    for _ in range(turns):
        for each in sockets:
            each.sendall(burst)
        for each in sockets:
            _receive(each, IN_FLIGHT * answer_bytes)
    return turns * len(sockets) * IN_FLIGHT


def _answer_bytes(each: socket.socket, request: bytes) -> int:
    """Answers to the same request are of one size, and this one is checked."""
    each.sendall(request)
    head = _receive(each, _SIZE.size)
    size: int = _SIZE.unpack(head)[0]
    body = _receive(each, size)
    # Correlation id, tags, one topic with its name, one partition: index, then the error code.
    name_bytes = body[6] - 1
    code = int.from_bytes(body[12 + name_bytes : 14 + name_bytes], "big")
    assert code == 0, f"produce was refused with error {code}"
    return _SIZE.size + size


def _receive(each: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        piece = each.recv(size - len(received))
        assert piece, "the agent closed the connection"
        received += piece
    return bytes(received)
