"""An agent inside the test's own event loop, behind a real socket."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from holdfast.agent import handlers
from holdfast.agent.agent import Agent, stop
from holdfast.agent.cluster import Cluster
from holdfast.agent.connection import SCRATCH_BYTES, Connection
from holdfast.agent.data_directory import DataDirectory
from holdfast.agent.settings import Settings
from tests.agent import raw

SECONDS_MAX = 20.0

assert handlers.__all__


@asynccontextmanager
async def serving(
    data: Path, *, scratch_bytes: int = SCRATCH_BYTES, **settings: Any
) -> AsyncIterator[tuple[Agent, int]]:
    """The agent and its port; everything is stopped at the end."""
    directory = DataDirectory(data)
    cluster = Cluster(Settings(data=data, port=0, **settings), directory)
    agents: list[Agent] = []
    agent = Agent(cluster, 1, agents)
    agents.append(agent)
    scratch = bytearray(scratch_bytes)
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(agent, scratch), "127.0.0.1", 0
    )
    agent.port = server.sockets[0].getsockname()[1]
    try:
        yield agent, agent.port
    finally:
        server.close()
        await stop(agents)
        await cluster.close()
        directory.close()


class AsyncRawClient:
    """What `raw.RawClient` is, for a test that shares the agent's event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int) -> "AsyncRawClient":
        """A connection to the agent."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def receive(self, message: Any) -> Any:
        """The next answer, which must be the one to `message`."""
        async with asyncio.timeout(SECONDS_MAX):
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            return raw.decode(message, await self._reader.readexactly(size))

    async def call(self, message: Any) -> Any:
        """Send and receive."""
        self.writer.write(raw.encode(message))
        return await self.receive(message)

    async def is_closed(self) -> bool:
        """Whether the agent ends the connection, within the time limit."""
        async with asyncio.timeout(SECONDS_MAX):
            try:
                while await self._reader.read(65536):
                    pass
            except ConnectionError:
                return True
            return True

    async def close(self) -> None:
        """Leave."""
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()
