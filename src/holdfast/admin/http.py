"""As much of HTTP/1.1 as a status page needs: GET and HEAD, one request per connection, a bound on everything."""

import asyncio
import ipaddress
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from holdfast.errors import UsageError

logger = logging.getLogger(__name__)

HEAD_BYTES_MAX = 8 * 1024
REQUEST_SECONDS_MAX = 5.0
"""From the connection to the last byte of the answer: a slow client is cut off."""
CONNECTIONS_MAX = 32

JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What is answered."""

    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"
    body: bytes = b""


Route = Callable[[], Awaitable[Response]]


class _Refused(Exception):
    """A request that no route gets to see."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.response = Response(status=status, body=f"{why}\n".encode())


class HttpService:
    """Serves a fixed table of paths; as a context manager it listens from entry to exit."""

    def __init__(self, routes: Mapping[str, Route], *, host: str, port: int) -> None:
        self._routes = routes
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
            async with asyncio.timeout(REQUEST_SECONDS_MAX):
                await self._serve(reader, writer)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            # Cancelled only by our own end: nothing above this waits for the news.
            writer.transport.abort()
        finally:
            self._open.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method = "GET"
        try:
            method, path = _parse(await _read_head(reader))
            response = await self._answer(path)
        except _Refused as refused:
            response = refused.response
        writer.write(_encode(response, with_body=method != "HEAD"))
        await writer.drain()
        writer.write_eof()
        # Closing with unread bytes would reset the connection, and the client might not see the answer.
        while await reader.read(HEAD_BYTES_MAX):
            pass

    async def _answer(self, path: str) -> Response:
        route = self._routes.get(path)
        if route is None:
            raise _Refused(HTTPStatus.NOT_FOUND, f"there is: {' '.join(self._routes)}")
        try:
            return await route()
        except Exception:
            logger.exception("GET %s failed", path)
            raise _Refused(
                HTTPStatus.INTERNAL_SERVER_ERROR, "the log of the agent has the traceback"
            ) from None


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise _Refused(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"over {HEAD_BYTES_MAX} bytes of headers"
        ) from None


def _parse(head: bytes) -> tuple[str, str]:
    """Method and path of a request for this machine."""
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise _Refused(HTTPStatus.BAD_REQUEST, "not an HTTP/1.1 request")
    method, target, _ = words
    headers = dict(_header(line) for line in lines[1:] if line)
    if not _is_loopback(headers.get("host", "")):
        # A web page could have its own name resolve to 127.0.0.1 and read along.
        raise _Refused(HTTPStatus.FORBIDDEN, "only for requests to a loopback address")
    if method not in {"GET", "HEAD"}:
        raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are served")
    return method, target.partition("?")[0]


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon:
        raise _Refused(HTTPStatus.BAD_REQUEST, "a header line without a colon")
    return name.lower(), value.strip()


def _is_loopback(host: str) -> bool:
    name = host.rpartition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _encode(response: Response, *, with_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {response.status.value} {response.status.phrase}\r\n"
        f"Content-Type: {response.content_type}\r\n"
        f"Content-Length: {len(response.body)}\r\n"
        "Cache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (response.body if with_body else b"")
