"""Connections: version negotiation and what a broken peer looks like."""

import socket
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest

from holdfast.client.connection import Connection
from holdfast.errors import ConnectionFailed, UnsupportedVersion
from tests.client.fake_broker import FakeBroker
from tests.client.peer import peer


def no_topics(_: Any) -> dict[str, Any]:
    return {"brokers": [], "topics": []}


@pytest.mark.parametrize(
    ("offered", "wanted", "chosen"),
    [((0, 12), (4, 9), 9), ((0, 5), (4, 9), 5), ((7, 12), (4, 9), 9)],
)
def test_highest_common_version(offered: tuple[int, int], wanted: tuple[int, int], chosen: int) -> None:
    """The request goes out in the highest version that the broker offers and the caller allows."""
    with (
        FakeBroker({MetadataRequest: no_topics}, offered={3: offered}) as broker,
        Connection("127.0.0.1", broker.port) as connection,
    ):
        assert connection.send(MetadataRequest(topics=[]), versions=wanted).topics == []
        assert broker.received[0].header.request_api_version == chosen


@pytest.mark.parametrize("offered", [{3: (0, 3)}, {3: (10, 12)}, {}])
def test_no_common_version(offered: dict[int, tuple[int, int]]) -> None:
    """Without a common version the error says which versions each side speaks, and is final."""
    with FakeBroker({}, offered=offered) as broker, Connection("127.0.0.1", broker.port) as connection:
        with pytest.raises(UnsupportedVersion, match="Metadata") as caught:
            connection.send(MetadataRequest(topics=[]), versions=(4, 9))
        assert not caught.value.retriable
        assert broker.received == []


def test_nobody_listens() -> None:
    """A refused connection names the address and what to check."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionFailed, match=rf"127\.0\.0\.1:{port} \(Connection refused\).*running"):
        Connection("127.0.0.1", port)


def test_unknown_host() -> None:
    """A name that does not resolve is a ConnectionFailed, not a raw socket error."""
    with pytest.raises(ConnectionFailed, match=r"no-such-host\.invalid:9092"):
        Connection("no-such-host.invalid", 9092)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "closed the connection"),
        (b"\x00\x00\x00\x20\x00", "closed the connection"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does a Kafka broker listen there"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "without TLS"),
        (b"\x00\x00\x00\x06\x00\x00\x00\x63\x00\x00", "answered request 99 instead of 1"),
        (b"\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\x7f\xff\xff\xff", "cannot be read"),
    ],
    ids=["nothing", "half a frame", "http", "tls", "wrong correlation id", "not an answer"],
)
def test_broken_peer(answer: bytes, why: str) -> None:
    """Whatever a peer sends instead of Kafka is one clear error with its address."""
    with peer(answer) as port, pytest.raises(ConnectionFailed, match=why) as caught:
        Connection("127.0.0.1", port)
    assert f"127.0.0.1:{port}" in str(caught.value)


def test_silent_peer() -> None:
    """A peer that accepts and never answers is given up after the timeout."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(ConnectionFailed, match="timed out"),
    ):
        Connection("127.0.0.1", listener.getsockname()[1], timeout=0.1)


def test_closed_after_failure() -> None:
    """After a failure the place in the stream is lost: the connection is closed and says so."""
    with (
        FakeBroker({MetadataRequest: lambda _: None}) as broker,
        Connection("127.0.0.1", broker.port) as connection,
    ):
        with pytest.raises(ConnectionFailed, match="broke off during Metadata"):
            connection.send(MetadataRequest(topics=[]), versions=(4, 9))
        assert connection.closed
        with pytest.raises(ConnectionFailed, match="is closed"):
            connection.send(MetadataRequest(topics=[]), versions=(4, 9))


def test_a_peer_that_hangs_up_while_nothing_is_asked() -> None:
    """A broker that restarts between two questions is noticed before the next one is lost on it."""
    with FakeBroker({}) as broker:
        connection = Connection("127.0.0.1", broker.port)
        assert not connection.is_over()
    assert connection.is_over()
    assert connection.closed
