"""A proxy on loopback that makes every round trip longer: loopback hides what a network costs.

In a process of its own, so that it takes no turn of the clients' interpreter. It delays requests and passes
answers on at once, and puts its own port where an answer tells the broker's, so that no client goes round it.
"""

import asyncio
import selectors
import struct
import subprocess
import sys
from collections import deque

HELD_BYTES_MAX = 4 << 20
FRAME_BYTES_MAX = 64 << 20
STOP_SECONDS_MAX = 10.0

_SIZE = struct.Struct(">i")
_HOST = b"127.0.0.1"


class DelayProxy:
    """Clients that connect to `port` wait `delay_ms` longer for each answer of the broker on `broker_port`."""

    def __init__(self, broker_port: int, delay_ms: float) -> None:
        self._command = [sys.executable, "-m", "bench.load.delay", str(broker_port), str(delay_ms)]

    def __enter__(self) -> "DelayProxy":
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.terminate()
        self._process.wait(STOP_SECONDS_MAX)
        assert self._process.stdout is not None
        self._process.stdout.close()


class _Requests(asyncio.Protocol):
    """From a client to the broker, each piece when its time has come."""

    def __init__(self, broker_port: int, delay_seconds: float) -> None:
        self._broker_port = broker_port
        self._delay_seconds = delay_seconds
        self._held: deque[tuple[float, bytes]] = deque()
        self._held_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._broker: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._client = transport
        transport.pause_reading()
        self._connecting = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        own_port = self._client.get_extra_info("sockname")[1]
        ports = (_HOST + _SIZE.pack(self._broker_port), _HOST + _SIZE.pack(own_port))
        try:
            self._broker, _ = await self._loop.create_connection(
                lambda: _Answers(self._client, ports), "127.0.0.1", self._broker_port
            )
        except OSError:
            self._client.close()
        else:
            self._client.resume_reading()

    def data_received(self, data: bytes) -> None:
        if not self._held:
            self._loop.call_later(self._delay_seconds, self._release)
        self._held.append((self._loop.time() + self._delay_seconds, data))
        self._held_bytes += len(data)
        if self._held_bytes > HELD_BYTES_MAX:
            self._client.pause_reading()

    def _release(self) -> None:
        assert self._broker is not None
        while self._held and self._held[0][0] <= self._loop.time():
            data = self._held.popleft()[1]
            self._held_bytes -= len(data)
            self._broker.write(data)
        if self._held:
            self._loop.call_at(self._held[0][0], self._release)
        if self._held_bytes <= HELD_BYTES_MAX and not self._client.is_closing():
            self._client.resume_reading()

    def connection_lost(self, failure: Exception | None) -> None:
        if self._broker is not None:
            self._broker.close()


class _Answers(asyncio.Protocol):
    """From the broker to a client, frame by frame, because an address must not be cut in two."""

    def __init__(self, client: asyncio.Transport, ports: tuple[bytes, bytes]) -> None:
        self._client = client
        self._ports = ports
        self._received = bytearray()

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = 0
        while len(self._received) >= end + _SIZE.size:
            size: int = _SIZE.unpack_from(self._received, end)[0]
            assert 0 <= size <= FRAME_BYTES_MAX, f"an answer of {size} bytes"
            if len(self._received) < end + _SIZE.size + size:
                break
            end += _SIZE.size + size
        if end:
            self._client.write(bytes(self._received[:end]).replace(*self._ports))
            del self._received[:end]

    def connection_lost(self, failure: Exception | None) -> None:
        self._client.close()


async def _serve(broker_port: int, delay_ms: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Requests(broker_port, delay_ms / 1000), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    # epoll's timeouts are whole milliseconds, those of select are not.
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
    loop.run_until_complete(_serve(int(sys.argv[1]), float(sys.argv[2])))
