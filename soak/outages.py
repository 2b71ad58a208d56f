"""What befalls stores and keepers in a round with upkeep: stores that are away for a while, keepers that are killed."""

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

from holdfast.client.admin import find_address, post_json
from holdfast.errors import HoldfastError
from soak.processes import find_busy_jvm, find_jvm, find_keeper, find_worker, kill
from soak.server import BUSY_KEEPER, ON_SPARK, Server

KEEPER_KILLS_MAX = 6
SPARK_KILLS_MAX = 3
"""Fewer: the next victim is there only when another session has started."""
SHARE_ON_SPARK = 0.1
VICTIMS = {"keeper": find_keeper, "jvm": find_jvm, "busy jvm": find_busy_jvm, "worker": find_worker}
POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A store is away from one kill to another, or to the end; perhaps it is fenced meanwhile, and rebuilt."""

    store: int
    from_kill: int
    to_kill: int
    """As many as there are kills: the end."""
    is_fenced: bool


@dataclass(frozen=True, slots=True)
class KeeperKill:
    """Somebody of the keeper's is killed, so long after they were first seen."""

    victim: str
    after_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Troubles:
    """Drawn for one round."""

    outage: Outage | None
    kills: tuple["KeeperKill", ...]
    is_on_spark: bool
    """Whether every round of the keeper runs on Spark, however small."""

    @property
    def settings(self) -> str:
        """For the agent."""
        return ON_SPARK if self.is_on_spark else BUSY_KEEPER


def draw_troubles(chance: Random, *, nodes: int, kills: int) -> Troubles:
    """For a round with so many kills of the agent."""
    from_kill = chance.randrange(kills)
    is_on_spark = chance.random() < SHARE_ON_SPARK
    victims = sorted(VICTIMS) if is_on_spark else ["keeper"]
    return Troubles(
        is_on_spark=is_on_spark,
        outage=Outage(
            store=chance.randrange(1, nodes + 1),
            from_kill=from_kill,
            to_kill=chance.randrange(from_kill + 1, kills + 1),
            is_fenced=chance.random() < 0.4,
        )
        if chance.random() < 0.7
        else None,
        kills=tuple(
            KeeperKill(chance.choice(victims), chance.choice([chance.randrange(50), chance.randrange(1500)]))
            for _ in range(chance.randrange(KEEPER_KILLS_MAX + 1))
        )[: SPARK_KILLS_MAX if is_on_spark else None],
    )


class KeeperKiller:
    """A thread that kills one keeper after the other, or what runs below it, of whichever agent runs."""

    def __init__(self, server: Server, kills: tuple[KeeperKill, ...]) -> None:
        self._server = server
        self._kills = kills
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keeper killer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether everybody has been killed who was to be."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Let keepers live."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        for each in self._kills:
            pid = None
            while pid is None:
                if self._stop.wait(POLL_SECONDS):
                    return
                up = self._server.process.find_pid()
                pid = VICTIMS[each.victim](up) if up is not None else None
            if self._stop.wait(each.after_ms / 1000):
                return
            kill(pid)


class Absence:
    """Carries an outage out on the directory of a process that is not running, and fences and rebuilds when it is."""

    def __init__(self, outage: Outage | None, data: Path) -> None:
        self._outage = outage
        self._data = data

    def on_crash(self, number: int) -> None:
        """The agent was killed for the so many-th time."""
        if self._outage is None:
            return
        if number == self._outage.from_kill:
            self._directory.rename(self._elsewhere)
        elif number == self._outage.to_kill:
            self._bring_back()

    def on_start(self, number: int, seconds_max: float) -> None:
        """It runs again."""
        if self._outage is None or not self._outage.is_fenced:
            return
        if number == self._outage.from_kill:
            self._do("fence", seconds_max)
        elif number == self._outage.to_kill:
            self._do("rebuild", seconds_max)

    def is_over(self, kills: int) -> bool:
        """Whether the store is back after so many kills."""
        return self._outage is None or self._outage.to_kill < kills

    @property
    def _directory(self) -> Path:
        assert self._outage is not None
        return self._data / "stores" / str(self._outage.store)

    @property
    def _elsewhere(self) -> Path:
        return self._directory.parent.parent / f"{self._directory.name}.away"

    def _bring_back(self) -> None:
        # Without a control plane the store was founded and filled anew in its place: the old one is a stale copy.
        if not self._directory.exists():
            self._elsewhere.rename(self._directory)

    def _do(self, action: str, seconds_max: float) -> None:
        """Until it is taken: while the others are not in sync, the store cannot be spared."""
        assert self._outage is not None
        deadline = time.monotonic() + seconds_max
        while True:
            try:
                post_json(
                    find_address(self._data), "/stores", {"action": action, "store": self._outage.store}
                )
            except HoldfastError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_SECONDS)
            else:
                return
