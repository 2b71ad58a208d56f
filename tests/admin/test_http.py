"""The HTTP subset: what is served, what is refused, and what a bad client cannot do."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

import pytest

from holdfast.admin import http
from holdfast.admin.http import (
    BODY_BYTES_MAX,
    CONNECTIONS_MAX,
    HEAD_BYTES_MAX,
    HttpService,
    Refused,
    Response,
    json_response,
)

HOST = "Host: 127.0.0.1:1\r\n"
GOOD = f"GET /ok HTTP/1.1\r\n{HOST}\r\n".encode()


def serve(scenario: Callable[[int], Awaitable[None]]) -> None:
    """Run a scenario against a service with one good route and one that fails, and as many actions."""

    async def ok(query: Mapping[str, str]) -> Response:
        return Response(
            body=b"fine\n" + b"".join(b"%s=%s " % (*map(str.encode, each),) for each in query.items())
        )

    async def broken(query: Mapping[str, str]) -> Response:
        raise RuntimeError("a bug")

    async def act(document: dict[str, Any]) -> Response:
        if "no" in document:
            raise Refused(HTTPStatus.CONFLICT, "that cannot be")
        return json_response({"did": document})

    routes, actions = {"/ok": ok, "/broken": broken}, {"/act": act}

    async def main() -> None:
        async with HttpService(routes, actions, host="127.0.0.1", port=0) as service:
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


def test_query() -> None:
    """What stands behind the question mark is for the route, decoded; it is none of the path."""

    async def scenario(port: int) -> None:
        asked = GOOD.replace(b"/ok", b"/ok?topic=a%2Fb+c&empty=&topic=last")
        assert (await exchange(port, asked)).endswith(b"fine\ntopic=last empty= ")

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
        (f"OPTIONS /act HTTP/1.1\r\n{HOST}\r\n", HTTPStatus.METHOD_NOT_ALLOWED),
        (f"GET /act HTTP/1.1\r\n{HOST}\r\n", HTTPStatus.METHOD_NOT_ALLOWED),
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


def post(body: bytes, *headers: str, host: str = "127.0.0.1:1", length: str | None = None) -> bytes:
    lines = [f"Host: {host}", *(headers or ["Content-Type: application/json; charset=utf-8"])]
    if length != "":
        lines.append(f"Content-Length: {length or len(body)}")
    return "\r\n".join(["POST /act HTTP/1.1", *lines, "", ""]).encode() + body


JSON_TYPE = "Content-Type: application/json"


@pytest.mark.parametrize(
    ("request_bytes", "status", "answer"),
    [
        (post(b'{"a": 1}'), HTTPStatus.OK, {"did": {"a": 1}}),
        (post(b'{"a": "%s"}' % (b"x" * (BODY_BYTES_MAX - 9))), HTTPStatus.OK, None),
        (post(b'{"no": 1}'), HTTPStatus.CONFLICT, {"error": "that cannot be"}),
        (post(b"{}", host="evil.example"), HTTPStatus.FORBIDDEN, None),
        (post(b"{}", "Content-Type: text/plain"), HTTPStatus.UNSUPPORTED_MEDIA_TYPE, None),
        (post(b"{}", "X-Other: 1"), HTTPStatus.UNSUPPORTED_MEDIA_TYPE, None),
        (post(b"{}", JSON_TYPE, "Origin: http://127.0.0.1"), HTTPStatus.UNSUPPORTED_MEDIA_TYPE, None),
        (post(b"{}", JSON_TYPE, "Transfer-Encoding: chunked"), HTTPStatus.NOT_IMPLEMENTED, None),
        (post(b"{}", length=""), HTTPStatus.LENGTH_REQUIRED, None),
        (post(b"{}", length="-2"), HTTPStatus.LENGTH_REQUIRED, None),
        (post(b"", length=str(BODY_BYTES_MAX + 1)), HTTPStatus.REQUEST_ENTITY_TOO_LARGE, None),
        (post(b"", length="9" * 5000), HTTPStatus.REQUEST_ENTITY_TOO_LARGE, None),
        (post(b""), HTTPStatus.BAD_REQUEST, {"error": "the body is not JSON"}),
        (post(b"\xff{"), HTTPStatus.BAD_REQUEST, {"error": "the body is not JSON"}),
        (post(b"[" * 60_000), HTTPStatus.BAD_REQUEST, {"error": "the body is not JSON"}),
        (post(b"[1]"), HTTPStatus.BAD_REQUEST, {"error": "the body is not a JSON object"}),
    ],
)
def test_actions(request_bytes: bytes, status: HTTPStatus, answer: object) -> None:
    """What changes something takes a JSON object, and not from a web page; each refusal is JSON that says why."""

    async def scenario(port: int) -> None:
        head, _, body = (await exchange(port, request_bytes)).partition(b"\r\n\r\n")
        assert head.split(b" ")[1] == str(status.value).encode()
        assert b"Content-Type: application/json\r\n" in head
        found = json.loads(body)
        assert found == answer or answer is None
        assert ("error" in found) == (status is not HTTPStatus.OK)

    serve(scenario)


KEEP = "Connection: keep-alive"


async def answered(reader: asyncio.StreamReader) -> tuple[bytes, object]:
    """Head and document of one answer, on a connection that may stay."""
    head = await reader.readuntil(b"\r\n\r\n")
    (length,) = re.findall(rb"Content-Length: (\d+)", head)
    return head, json.loads(await reader.readexactly(int(length)))


def test_actions_over_one_connection() -> None:
    """For who asks for that: until a refusal, which may leave a body unread, or a page."""

    async def scenario(port: int) -> None:
        for last in (
            post(b'{"no": 1}', JSON_TYPE, KEEP),
            post(b"{}", "X-Other: 1", KEEP),
            GOOD.replace(b"\r\n\r\n", f"\r\n{KEEP}\r\n\r\n".encode()),
            post(b'{"a": 3}'),
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for number in range(3):
                writer.write(post(b'{"a": %d}' % number, JSON_TYPE, KEEP))
                head, document = await answered(reader)
                assert b"Connection: keep-alive\r\n" in head
                assert document == {"did": {"a": number}}
            writer.write(last)
            assert b"Connection: close\r\n" in await reader.read()
            writer.close()

    serve(scenario)


def test_actions_sent_before_the_answer() -> None:
    """What was received beyond a body is the next request, and is answered in its turn."""

    async def scenario(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"".join(post(b'{"a": %d}' % number, JSON_TYPE, KEEP) for number in range(3)))
        for number in range(3):
            _, document = await answered(reader)
            assert document == {"did": {"a": number}}
        writer.close()

    serve(scenario)


def test_a_connection_that_stays_is_not_kept_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by who says nothing more, nor by who sends half a request."""

    async def scenario(port: int) -> None:
        for more in (b"", post(b"{}", JSON_TYPE, KEEP)[:-1]):
            monkeypatch.setattr(http, "REQUEST_SECONDS_MAX", 60.0)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            monkeypatch.setattr(http, "REQUEST_SECONDS_MAX", 0.2)
            writer.write(post(b"{}", JSON_TYPE, KEEP) + more)
            await answered(reader)
            with pytest.raises(ConnectionError):
                await asyncio.wait_for(read_to_reset(reader), 20)
            writer.close()

    serve(scenario)


def test_an_action_without_its_body(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who promises more than comes is cut off in time."""
    monkeypatch.setattr(http, "REQUEST_SECONDS_MAX", 0.2)

    async def scenario(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(post(b"{}", length="5000"))
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(read_to_reset(reader), 20)
        writer.close()

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
