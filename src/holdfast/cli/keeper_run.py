"""Runs rounds of upkeep: finds the desk to ask, chooses where rewrites run, shows how far they are."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from holdfast.agent.cluster import Cluster
from holdfast.agent.data_directory import DataDirectory
from holdfast.agent.settings import Settings
from holdfast.cli.progress import RoundProgress
from holdfast.client.admin import Conversation, find_address, post_json
from holdfast.errors import ConnectionFailed, HoldfastError, OutcomeMissing, UsageError
from holdfast.keeper import messages
from holdfast.keeper.gateway import Ask, Gateway, holder_name
from holdfast.keeper.round import Round, RoundReport
from holdfast.keeper.runner import InProcessRunner, Runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

RENEW_SECONDS = 10.0
"""Well below the time for which a lease is good."""


class KeeperRun:
    """Rounds until told to stop, or until nothing has been due for a while."""

    def __init__(
        self, settings: Settings, *, once: bool, idle_seconds: float | None, master: str | None
    ) -> None:
        self._settings = settings
        self._once = once
        self._idle_seconds = idle_seconds
        self._master = master
        self._session: SparkSession | None = None
        self._stop = threading.Event()

    def run(self) -> None:
        """Until SIGTERM or ^C, or once."""
        signal.signal(signal.SIGTERM, self._leave)
        try:
            with self._find_desk() as ask:
                self._run(Gateway(ask, holder=holder_name(os.getpid())))
        except ConnectionFailed as failure:
            logger.info("no more upkeep: %s", failure)
        finally:
            if self._stop.is_set():
                logger.info("told to end: what is not published yet is left to the next keeper")
            self._stop_session()

    def _find_desk(self) -> contextlib.AbstractContextManager[Ask]:
        """The desk of the process that serves the directory; if there is none, one of our own.

        But not for a keeper that `holdfast up` has started: if that is dead, the next one wants the directory.
        """
        data = self._settings.data
        if not data.is_dir():
            raise UsageError(f"{data} is not there: name a data directory with --data")
        address = _find_server(data)
        if address is not None:
            return _ask_server(address)
        if self._idle_seconds is not None:
            raise ConnectionFailed(f"whoever served {data} is gone")
        return _open_desk(self._settings)

    def _run(self, gateway: Gateway) -> None:
        idle_since = time.monotonic()
        while not self._stop.is_set():
            try:
                report = self._run_round(gateway)
            except OutcomeMissing as stop:
                if self._once:
                    raise
                logger.error("%s", stop)
                report = RoundReport()
            if self._once:
                return
            if report.did_anything:
                idle_since = time.monotonic()
            if report.rewrites:
                continue
            idle_seconds = time.monotonic() - idle_since
            if self._idle_seconds is not None and idle_seconds >= self._idle_seconds:
                return
            # No longer than it may be idle: a server that is gone is noticed when it is asked.
            pause_seconds = gateway.find_limits().round_seconds
            self._stop.wait(min(pause_seconds, self._idle_seconds or pause_seconds))

    def _run_round(self, gateway: Gateway) -> RoundReport:
        with RoundProgress() as progress:
            a_round = Round(
                gateway, self._choose_runner(gateway), waits=self._once, on_progress=progress.advance
            )
            with _renewed(gateway, a_round):
                return a_round.run()

    def _choose_runner(self, gateway: Gateway) -> Callable[[int], Runner]:
        limits = gateway.find_limits()

        def choose(size_bytes: int) -> Runner:
            if size_bytes < limits.spark_bytes_min:
                return InProcessRunner()
            from holdfast.spark.driving import begin
            from holdfast.spark.rewrites import SparkRunner
            from holdfast.spark.session import spark_session

            if self._session is None:
                master = self._master or limits.spark_master
                self._session = begin(lambda: spark_session("holdfast keeper", master=master))
            return SparkRunner(self._session, limits)

        return choose

    def _stop_session(self) -> None:
        if self._session is not None:
            from holdfast.spark.driving import stop_quietly

            stop_quietly(self._session)
            self._session = None

    def _leave(self, number: int, frame: FrameType | None) -> None:
        self._stop.set()
        sys.exit(0)


@contextlib.contextmanager
def _renewed(gateway: Gateway, a_round: Round) -> Iterator[None]:
    """A rewrite may take longer than a lease is good for: go on holding it."""
    over = threading.Event()

    def renew() -> None:
        while not over.wait(RENEW_SECONDS):
            if leased := list(a_round.leased):
                with contextlib.suppress(HoldfastError):
                    gateway.lease_all(leased)

    thread = threading.Thread(target=renew, name="renew", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _find_server(data: Path) -> str | None:
    """The address of the process that serves the directory; its file alone says nothing, a kill leaves it behind."""
    try:
        address = find_address(data)
        post_json(address, "/keeper", {"question": "stores"})
    except ConnectionFailed:
        return None
    return address


@contextlib.contextmanager
def _ask_server(address: str) -> Iterator[Ask]:
    with Conversation(address, "/keeper") as desk:
        yield lambda question, about: desk.post({"question": question, **about})


@contextlib.contextmanager
def _open_desk(settings: Settings) -> Iterator[Ask]:
    directory = DataDirectory(settings.data)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="desk", daemon=True)
    thread.start()

    async def open_cluster() -> Cluster:
        # Nobody but this keeper reads here, so nobody has to be given time.
        limits = replace(settings.keeper, collect_seconds=0.0)
        return Cluster(replace(settings, keeper=limits), directory)

    def wait_for(coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    try:
        cluster = wait_for(open_cluster())
        try:
            questions = cluster.desk.questions
            yield lambda question, about: messages.plain(wait_for(questions[question](about)))
        finally:
            wait_for(cluster.close())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        directory.close()
