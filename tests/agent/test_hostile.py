"""Clients that lie, stall or leave: the process stays up, stays small, and serves the others."""

import random
import resource
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.agent import requests
from tests.agent.batches import batch
from tests.agent.raw import (
    ApiVersionsRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    RawClient,
    encode,
)
from tests.process import HoldfastProcess

SEED = 7_071
SECONDS_MAX = 20.0
MB = 1024 * 1024
TOPIC = "t"
OPEN_FILES_SOFT = 1024
"""What most shells allow."""
IDLE_CONNECTIONS = 2000
IDLE_CONNECTION_BYTES_MAX = 10 * 1024


@contextmanager
def open_files(count: int) -> Iterator[None]:
    """Let this process, and those that it starts, have so many files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and count > hard:
        pytest.skip(f"{hard} open files are allowed here, {count} needed: see `ulimit -Hn`")
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HoldfastProcess]:
    with HoldfastProcess(tmp_path_factory.mktemp("hostile") / "data") as process:
        with RawClient(process.port) as client:
            client.call(requests.metadata(TOPIC))
        yield process
        assert process.stop() == 0


@pytest.fixture(autouse=True)
def still_serves(request: pytest.FixtureRequest) -> Iterator[None]:
    """After every test of the shared process: same pid, no traceback, and an honest client is served."""
    yield
    if "process" in request.fixturenames:
        process: HoldfastProcess = request.getfixturevalue("process")
        serve_one(process)
        assert "Traceback" not in process.log
        assert "never retrieved" not in process.log


def serve_one(process: HoldfastProcess) -> None:
    """An honest client writes a record and reads it back."""
    with RawClient(process.port) as client:
        offset = produce(client)
        part = client.call(requests.fetch(TOPIC, {0: offset})).responses[0].partitions[0]
        assert part.error_code == 0
        assert b"honest" in bytes(part.records)


def produce(client: RawClient, data: bytes | None = None) -> int:
    """The offset that a batch got."""
    message = requests.produce(TOPIC, {0: data or batch(b"honest")})
    part = client.call(message).responses[0].partition_responses[0]
    assert part.error_code == 0, part
    return int(part.base_offset)


def resident_bytes(process: HoldfastProcess) -> int:
    """Memory that the process holds now."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def valid_requests() -> list[bytes]:
    """One of each kind, as an honest client would send it."""
    return [
        encode(message)
        for message in (
            requests.produce(TOPIC, {0: batch(b"a", b"b", producer_id=1)}),
            requests.produce(TOPIC, {0: batch(b"a")}, version=3),
            requests.fetch(TOPIC, {0: 0}, version=12),
            requests.fetch(TOPIC, {0: 0}, version=4),
            requests.list_offsets(TOPIC, {0: -1}),
            requests.list_offsets(TOPIC, {0: 5}, version=1),
            requests.metadata(TOPIC),
            requests.metadata(TOPIC, version=1),
            requests.create_topic("c", configs={"max.message.bytes": "1"}),
            requests.create_topic("c", version=2),
            requests.commit_offset("g", TOPIC, 1, metadata="m"),
            requests.commit_offset("g", TOPIC, 1, metadata="m", version=2),
            requests.fetch_offset("g", TOPIC),
            requests.fetch_offset("g", TOPIC, version=1),
            FindCoordinatorRequest(key="g", key_type=0, version=0),
            FindCoordinatorRequest(coordinator_keys=["g"], key_type=0, version=4),
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1, version=2),
            ApiVersionsRequest(client_software_name="x", client_software_version="1", version=3),
        )
    ]


def send_and_leave(process: HoldfastProcess, data: bytes) -> None:
    """Send, tell that nothing follows, read whatever comes until the other side ends it."""
    address = ("127.0.0.1", process.port)
    with socket.create_connection(address, timeout=SECONDS_MAX) as client, suppress(ConnectionError):
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        while client.recv(65536):
            pass


def test_random_bytes(process: HoldfastProcess) -> None:
    """Noise of all lengths ends its own connection and nothing else."""
    chance = random.Random(SEED)
    for _ in range(200):
        send_and_leave(process, chance.randbytes(chance.randrange(1, 2000)))


