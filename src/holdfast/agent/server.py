"""Running an agent: open the data directory, listen, serve until told to stop."""

import asyncio
import gc
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext

from holdfast.agent import handlers
from holdfast.agent.agent import Agent
from holdfast.agent.connection import SCRATCH_BYTES, Connection
from holdfast.agent.data_directory import DataDirectory
from holdfast.agent.settings import Settings
from holdfast.errors import UsageError

# With the default of 5 ms the commit thread would wait that long for a busy event loop after every sync.
SWITCH_INTERVAL_S = 0.0005

assert handlers.__all__, "importing the handlers fills the registry"


Alongside = Callable[[Agent], AbstractAsyncContextManager[object]]
"""What else runs for as long as the agent serves."""


async def serve(
    settings: Settings,
    *,
    on_ready: Callable[[str, int], None],
    alongside: Alongside = lambda agent: nullcontext(),
) -> None:
    """Serve until SIGTERM or SIGINT; `on_ready` is called with the address once clients may connect."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    directory = DataDirectory(settings.data)
    try:
        agent = Agent(settings, directory)
        try:
            await _listen(agent, on_ready, alongside)
        finally:
            await agent.stop()
    finally:
        directory.close()


async def _listen(agent: Agent, on_ready: Callable[[str, int], None], alongside: Alongside) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    scratch = bytearray(SCRATCH_BYTES)
    host, port = agent.settings.host, agent.settings.port
    try:
        server = await loop.create_server(lambda: Connection(agent, scratch), host, port, backlog=1024)
    except OSError as failure:
        raise UsageError(f"cannot listen on {host}:{port}: {failure.strerror or failure}") from failure
    agent.port = server.sockets[0].getsockname()[1]
    async with alongside(agent):
        # What is there now stays: the collector need not look at it again.
        gc.freeze()
        on_ready(agent.host, agent.port)
        await stop.wait()
    # Not awaited: from Python 3.12 on that would wait for the last client to leave.
    server.close()
