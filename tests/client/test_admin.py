"""What answers at the address of an admin service need not be one."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection
from typing import Any

import pytest

from holdfast.admin.http import HttpService, Refused, Response, json_response
from holdfast.client import admin
from holdfast.client.admin import Conversation, get_json
from holdfast.errors import AdminRefused, ConnectionFailed, UsageError


@contextmanager
def answering(body: bytes) -> Iterator[str]:
    """One answer, then it hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(1 << 16)
                head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n"
                peer.sendall(head.encode() + body)

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize("body", [b"<html>", b"", b'{"a": ', b'"\xff"', b'{"\xff": 1}', b"\x00"])
def test_what_is_no_json_is_told_as_such(body: bytes) -> None:
    with answering(body) as address, pytest.raises(ConnectionFailed, match="not Holdfast's admin service"):
        get_json(address, "/status")


def test_json_is_read() -> None:
    with answering(b'{"a": [1, null, "\xc3\xa4"]}') as address:
        assert get_json(address, "/status") == {"a": [1, None, "ä"]}


class Service:
    """A service that says which connection a document came by, in a thread of its own."""

    def __init__(self) -> None:
        self.accepted = 0
        self.address = ""
        self._is_there = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._run()))

    def __enter__(self) -> "Service":
        self._thread.start()
        self._is_there.wait()
        return self

    def __exit__(self, *exception: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()
        self._loop.close()

    async def _run(self) -> None:
        service = Counting({}, {"/act": self._act}, host="127.0.0.1", port=0)
        service.owner = self
        async with service:
            self.address = f"127.0.0.1:{service.port}"
            self._is_there.set()
            await self._over.wait()

    async def _act(self, document: dict[str, Any]) -> Response:
        if "no" in document:
            raise Refused(HTTPStatus.CONFLICT, "that cannot be")
        return json_response({"did": document})


class Counting(HttpService):
    """Counts connections for its owner."""

    owner: Service

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.owner.accepted += 1
        await super()._accept(reader, writer)


@pytest.mark.usefixtures("patient")
def test_a_conversation_goes_on_over_one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal ends the connection, not the conversation; after a pause the connection may be about to end."""
    with Service() as service, Conversation(service.address, "/act") as desk:
        for number in range(3):
            assert desk.post({"a": number}) == {"did": {"a": number}}
        assert service.accepted == 1
        with pytest.raises(AdminRefused, match="that cannot be"):
            desk.post({"no": 1})
        assert desk.post({"a": 3}) == {"did": {"a": 3}}
        assert service.accepted == 2
        monkeypatch.setattr(admin, "REUSED_SECONDS_MAX", 0.0)
        assert desk.post({"a": 4}) == {"did": {"a": 4}}
        assert service.accepted == 3


@pytest.mark.usefixtures("patient")
def test_threads_take_turns_on_no_connection() -> None:
    """Whoever renews a lease does not wait for an answer to somebody else, nor take it."""
    with Service() as service, Conversation(service.address, "/act") as desk:
        found: list[Any] = []

        def ask(name: int) -> None:
            found.extend(desk.post({"a": name, "b": number}) for number in range(50))

        threads = [threading.Thread(target=ask, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted((each["did"]["a"], each["did"]["b"]) for each in found) == [
            (name, number) for name in range(4) for number in range(50)
        ]
        assert service.accepted <= len(threads)


def test_who_is_interrupted_takes_no_answer_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM ends a keeper in whatever it waits for; it lets its stores go all the same."""
    with Service() as service, Conversation(service.address, "/act") as desk:
        desk.post({"a": 0})
        with monkeypatch.context() as patched:

            def leave(*_: object) -> None:
                raise SystemExit

            patched.setattr(HTTPConnection, "getresponse", leave)
            with pytest.raises(SystemExit):
                desk.post({"a": 1})
        assert desk.post({"a": 2}) == {"did": {"a": 2}}


def receive(peer: socket.socket) -> bytes:
    """The document of one request, which comes in pieces; nothing at the end."""
    received = bytearray()
    while not received.endswith(b"}") and (piece := peer.recv(1 << 16)):
        received += piece
    return bytes(received.partition(b"\r\n\r\n")[2])


@pytest.mark.usefixtures("patient")
def test_what_may_have_been_done_is_not_asked_twice() -> None:
    """A service that dies in the middle of a question may have done it; the next one is asked by who wants that."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        asked: list[bytes] = []

        def serve() -> None:
            for answers in (1, 0, 1):
                peer, _ = listener.accept()
                with peer:
                    for _ in range(answers):
                        asked.append(receive(peer))
                        peer.sendall(
                            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n{}"
                        )
                    asked.append(receive(peer))

        thread = threading.Thread(target=serve)
        thread.start()
        with Conversation(f"127.0.0.1:{listener.getsockname()[1]}", "/act") as desk:
            desk.post({"a": 0})
            for number in (1, 2):
                with pytest.raises(ConnectionFailed, match="is Holdfast running"):
                    desk.post({"a": number})
            desk.post({"a": 3})
        thread.join()
    assert asked == [b'{"a":0}', b'{"a":1}', b'{"a":2}', b'{"a":3}', b""]


def test_what_is_no_text_is_told_as_such() -> None:
    """A byte of an argument that is not UTF-8 comes as half of a pair; nobody is asked."""
    with pytest.raises(UsageError, match="not UTF-8"):
        admin.post_json("127.0.0.1:9", "/act", {"a": "\udcff"})


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long this machine pauses, a connection is used again."""
    monkeypatch.setattr(admin, "REUSED_SECONDS_MAX", 60.0)