def test_noise_in_a_valid_frame(process: HoldfastProcess) -> None:
    """A true length and a true header with noise behind it, for every API and version."""
    chance = random.Random(SEED)
    for key in (0, 1, 2, 3, 8, 9, 10, 18, 19, 22):
        for version in range(-1, 20):
            body = struct.pack(">hhih", key, version, 1, -1) + chance.randbytes(chance.randrange(100))
            send_and_leave(process, struct.pack(">i", len(body)) + body)


def test_mutated_requests(process: HoldfastProcess) -> None:
    """Valid requests with bytes changed, cut out or put in, with lengths that fit them."""
    chance = random.Random(SEED)
    valid = valid_requests()
    for _ in range(1500):
        body = bytearray(chance.choice(valid)[4:])
        for _ in range(chance.randrange(1, 4)):
            position = chance.randrange(8, len(body))
            body[position : position + chance.choice((0, 1, 1, 4))] = chance.choice(
                (b"", b"\xff\xff", b"\x7f\xff\xff\xff", b"\x80" * 5, b"\0", chance.randbytes(1))
            )
        send_and_leave(process, struct.pack(">i", len(body)) + body)


def test_every_cut_of_every_request(process: HoldfastProcess) -> None:
    """A request that ends anywhere before its end is refused, whatever field it ends in."""
    for whole in valid_requests():
        for end in range(12, len(whole) - 1, 3):
            send_and_leave(process, struct.pack(">i", end - 4) + whole[4:end])


def test_null_where_none_may_be_does_not_poison_the_log(process: HoldfastProcess) -> None:
    """A null group id once became a frame that no control plane could record, for ever."""
    with RawClient(process.port) as client:
        honest = client.encode(requests.commit_offset("group", TOPIC, 1, version=2))
        poisoned = honest[4:].replace(b"\0\x05group", b"\xff\xff")
        client.socket.sendall(struct.pack(">i", len(poisoned)) + poisoned)
        assert client.is_closed_by_peer()
    with RawClient(process.port) as client:
        answer = client.call(requests.commit_offset("group", TOPIC, 1, version=2))
        assert answer.topics[0].partitions[0].error_code == 0
    process.stop()
    process.start()


@pytest.mark.parametrize("size", [0, -1, -(2**31), 2**31 - 1, 100 * MB + 1])
def test_impossible_lengths_end_the_connection(process: HoldfastProcess, size: int) -> None:
    """Before anything is read or allocated for them."""
    with RawClient(process.port) as client:
        client.socket.sendall(struct.pack(">i", size) + b"rest")
        assert client.is_closed_by_peer()


@pytest.mark.parametrize(("key", "version"), [(99, 0), (-1, 0), (11, 10), (1, 19), (0, 2), (3, 14), (3, -1)])
def test_unknown_requests_end_the_connection(process: HoldfastProcess, key: int, version: int) -> None:
    """As on a Kafka broker; those that a client may ask for first, ApiVersions, are answered instead."""
    with RawClient(process.port) as client:
        body = struct.pack(">hhih", key, version, 1, -1) + bytes(20)
        client.socket.sendall(struct.pack(">i", len(body)) + body)
        assert client.is_closed_by_peer()


def test_declared_lengths_take_no_memory(process: HoldfastProcess) -> None:
    """A hundred clients that announce 100 MB each and send a byte cost less than one such request."""
    before = resident_bytes(process)
    with ExitStack() as stack:
        for _ in range(100):
            client = stack.enter_context(RawClient(process.port))
            client.socket.sendall(struct.pack(">i", 100 * MB) + b"\0")
        serve_one(process)
        assert resident_bytes(process) < before + 60 * MB


