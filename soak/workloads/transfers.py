"""Transfers between accounts by tellers that are killed, and an auditor that reads read_committed all the time."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from holdfast.client.topics import create_topic
from holdfast.client.transactional_producer import TransactionalProducer
from soak import bank, txn_checker
from soak.clients import CLIENTS
from soak.committed import Committed, create_bootstrap_cluster, read_all
from soak.fleet import Slot, WorkerFault, draw_faults
from soak.history import Violation
from soak.txn_history import Place
from soak.watcher import Watcher
from soak.workload import LAST_WORDS_SECONDS, Logs, Setting

WORKER = "worker"
TELLER_FAULTS_MAX = 3
SHARE_OF_ROUNDS = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class TransfersSpec:
    """One bank: in one partition, or in two with half of every transfer in each."""

    client: str
    nodes: int
    partitions: int
    faults: tuple[tuple[WorkerFault, ...], ...]
    """By teller."""
    seed: int
    from_start: int = 0

    @property
    def name(self) -> str:
        """Of the topic, and a part of all names."""
        return f"bank-{self.client}"

    def build(self, bootstrap: str) -> "Transfers":
        """The bank, ready to start."""
        return Transfers(self, bootstrap)


def draw(chance: Random, setting: Setting) -> list[TransfersSpec]:
    """In some rounds one, with one of the clients."""
    if chance.random() >= SHARE_OF_ROUNDS:
        return []
    return [draw_one(chance, setting, chance.choice(sorted(CLIENTS)))]


def draw_one(chance: Random, setting: Setting, client: str) -> TransfersSpec:
    """A bank whose tellers use this client."""
    tellers = chance.randrange(1, 4)
    return TransfersSpec(
        client=client,
        nodes=setting.nodes,
        partitions=chance.randrange(1, 3),
        faults=tuple(draw_faults(chance, TELLER_FAULTS_MAX) for _ in range(tellers)),
        seed=chance.getrandbits(32),
    )


class Transfers:
    """Tellers and the auditor."""

    def __init__(self, spec: TransfersSpec, bootstrap: str) -> None:
        self._spec = spec
        self._bootstrap = bootstrap
        self._places = [Place(spec.name, partition) for partition in range(spec.partitions)]
        with create_bootstrap_cluster(bootstrap) as cluster:
            create_topic(
                cluster, spec.name, partitions=spec.partitions, replication_factor=min(3, spec.nodes)
            )
        self.slots = [
            Slot("soak.workers.teller", self._arguments_of(f"t{number}"), faults)
            for number, faults in enumerate(spec.faults)
        ]
        self._auditor = Watcher(f"{spec.name}-auditor", bootstrap, self._places)
        self._committed = Committed()

    @property
    def acknowledged(self) -> int:
        """Records of committed transfers."""
        return sum(worker.notes.committed_records for slot in self.slots for worker in list(slot.workers))

    def start(self) -> None:
        """Open the bank."""
        self._auditor.start()
        for slot in self.slots:
            slot.start()

    def finish(self, seconds_max: float) -> None:
        """Every fault happens; then tellers are ended anywhere, and what they left open is aborted."""
        is_up = seconds_max > LAST_WORDS_SECONDS
        deadline = time.monotonic() + seconds_max
        if is_up:
            for slot in self.slots:
                slot.has_met_all_faults.wait(max(0.0, deadline - time.monotonic()))
        for slot in self.slots:
            slot.stop()
        if is_up:
            self._abort_what_was_left()
            self._committed = read_all(self._bootstrap, [self._spec.name])
        self._auditor.finish(self._committed.ends(self._places), seconds_max)

    def check(self, logs: Logs) -> list[Violation]:
        """No total was ever wrong, no transfer was ever half, and nobody saw what was not committed."""
        found = list(self._committed.violations) + self._auditor.check()
        transactions = [each for slot in self.slots for each in slot.transactions]
        found += txn_checker.check_transactions(transactions, self._committed.logs)
        found += txn_checker.check_reader(self._auditor.history, transactions, self._committed.logs)
        found += bank.check_totals("the auditor", (each.value for each in self._auditor.history.seen))
        in_the_end = [record.value for place in self._places for record in self._committed.logs[place]]
        found += bank.check_totals("a reader in the end", in_the_end, is_final=True)
        found += [
            Violation(WORKER, failure) for slot in self.slots for failure in slot.failures(self._spec.client)
        ]
        return found

    def is_still_there(self) -> bool:
        """Whether the log shows what it showed after `finish`."""
        return read_all(self._bootstrap, [self._spec.name]) == self._committed

    def _abort_what_was_left(self) -> None:
        """A producer that comes for each id and does nothing with it."""
        with create_bootstrap_cluster(self._bootstrap) as cluster:
            for number in range(len(self.slots)):
                TransactionalProducer(cluster, self._transactional_id(f"t{number}")).init()

    def _transactional_id(self, teller: str) -> str:
        return f"{self._spec.name}-{teller}"

    def _arguments_of(self, teller: str) -> Callable[[int], Mapping[str, Any]]:
        def arguments(life: int) -> Mapping[str, Any]:
            return {
                "client": self._spec.client,
                "bootstrap": self._bootstrap,
                "transactional_id": self._transactional_id(teller),
                "name": f"{teller}.{life}",
                "teller": teller,
                "topic": self._spec.name,
                "partitions": self._spec.partitions,
                "seed": f"{self._spec.seed}/{teller}/{life}",
            }

        return arguments
