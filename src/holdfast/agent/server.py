"""Running the nodes of a process: open the data directory, listen, serve until told to stop."""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

from holdfast.agent import agent as nodes
from holdfast.agent import handlers
from holdfast.agent.agent import Agent
from holdfast.agent.cluster import Cluster
from holdfast.agent.connection import SCRATCH_BYTES, Connection
from holdfast.agent.data_directory import DataDirectory
from holdfast.agent.memory import keep_freed_memory
from holdfast.agent.open_files import raise_open_files_max
from holdfast.agent.settings import Settings
from holdfast.errors import UsageError

# With the default of 5 ms the commit thread would wait that long for a busy event loop after every sync.
SWITCH_INTERVAL_S = 0.0005

assert handlers.__all__, "importing the handlers fills the registry"


Alongside = Callable[[Sequence[Agent]], AbstractAsyncContextManager[object]]
"""What else runs for as long as the agents serve."""


async def serve(
    settings: Settings,
    *,
    on_ready: Callable[[Sequence[str]], None],
    alongside: Alongside = lambda agents: nullcontext(),
) -> None:
    """Serve until SIGTERM or SIGINT; `on_ready` is called with the addresses once clients may connect."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    keep_freed_memory()
    raise_open_files_max()
    directory = DataDirectory(settings.data, nodes=settings.nodes)
    try:
        cluster = Cluster(settings, directory)
        agents: list[Agent] = []
        try:
            agents += [Agent(cluster, node_id, agents) for node_id in directory.nodes]
            await _listen(agents, on_ready, alongside)
        finally:
            await nodes.stop(agents)
            await cluster.close()
    finally:
        directory.close()


async def _listen(
    agents: list[Agent], on_ready: Callable[[Sequence[str]], None], alongside: Alongside
) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    scratch = bytearray(SCRATCH_BYTES)
    servers = [await open_listener(agent, scratch) for agent in agents]
    async with alongside(agents):
        # What is there now stays: the collector need not look at it again.
        gc.freeze()
        on_ready([agent.address for agent in agents])
        await stop.wait()
    for server in servers:
        # Not awaited: from Python 3.12 on that would wait for the last client to leave.
        server.close()


async def open_listener(agent: Agent, scratch: bytearray) -> asyncio.Server:
    """Node n listens on the port of the settings plus n - 1, or on a free one."""
    loop = asyncio.get_running_loop()
    host, port = agent.host, agent.settings.port
    if port != 0:
        port += agent.node_id - 1
    try:
        server = await loop.create_server(lambda: Connection(agent, scratch), host, port, backlog=1024)
    except OSError as failure:
        why = os.strerror(failure.errno) if failure.errno else failure
        raise UsageError(f"cannot listen on {host}:{port}: {why}") from failure
    except OverflowError as failure:
        raise UsageError(
            f"node {agent.node_id} would listen on port {port}, and 65535 is the last"
        ) from failure
    agent.port = server.sockets[0].getsockname()[1]
    return server