def test_idle_connections_cost_little(tmp_path: Path) -> None:
    """Two thousand of them, each after one request, and other clients are served as if alone.

    The process is started where no more than OPEN_FILES_SOFT files may be open: it takes what the user may have.
    """
    with ExitStack() as stack:
        with open_files(OPEN_FILES_SOFT):
            process = stack.enter_context(HoldfastProcess(tmp_path / "data"))
        with RawClient(process.port) as client:
            client.call(requests.metadata(TOPIC))
        serve_one(process)
        before = resident_bytes(process)
        stack.enter_context(open_files(IDLE_CONNECTIONS + 500))
        clients = []
        for number in range(IDLE_CONNECTIONS):
            clients.append(stack.enter_context(RawClient(process.port)))
            clients[-1].send(ApiVersionsRequest(version=0))
            if number % 500 == 0:
                serve_one(process)
        for client in clients:
            assert client.receive(ApiVersionsRequest(version=0)).error_code == 0
        for _ in range(20):
            serve_one(process)
        assert resident_bytes(process) < before + IDLE_CONNECTIONS * IDLE_CONNECTION_BYTES_MAX
        for client in clients:
            client.send(ApiVersionsRequest(version=0))
        for client in clients:
            assert client.receive(ApiVersionsRequest(version=0)).error_code == 0
        assert process.log == ""


def test_half_closed_connections_are_ended(process: HoldfastProcess) -> None:
    """A client that ends its side in the middle of a request, a length or nothing is let go."""
    for data in (b"", b"\0", encode(requests.metadata(TOPIC))[:-3]):
        with RawClient(process.port) as client:
            client.socket.sendall(data)
            client.socket.shutdown(socket.SHUT_WR)
            assert client.is_closed_by_peer()


def test_client_that_never_reads_is_held_back(process: HoldfastProcess) -> None:
    """It cannot make the process hold its answers, while others are served."""
    with RawClient(process.port) as honest:
        for _ in range(8):
            produce(honest, batch(bytes(MB - 1000)))
    before = resident_bytes(process)
    greedy = encode(requests.fetch(TOPIC, {0: 0}, bytes_max=55 * MB, partition_bytes_max=55 * MB))
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(process.port)) for _ in range(4)]
        for client in clients:
            client.socket.sendall(greedy * 200)
        for _ in range(20):
            serve_one(process)
        assert resident_bytes(process) < before + 4 * 3 * 8 * MB + 20 * MB


def test_client_that_floods_is_held_back(process: HoldfastProcess) -> None:
    """Produce requests by the hundred thousand, no answer read: memory stays within the queue's bound."""
    before = resident_bytes(process)
    flood = encode(requests.produce(TOPIC, {0: batch(b"x")})) * 1000
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(process.port)) for _ in range(4)]
        for client in clients:
            client.socket.setblocking(False)
        left = [memoryview(flood)] * len(clients)
        until = time.monotonic() + 3
        while time.monotonic() < until:
            for number, client in enumerate(clients):
                try:
                    # What does not fit goes on later: the middle of a request is no beginning of one.
                    left[number] = left[number][client.socket.send(left[number]) :] or memoryview(flood)
                except BlockingIOError:
                    time.sleep(0.001)
        assert resident_bytes(process) < before + 64 * MB
        serve_one(process)


def test_who_leaves_before_the_answers_is_no_news(process: HoldfastProcess) -> None:
    """Clients are killed every day: an operator is not told of each answer that nobody waits for."""
    for _ in range(3):
        with RawClient(process.port) as client:
            client.socket.sendall(encode(ApiVersionsRequest(version=0)) * 60)
        serve_one(process)
    assert "socket.send()" not in process.log


def test_process_needs_no_numba_arrow_or_spark(process: HoldfastProcess) -> None:
    """The agent starts fast and stays small: none of the data libraries is mapped into it."""
    maps = Path(f"/proc/{process.pid}/maps").read_text()
    for library in ("numba", "llvmlite", "pyarrow", "pandas", "numpy", "py4j", "pyspark"):
        assert f"/{library}" not in maps, library


def test_bad_request_is_named_in_the_log(process: HoldfastProcess) -> None:
    """An operator can find out who was turned away, and why."""
    with RawClient(process.port) as client:
        address: Any = client.socket.getsockname()
        client.socket.sendall(struct.pack(">i", 0))
        assert client.is_closed_by_peer()
    assert f"closing the connection from ('127.0.0.1', {address[1]}): a request of 0 bytes" in process.log
