"""Groups whose positions are committed one after the other and read back, above all after a crash."""

import threading
import time
from dataclasses import dataclass
from random import Random

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition, commit_group_offsets, fetch_group_offsets
from holdfast.errors import HoldfastError
from soak import checker
from soak.history import PositionEvent, PositionHistory, Violation
from soak.workload import PATIENCE_SECONDS, TOPIC, Logs, Setting

COMMITS_PER_SECOND_MAX = 200
READ_EVERY = 20
RETRY_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitterSpec:
    """One group that commits for one partition."""

    group: str
    partition: int
    from_start: int = 0

    def build(self, bootstrap: str) -> "PositionCommitter":
        """The group, ready to start."""
        return PositionCommitter(self, bootstrap)


def draw(chance: Random, setting: Setting) -> list[CommitterSpec]:
    """None, one or two groups."""
    return [
        CommitterSpec(group=f"g{number}", partition=chance.randrange(setting.partitions))
        for number in range(chance.randrange(3))
    ]


class PositionCommitter:
    """A thread that commits 0, 1, 2, and so on; what failed is not tried again, but read back."""

    def __init__(self, spec: CommitterSpec, bootstrap: str) -> None:
        self.history = PositionHistory(group=spec.group, partition=spec.partition)
        self.acknowledged = 0
        self.errors: list[str] = []
        self._place = TopicPartition(TOPIC, spec.partition)
        # Nothing is tried again behind our back: the history must say what was sent.
        self._cluster = Cluster(bootstrap, patience_s=0, timeout=PATIENCE_SECONDS)
        self._seconds_max = PATIENCE_SECONDS
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=spec.group, daemon=True)

    def start(self) -> None:
        """Begin to commit."""
        self._thread.start()

    def finish(self, seconds_max: float) -> None:
        """Commit no more, and read the position a last time."""
        self._seconds_max = seconds_max
        self._stop.set()
        self._thread.join()
        self._find()
        self._cluster.close()

    def check(self, logs: Logs) -> list[Violation]:
        """Positions have no business with the records."""
        found = [Violation(checker.POSITION, error) for error in self.errors]
        return found + list(checker.check_positions(self.history))

    def _run(self) -> None:
        offset = 0
        while not self._stop.wait(1 / COMMITS_PER_SECOND_MAX) and not self.errors:
            self._note("sent", offset)
            try:
                commit_group_offsets(self._cluster, self.history.group, {self._place: offset})
            except HoldfastError:
                self._find()
            else:
                self._note("acknowledged", offset)
                self.acknowledged += 1
                if offset % READ_EVERY == 0:
                    self._find()
            offset += 1

    def _find(self) -> None:
        """Ask until the log is back."""
        begun = time.monotonic()
        while True:
            try:
                positions = fetch_group_offsets(self._cluster, self.history.group)
            except HoldfastError as failure:
                if time.monotonic() - begun > self._seconds_max:
                    self.errors.append(f"the position of {self.history.group} cannot be read: {failure}")
                    return
                time.sleep(RETRY_SECONDS)
            else:
                self._note("found", positions.get(self._place, checker.NO_POSITION))
                return

    def _note(self, kind: str, offset: int) -> None:
        self.history.events.append(PositionEvent(kind, offset))  # type: ignore[arg-type]
