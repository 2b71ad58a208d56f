"""A log with a busy keeper and clients under way, to kill parts of it, and to hold the rest against what was told."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from holdfast.client.admin import find_address, get_json, post_json
from soak.processes import find_keeper, kill
from soak.rest import POLL_SECONDS
from soak.server import BUSY_KEEPER, Server
from soak.workloads.upkeep import Upkeep, UpkeepSpec

WAIT_SECONDS_MAX = 60.0
NODES = 3

Found = TypeVar("Found")


class Stage:
    """Three nodes and their clients."""

    def __init__(self, directory: Path, *, seed: int, settings: str = BUSY_KEEPER) -> None:
        sys.stdout.write(f"seed {seed}\n")
        self.server = Server(directory, nodes=NODES, settings=settings)
        self.data = directory / "data"
        self._seed = seed
        self._workload: Upkeep | None = None

    def start(self) -> None:
        """Begin."""
        self.server.process.start()
        self._workload = UpkeepSpec(
            nodes=NODES,
            partitions=2,
            idempotent=1,
            transactional=1,
            pause_ms_max=50,
            slow_ms=200,
            seed=self._seed,
        ).build(self.server.bootstrap)
        self._workload.start()

    def go_on(self, records: int) -> None:
        """Wait until so many more are acknowledged."""
        assert self._workload is not None
        goal = self._workload.acknowledged + records
        self.wait_for(lambda: self.workload.acknowledged >= goal, f"{records} more acknowledgements")

    @property
    def workload(self) -> Upkeep:
        """The clients."""
        assert self._workload is not None
        return self._workload

    def find_keeper(self) -> int | None:
        """Its process id, while one is there."""
        return find_keeper(self.server.process.pid)

    def wait_for(
        self, find: Callable[[], Found | None], what: str, seconds_max: float = WAIT_SECONDS_MAX
    ) -> Found:
        """What it finds, once it finds something."""
        deadline = time.monotonic() + seconds_max
        while not (found := find()):
            assert time.monotonic() < deadline, f"no {what} within {seconds_max} s\n{self.server.process.log}"
            time.sleep(POLL_SECONDS)
        return found

    def phase(self, store: int) -> str:
        """Where a store stands."""
        stores = get_json(find_address(self.data), "/stores")["stores"]
        return next(str(each["phase"]) for each in stores if each["store"] == store)

    def care(self, action: str, store: int) -> None:
        """What operators do to stores."""
        post_json(find_address(self.data), "/stores", {"action": action, "store": store})

    def crash(self) -> None:
        """Kill the agent; the keeper that it started notices by itself."""
        self.server.process.kill()

    @contextmanager
    def without(self, store: int) -> Iterator[None]:
        """Crash, start without the store, and in the end crash again and give it back."""
        path = self.data / "stores" / str(store)
        gone = self.data / f"{store}.gone"
        self.crash()
        path.rename(gone)
        self.server.process.start()
        yield
        self.crash()
        assert not (path / "store.json").exists(), "nobody has begun another one in its place"
        if path.exists():
            path.rename(self.data / f"{store}.placeholder")
        gone.rename(path)
        self.server.process.start()

    def end(self, rest_seconds_max: float = WAIT_SECONDS_MAX) -> None:
        """Nobody writes any more: let it come to rest, and check everything."""
        self.workload.finish(WAIT_SECONDS_MAX)
        found = [*self.workload.check({}), *self.workload.check_rest(self.data, rest_seconds_max)]
        assert not found, "\n".join([*map(str, found[:10]), self.server.process.log[-5000:]])

    def close(self) -> None:
        """Whatever has happened; a keeper that is in the middle of something would not notice for a while."""
        if self.server.process.is_running:
            keeper = self.find_keeper()
            self.server.process.kill()
            if keeper is not None:
                kill(keeper)
