"""The keeper that `holdfast up` runs: a process of its own, there while something is due, started again if it dies.

A process, so that neither its crash nor a JVM under pressure touches those who produce and consume. Where nothing is
due there is none, and it costs nothing.
"""

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.agent.agent import Agent
from holdfast.errors import HoldfastError
from holdfast.keeper.gateway import holder_name

logger = logging.getLogger(__name__)

STOP_SECONDS_MAX = 10.0
BACK_OFF_SECONDS_MAX = 300.0
FAILURES_MAX = 10


@asynccontextmanager
async def keeper_process(agent: Agent) -> AsyncIterator[None]:
    """Looks for work every so often, and starts a keeper for it; ends it on leaving."""
    watch = _Watch(agent)
    task = asyncio.create_task(watch.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await watch.stop()


class _Watch:
    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._process: asyncio.subprocess.Process | None = None

    async def run(self) -> None:
        interval = self._agent.settings.keeper.round_seconds
        failures = 0
        while True:
            await asyncio.sleep(max(interval, min(interval * 2**failures, BACK_OFF_SECONDS_MAX)))
            try:
                desk = self._agent.cluster.desk
                if await desk.is_anything_due():
                    published = desk.activity.published
                    code = await self._run_keeper()
                    # It leaves with 0 when there is no more to do. Another code is a failure: no hurry to see it again,
                    # unless it got somewhere before that.
                    is_well = code == 0 or desk.activity.published > published
                    failures = 0 if is_well else min(failures + 1, FAILURES_MAX)
            except HoldfastError as failure:
                logger.error("cannot look for upkeep: %s", failure)
            except Exception:
                # A bug of ours in one look, or no room for one more process, must not end all later ones.
                logger.exception("cannot look for upkeep")

    async def _run_keeper(self) -> int:
        settings = self._agent.settings
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "holdfast", "keeper", "run"),
            *("--data", str(settings.data), "--idle-seconds", str(settings.keeper.idle_seconds)),
        )
        code = await self._process.wait()
        self._agent.cluster.desk.let_go(holder_name(self._process.pid))
        if code not in (0, -signal.SIGTERM):
            logger.warning("the keeper ended with %d: it is started again while something is due", code)
        return code

    async def stop(self) -> None:
        """End the keeper: what it was doing is published by nobody, and done again some day."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS_MAX)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
