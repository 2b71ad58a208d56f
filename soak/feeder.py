"""Input for transformations: numbered records in transactions, some of them aborted."""

import threading
from collections.abc import Callable
from random import Random

from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.errors import HoldfastError
from holdfast.records.build import Record
from soak.committed import create_bootstrap_cluster
from soak.txn_history import Place

ABORTED_SHARE = 0.2
RECORDS_MAX = 20
AHEAD_MAX = 400
WAIT_SECONDS = 0.005


class Feeder:
    """A thread that stays a little ahead of those who read."""

    def __init__(self, bootstrap: str, place: Place, *, seed: str, done: Callable[[], int]) -> None:
        self.place = place
        self.error: str | None = None
        self.sent: list[bytes] = []
        """What was committed, in order."""
        self._done = done
        self._chance = Random(seed)
        self._cluster = create_bootstrap_cluster(bootstrap)
        self._producer = TransactionalProducer(self._cluster, f"feeder-{place}")
        self._number = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"feeder-{place}", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def finish(self) -> None:
        """A last transaction that is committed, so that the last record is one that is read."""
        self._stop.set()
        self._thread.join()
        self._cluster.close()

    def _run(self) -> None:
        try:
            self._producer.init()
            while not self._stop.wait(WAIT_SECONDS):
                if len(self.sent) < self._done() + AHEAD_MAX:
                    self._send(is_aborted=self._chance.random() < ABORTED_SHARE)
            self._send(is_aborted=False)
        except HoldfastError as failure:
            self.error = f"{type(failure).__name__}: {failure}"

    def _send(self, *, is_aborted: bool) -> None:
        values = []
        for _ in range(self._chance.randrange(1, RECORDS_MAX)):
            values.append(f"{self.place}:{self._number:06d}{'x' if is_aborted else ''}".encode())
            self._number += 1
        self._producer.begin()
        self._producer.send(*self.place, [Record(value=value) for value in values])
        if is_aborted:
            self._producer.abort()
        else:
            self._producer.commit()
            self.sent += values
