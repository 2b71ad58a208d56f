"""The HTTP subset: what is served, what is refused, and what a bad client cannot do."""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import pytest

from holdfast.admin import http
from holdfast.admin.http import CONNECTIONS_MAX, HEAD_BYTES_MAX, HttpService, Response

HOST = "Host: 127.0.0.1:1\r\n"
GOOD = f"GET /ok HTTP/1.1\r\n{HOST}\r\n".encode()


def serve(scenario: Callable[[int], Awaitable[None]]) -> None:
    """Run a scenario against a service with one good route and one that fails."""

    async def ok() -> Response:
        return Response(body=b"fine\n")

    async def broken() -> Response:
        raise RuntimeError("a bug")

    async def main() -> None:
        async with HttpService({"/ok": ok, "/broken": broken}, host="127.0.0.1", port=0) as service:
            await asyncio.wait_for(scenario(service.port), 30)

    asyncio.run(main())


async def exchange(port: int, request: bytes) -> bytes:
    """Send it all and read to the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await reader.read()
    finally:
        writer.close()


def test_get() -> None:
    """A page with its length, and the end of the connection."""

    async def scenario(port: int) -> None:
        head, _, body = (await exchange(port, GOOD)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"Content-Length: 5\r\n" in head
        assert b"Connection: close" in head
        assert body == b"fine\n"
        head, _, body = (await exchange(port, GOOD.replace(b"GET", b"HEAD"))).partition(b"\r\n\r\n")
        assert b"Content-Length: 5\r\n" in head
        assert body == b""

    serve(scenario)


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (f"GET /ok?x=1 HTTP/1.0\r\n{HOST}\r\n", HTTPStatus.OK),
        ("GET /ok HTTP/1.1\r\nHOST: localhost:80\r\n\r\n", HTTPStatus.OK),
        ("GET /ok HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", HTTPStatus.OK),
        (f"GET /nothing HTTP/1.1\r\n{HOST}\r\n", HTTPStatus.NOT_FOUND),
        (f"POST /ok HTTP/1.1\r\n{HOST}\r\n", HTTPStatus.METHOD_NOT_ALLOWED),
        (f"DELETE /ok HTTP/1.1\r\n{HOST}\r\n", HTTPStatus.METHOD_NOT_ALLOWED),
        ("GET /ok HTTP/1.1\r\nHost: evil.example\r\n\r\n", HTTPStatus.FORBIDDEN),
        ("GET /ok HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n", HTTPStatus.FORBIDDEN),
        ("GET /ok HTTP/1.1\r\n\r\n", HTTPStatus.FORBIDDEN),
        (f"GET /ok HTTP/2\r\n{HOST}\r\n", HTTPStatus.BAD_REQUEST),
        (f"GET /ok\r\n{HOST}\r\n", HTTPStatus.BAD_REQUEST),
        (f"GET /ok HTTP/1.1\r\n{HOST}strange\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (f"GET /{'x' * HEAD_BYTES_MAX} HTTP/1.1\r\n{HOST}\r\n", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
    ],
)
def test_status(request_text: str, status: HTTPStatus) -> None:
    """Each kind of request gets its status; a page of another site cannot read along under its own name."""

    async def scenario(port: int) -> None:
        answer = await exchange(port, request_text.encode())
        assert answer.split(b" ")[1] == str(status.value).encode()

    serve(scenario)


def test_a_bug_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    """A route that fails is a 500 without its inner life, which goes to the log; the service goes on."""

    async def scenario(port: int) -> None:
        answer = await exchange(port, GOOD.replace(b"/ok", b"/broken"))
        assert answer.split(b" ")[1] == b"500"
        assert b"a bug" not in answer
        assert (await exchange(port, GOOD)).endswith(b"fine\n")

    serve(scenario)
    assert "a bug" in caplog.text


def test_slow_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who sends half a request is cut off in time, and nobody else waits for that."""
    monkeypatch.setattr(http, "REQUEST_SECONDS_MAX", 0.2)

    async def scenario(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GOOD[:10])
        assert (await exchange(port, GOOD)).endswith(b"fine\n")
        with pytest.raises(ConnectionError):
            await read_to_reset(reader)
        writer.close()

    serve(scenario)


async def read_to_reset(reader: asyncio.StreamReader) -> None:
    if await reader.read() == b"":
        raise ConnectionResetError


def test_many_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections beyond the limit are refused at once; when room is made, there is service again."""
    monkeypatch.setattr(http, "REQUEST_SECONDS_MAX", 60.0)

    async def scenario(port: int) -> None:
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS_MAX)]
        refused, writer = await asyncio.open_connection("127.0.0.1", port)
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(read_to_reset(refused), 20)
        for _, each in idle:
            each.close()
        for reader, each in idle:
            await reader.read()
            await each.wait_closed()
        writer.close()
        assert (await exchange(port, GOOD)).endswith(b"fine\n")

    serve(scenario)


def test_end_with_clients_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving the service does not wait for a client that says nothing."""
    monkeypatch.setattr(http, "REQUEST_SECONDS_MAX", 60.0)

    async def main() -> None:
        async with HttpService({}, host="127.0.0.1", port=0) as service:
            reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        assert await reader.read() == b""
        writer.close()

    asyncio.run(asyncio.wait_for(main(), 20))
