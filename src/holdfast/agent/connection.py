"""One client connection: frames in, answers out, in order, with bounds on everything that waits."""

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.agent.deferred import Deferred, Outcome
from holdfast.agent.registry import APIS, Api, Payload, Request
from holdfast.agent.wire import Reader
from holdfast.errors import HoldfastError, InvalidRequest
from holdfast.store.journal import Buffer

if TYPE_CHECKING:
    from holdfast.agent.agent import Agent

logger = logging.getLogger(__name__)

REQUEST_BYTES_MAX = 100 * 1024 * 1024
REQUESTS_WAITING_MAX = 64
ANSWERS_DUE_MAX = 256
SMALL_BYTES = 4096
BYTES_WAITING_MAX = 8 * 1024 * 1024
SCRATCH_BYTES = 256 * 1024
BODY_BYTES_FIRST = 256 * 1024
BODY_GROWTH = 8

API_VERSIONS = 18

_SIZE = struct.Struct(">i")
_HEADER = struct.Struct(">hhih")
"""Key, version, correlation id, length of the client id."""


class Connection(asyncio.BufferedProtocol):
    """Reads requests straight into buffers of their own size, and answers in the order of arrival.

    Requests run one at a time, as on a Kafka broker; produce requests may overlap each other, so that a
    client's pipelined batches share a group commit. `scratch` belongs to the listener: the event loop fills
    it and calls back before it looks at another connection.
    """

    def __init__(self, agent: "Agent", scratch: bytearray) -> None:
        self._agent = agent
        self._scratch = memoryview(scratch)
        self._transport: asyncio.Transport | None = None
        self._client_host = ""
        self._session = next(agent.cluster.sessions)
        self._partial_size = b""
        self._body: bytearray | None = None
        self._body_bytes = 0
        self._body_filled = 0
        self._waiting: deque[tuple[Api, Request]] = deque()
        self._waiting_bytes = 0
        self._answers: deque[Deferred] = deque()
        self._under_way: Api | None = None
        self._tasks: set[asyncio.Future[Payload]] = set()
        self._flush_is_due = False
        self._loop = asyncio.get_running_loop()
        self._reading = True
        self._writable = True
        self._draining = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Part of the protocol of asyncio."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self._client_host = str(peer[0]) if peer else ""
        self._agent.connections.add(self)
        self._agent.counters.connections_accepted += 1

    def connection_lost(self, exc: Exception | None) -> None:
        """Part of the protocol of asyncio: nobody is left to answer."""
        self._transport = None
        self._agent.connections.discard(self)
        self._waiting.clear()
        for task in self._tasks:
            task.cancel()

    def drain(self) -> None:
        """Take no more requests: what comes is thrown away; what has arrived is still answered."""
        self._draining = True
        self._body, self._partial_size = None, b""
        self._hold_back_or_read()

    def end(self) -> None:
        """After `drain` and the last answer: end the stream, so that the client leaves by itself.

        To close outright would reset the connection while unread bytes lie here, and a reset takes back
        answers that the client has not read yet.
        """
        if self._transport is not None and self.is_idle:
            # A client that has reset the connection since the event loop last looked needs no end of the stream.
            with suppress(OSError):
                self._transport.write_eof()

    def close(self) -> None:
        """Break off: what is on its way is sent, what waits is dropped."""
        self._waiting.clear()
        if self._transport is not None:
            self._transport.close()

    @property
    def is_idle(self) -> bool:
        """Whether every request that arrived has been answered."""
        return not self._answers and not self._waiting

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go: the rest of a large request, or the shared scratch buffer."""
        if self._body is not None:
            if self._body_filled == len(self._body):
                # A declared length is a claim: memory is taken as bytes arrive, in few and large steps.
                larger = bytearray(min(self._body_filled * BODY_GROWTH, self._body_bytes))
                larger[: self._body_filled] = self._body
                self._body = larger
            return memoryview(self._body)[self._body_filled :]
        kept = len(self._partial_size)
        self._scratch[:kept] = self._partial_size
        return self._scratch[kept:]

    def buffer_updated(self, nbytes: int) -> None:
        """Part of the protocol of asyncio: bytes have arrived."""
        if self._draining:
            return
        if self._body is not None:
            self._body_filled += nbytes
            if self._body_filled == self._body_bytes:
                body, self._body = self._body, None
                self._receive(body)
        else:
            end = len(self._partial_size) + nbytes
            self._partial_size = b""
            self._split(end)
        self._pump()

    def _split(self, end: int) -> None:
        """Cut scratch[:end] into requests; the last one may still be on its way."""
        position = 0
        while self._transport is not None and end - position >= _SIZE.size:
            size: int = _SIZE.unpack_from(self._scratch, position)[0]
            if not 0 < size <= REQUEST_BYTES_MAX:
                self._refuse(f"a request of {size} bytes")
                return
            position += _SIZE.size
            here = min(size, end - position)
            arrived = self._scratch[position : position + here]
            position += here
            if here < size:
                self._body = bytearray(min(size, max(here * BODY_GROWTH, BODY_BYTES_FIRST)))
                self._body[:here] = arrived
                self._body_bytes, self._body_filled = size, here
                return
            self._receive(bytearray(arrived))
        self._partial_size = bytes(self._scratch[position:end])

    def _receive(self, body: bytearray) -> None:
        """Read the header and queue the request."""
        try:
            key, version, correlation_id, client_id_bytes = _HEADER.unpack_from(body)
            api = APIS[key]
            if key != API_VERSIONS and not api.first <= version <= api.last:
                raise InvalidRequest(f"version {version} of request {key}")
            # The client id is a plain nullable string in every header version.
            client_id, end = None, _HEADER.size
            if client_id_bytes >= 0:
                end += client_id_bytes
                if end > len(body):
                    raise InvalidRequest(f"a client id of {client_id_bytes} bytes in {len(body)}")
                client_id = body[_HEADER.size : end].decode()
            rest = memoryview(body)[end:]
            if api.flexible_since <= version <= api.last:
                rest = _after_tags(rest)
        except (struct.error, KeyError, UnicodeDecodeError, InvalidRequest) as failure:
            self._refuse(f"a request that is not served: {failure!r}")
            return
        request = Request(key, version, correlation_id, client_id, rest, self._client_host, self._session)
        self._waiting.append((api, request))
        self._waiting_bytes += len(rest)

    def _refuse(self, why: str) -> None:
        peer = self._transport.get_extra_info("peername") if self._transport is not None else None
        logger.warning("closing the connection from %s: %s", peer, why)
        self._agent.counters.connections_refused += 1
        self._waiting.clear()
        self._answers.clear()
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def _pump(self) -> None:
        """Start what may start, then read on or hold the client back."""
        while self._waiting and self._may_start(self._waiting[0][0]):
            api, request = self._waiting.popleft()
            self._waiting_bytes -= len(request.body)
            self._start(api, request)
        self._hold_back_or_read()

    def _may_start(self, api: Api) -> bool:
        if not self._writable:
            return False
        if self._answers and not (
            api is self._under_way and api.may_overlap and len(self._answers) < ANSWERS_DUE_MAX
        ):
            return False
        if api.may_overlap and not self._agent.commits.has_room:
            self._agent.commits.call_when_room(self._pump)
            return False
        return True

    def _start(self, api: Api, request: Request) -> None:
        counters = self._agent.counters
        counters.requests[request.key] += 1
        counters.request_bytes[request.key] += len(request.body)
        self._under_way = api
        try:
            result = api.serve(self._agent, request)
        except HoldfastError as failure:
            self._refuse(str(failure))
            return
        except Exception:
            logger.exception("request %d v%d failed", request.key, request.version)
            self._refuse("internal error")
            return
        if isinstance(result, Deferred):
            self._answers.append(result)
            result.listen(self._flush_later)
            return
        answer = Deferred()
        self._answers.append(answer)
        if not isinstance(result, Awaitable):
            answer.settle(result)
            self._flush()
            return
        task = asyncio.ensure_future(result)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._finish(answer, request, done))

    def _finish(self, answer: Deferred, request: Request, task: "asyncio.Future[Payload]") -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        failure = task.exception()
        if failure is None:
            answer.settle(task.result())
            self._flush()
            self._pump()
            return
        if not isinstance(failure, HoldfastError):
            logger.error("request %d v%d failed", request.key, request.version, exc_info=failure)
        self._refuse(str(failure))

    def _flush_later(self, outcome: Outcome) -> None:
        """Answers of one commit come in one burst: they are sent together, when all of them are there."""
        if isinstance(outcome, HoldfastError):
            self._refuse(str(outcome))
        elif not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self._flush_and_pump)

    def _flush_and_pump(self) -> None:
        self._flush_is_due = False
        self._flush()
        self._pump()

    def _flush(self) -> None:
        """Send the answers that are next in order."""
        ready: list[Buffer] = []
        answers = self._answers
        while answers and (payload := answers[0].outcome) is not None:
            assert not isinstance(payload, HoldfastError), "the connection was refused for it"
            answers.popleft()
            ready += payload
        if not ready:
            return
        assert self._under_way is not None
        ready_bytes = sum(map(len, ready))
        self._agent.counters.answer_bytes[self._under_way.key] += ready_bytes
        if ready_bytes < SMALL_BYTES:
            self._write(b"".join(ready))
            return
        # Joining would copy megabytes; several small sends would cost a system call each.
        small: list[Buffer] = []
        for buffer in ready:
            if len(buffer) < SMALL_BYTES:
                small.append(buffer)
                continue
            # A view: asyncio cuts off what the socket takes, and must not copy the rest for that.
            self._write(b"".join(small))
            self._write(memoryview(buffer))
            small.clear()
        self._write(b"".join(small))

    def _write(self, data: bytes | memoryview) -> None:
        # It may have broken in the middle of an answer. To write to it all the same is nothing but a warning each time.
        if self._transport is not None and data and not self._transport.is_closing():
            self._transport.write(data)

    def pause_writing(self) -> None:
        """Part of the protocol of asyncio: the client does not read its answers."""
        self._writable = False
        self._hold_back_or_read()

    def resume_writing(self) -> None:
        """Part of the protocol of asyncio: the client reads again."""
        self._writable = True
        self._pump()

    def _hold_back_or_read(self) -> None:
        if self._transport is None:
            return
        read = self._draining or (
            self._writable
            and len(self._waiting) < REQUESTS_WAITING_MAX
            and self._waiting_bytes < BYTES_WAITING_MAX
        )
        if read != self._reading:
            self._reading = read
            if read:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()


def _after_tags(header: memoryview) -> memoryview:
    """What follows the tagged fields of a request's header; there hardly ever are any."""
    if len(header) > 0 and header[0] == 0:
        return header[1:]
    reader = Reader(header, flexible=True)
    reader.tags()
    return reader.rest()
