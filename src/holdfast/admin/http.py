"""As much of HTTP/1.1 as an admin service needs, with a bound on everything.

GET and HEAD for pages, POST with a JSON object for what changes something. A refusal is `{"error": "why"}`. A
connection is for one request; after a POST that was carried out it stays for the next one, if the client asks for that.
"""

import asyncio
import ipaddress
import json
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from holdfast.errors import UsageError

logger = logging.getLogger(__name__)

HEAD_BYTES_MAX = 8 * 1024
BODY_BYTES_MAX = 4 * 1024 * 1024
"""A publication names every segment that it takes away or adds, at some 400 bytes each."""
REQUEST_SECONDS_MAX = 5.0
"""From the connection, or the answer before, to the last byte of the answer: a slow client is cut off."""
ACTION_SECONDS_MAX = 30.0
"""What an action may take on top: it waits for stores."""
CONNECTIONS_MAX = 32

JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What is answered."""

    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class _Head:
    """The first lines of a request for this machine; names of headers are in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]


Route = Callable[[Mapping[str, str]], Awaitable[Response]]
"""Answers a GET; it is given what stands behind the question mark, each name once."""
Action = Callable[[dict[str, Any]], Awaitable[Response]]


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.response = json_response({"error": why}, status=status)


def json_response(document: object, *, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """A document in one line."""
    return Response(status=status, content_type=JSON, body=json.dumps(document).encode() + b"\n")


class HttpService:
    """Serves a fixed table of paths; as a context manager it listens from entry to exit.

    Routes answer GET and HEAD and change nothing; actions answer POST.
    """

    def __init__(
        self,
        routes: Mapping[str, Route],
        actions: Mapping[str, Action] | None = None,
        *,
        host: str,
        port: int,
    ) -> None:
        self._routes = routes
        self._actions = actions or {}
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def __aenter__(self) -> "HttpService":
        host, port = self._host, self._port
        try:
            self._server = await asyncio.start_server(
                self._accept, host, port, limit=HEAD_BYTES_MAX, backlog=CONNECTIONS_MAX
            )
        except OSError as failure:
            # The error's own text repeats the address.
            why = os.strerror(failure.errno) if failure.errno else failure
            raise UsageError(f"the admin service cannot listen on {host}:{port}: {why}") from failure
        return self

    async def __aexit__(self, *exception: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= CONNECTIONS_MAX:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            async with asyncio.timeout(REQUEST_SECONDS_MAX) as limit:
                while await self._serve(reader, writer, limit):
                    limit.reschedule(asyncio.get_running_loop().time() + REQUEST_SECONDS_MAX)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            # Cancelled only by our own end: nothing above this waits for the news.
            writer.transport.abort()
        finally:
            self._open.discard(task)
            writer.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: asyncio.Timeout
    ) -> bool:
        """Answer one request; whether the connection stays."""
        method, stays = "GET", False
        try:
            head = _parse(await _read_head(reader))
            method = head.method
            response = await self._answer(head, reader, limit)
            # Of what was refused, or is no POST, there may be a body that nobody has read.
            stays = method == "POST" and head.headers.get("connection", "").lower() == "keep-alive"
        except Refused as refused:
            response = refused.response
        writer.write(_encode(response, with_body=method != "HEAD", stays=stays))
        await writer.drain()
        if stays:
            return True
        writer.write_eof()
        # Closing with unread bytes would reset the connection, and the client might not see the answer.
        while await reader.read(HEAD_BYTES_MAX):
            pass
        return False

    async def _answer(self, head: _Head, reader: asyncio.StreamReader, limit: asyncio.Timeout) -> Response:
        path = head.path
        if path not in self._routes and path not in self._actions:
            raise Refused(HTTPStatus.NOT_FOUND, f"there is: {' '.join([*self._routes, *self._actions])}")
        is_action = head.method == "POST"
        if path not in (self._actions if is_action else self._routes):
            served = "GET and HEAD" if is_action else "POST"
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} takes {served}")
        try:
            if not is_action:
                return await self._routes[path](head.query)
            document = await _read_document(reader, head.headers)
            limit.reschedule(asyncio.get_running_loop().time() + ACTION_SECONDS_MAX)
            return await self._actions[path](document)
        except (Refused, asyncio.IncompleteReadError):
            raise
        except Exception:
            logger.exception("%s %s failed", head.method, path)
            raise Refused(
                HTTPStatus.INTERNAL_SERVER_ERROR, "the log of the agent has the traceback"
            ) from None


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise Refused(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"over {HEAD_BYTES_MAX} bytes of headers"
        ) from None


async def _read_document(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> dict[str, Any]:
    """The JSON object that a POST carries."""
    if "origin" in headers or headers.get("content-type", "").partition(";")[0].strip() != JSON:
        # A browser lets any web page send a form here; it asks before JSON, and is told no.
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"only {JSON}, and not from a web page")
    length = headers.get("content-length", "")
    if "transfer-encoding" in headers:
        # Its end is elsewhere: what is left of it would be taken for the next request.
        raise Refused(HTTPStatus.NOT_IMPLEMENTED, "no Transfer-Encoding is known here")
    if not (length.isascii() and length.isdecimal()):
        raise Refused(HTTPStatus.LENGTH_REQUIRED, "a Content-Length is needed")
    if len(length) > len(str(BODY_BYTES_MAX)) or int(length) > BODY_BYTES_MAX:
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"over {BODY_BYTES_MAX} bytes")
    try:
        document = json.loads(await reader.readexactly(int(length)))
    except (ValueError, RecursionError):
        raise Refused(HTTPStatus.BAD_REQUEST, "the body is not JSON") from None
    if not isinstance(document, dict):
        raise Refused(HTTPStatus.BAD_REQUEST, "the body is not a JSON object")
    return document


def _parse(head: bytes) -> _Head:
    """The head of a request for this machine."""
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise Refused(HTTPStatus.BAD_REQUEST, "not an HTTP/1.1 request")
    method, target, _ = words
    headers = dict(_header(line) for line in lines[1:] if line)
    if not _is_loopback(headers.get("host", "")):
        # A web page could have its own name resolve to 127.0.0.1 and read along.
        raise Refused(HTTPStatus.FORBIDDEN, "only for requests to a loopback address")
    if method not in {"GET", "HEAD", "POST"}:
        raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "only GET, HEAD and POST are served")
    path, _, query = target.partition("?")
    return _Head(method, path, dict(parse_qsl(query, keep_blank_values=True)), headers)


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon:
        raise Refused(HTTPStatus.BAD_REQUEST, "a header line without a colon")
    return name.lower(), value.strip()


def _is_loopback(host: str) -> bool:
    name = host.rpartition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _encode(response: Response, *, with_body: bool, stays: bool) -> bytes:
    head = (
        f"HTTP/1.1 {response.status.value} {response.status.phrase}\r\n"
        f"Content-Type: {response.content_type}\r\n"
        f"Content-Length: {len(response.body)}\r\n"
        "Cache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        f"Connection: {'keep-alive' if stays else 'close'}\r\n\r\n"
    )
    return head.encode() + (response.body if with_body else b"")
