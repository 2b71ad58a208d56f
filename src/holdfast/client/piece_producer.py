"""Sends pieces of a topic's partitions under a producer id that others may share, each partition in its own order."""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from holdfast.client import transactions
from holdfast.client.cluster import Cluster
from holdfast.client.connection import Connection
from holdfast.client.coordinator import CoordinatorType, ask_coordinator
from holdfast.client.groups import TopicPartition
from holdfast.client.retry import refusal
from holdfast.client.transactions import Generation, Identity, Verdict
from holdfast.errors import ConnectionFailed, HoldfastError, MessageTooLarge

PLAIN_PRODUCE_VERSIONS: Final = (3, 11)
SEQUENCES: Final = 2**31
"""Sequence numbers begin anew after the largest int32."""

PAUSE_S_FIRST: Final = 0.002
"""The first batches of one producer id collide where a broker looks the transaction up: for a moment only."""


class Piece(Protocol):
    """Records for one partition that are not yet a batch, since a batch bears its sequence number."""

    def __len__(self) -> int: ...

    def build(self, identity: Identity, base_sequence: int, *, transactional: bool) -> bytes | bytearray:
        """The batch."""
        ...

    def halves(self) -> tuple["Piece", "Piece"]:
        """Two pieces, of a piece that has two records or more."""
        ...


Due = dict[TopicPartition, deque[Piece]]


class PieceProducer:
    """Sends one batch per partition at a time; what was acknowledged is in `counts`. Not for several threads.

    Nobody else may write to the same partitions under the same identity: sequence numbers begin at 0 here. A batch
    whose answer was lost is sent again and lies in the log once. With a generation it is part of a transaction,
    whose other ends are in other hands.
    """

    def __init__(self, cluster: Cluster, identity: Identity, *, generation: Generation | None) -> None:
        self.counts: dict[TopicPartition, int] = defaultdict(int)
        self._cluster = cluster
        self._identity = identity
        self._generation = generation
        self._announced: set[TopicPartition] = set()

    def send(self, pieces: Mapping[TopicPartition, Sequence[Piece]]) -> None:
        """Returns when every piece is acknowledged; a piece over the topic's limit goes in halves."""
        due: Due = {place: deque(queue) for place, queue in pieces.items() if queue}
        patience = self._cluster.patience(pause_s_first=PAUSE_S_FIRST)
        while due:
            try:
                self._announce(due)
                self._send_heads(due)
                patience.renew()
            except HoldfastError as failure:
                self._cluster.forget_leaders()
                patience.wait(failure)

    def _announce(self, due: Due) -> None:
        """In the first generation of the protocol a partition joins the transaction before its first batch."""
        missing = [place for place in due if place not in self._announced]
        if not missing or self._generation is None or self._generation.adds_by_itself:
            return
        name = self._identity.transactional_id
        request = transactions.add_partitions(self._identity, missing)
        versions = self._generation.add_partitions

        def ask(coordinator: Connection) -> None:
            answer = coordinator.send(request, versions=versions)
            _raise_worst([found for found in transactions.verdicts(answer) if found.code])

        ask_coordinator(self._cluster, CoordinatorType.TRANSACTION, name, ask)
        self._announced.update(missing)

    def _send_heads(self, due: Due) -> None:
        """The next batch of every partition; what is acknowledged leaves `due`."""
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for place in due:
            by_leader[self._cluster.leader_of(*place)].append(place)
        refused: list[Verdict] = []
        for leader, places in by_leader.items():
            answer = self._produce(leader, {place: self._build(place, due[place][0]) for place in places})
            found = {verdict.place: verdict for verdict in transactions.verdicts(answer)}
            for place in places:
                if place not in found:
                    raise ConnectionFailed(f"node {leader} left {place} out of its answer")
                if not self._settle(due, place, found[place].code):
                    refused.append(found[place])
        _raise_worst(refused)

    def _settle(self, due: Due, place: TopicPartition, code: int) -> bool:
        """Whether the head was acknowledged, or can go on in halves."""
        queue = due[place]
        if code == MessageTooLarge.kafka_code and len(queue[0]) > 1:
            queue.extendleft(reversed(queue.popleft().halves()))
            return True
        if code:
            return False
        self.counts[place] += len(queue.popleft())
        if not queue:
            del due[place]
        return True

    def _build(self, place: TopicPartition, piece: Piece) -> bytes | bytearray:
        sequence = self.counts[place] % SEQUENCES
        return piece.build(self._identity, sequence, transactional=self._generation is not None)

    def _produce(self, leader: int, batches: Mapping[TopicPartition, bytes | bytearray]) -> Any:
        name = None if self._generation is None else self._identity.transactional_id
        versions = PLAIN_PRODUCE_VERSIONS if self._generation is None else self._generation.produce
        request = transactions.produce(name, batches)
        return self._cluster.broker(leader).send(request, versions=versions)


def _raise_worst(refused: list[Verdict]) -> None:
    """What can be tried again must not hide what cannot."""
    failures = [
        refusal(each.code, f"producing to {each.place.topic}-{each.place.partition}", each.detail)
        for each in refused
        if each.place is not None
    ]
    for failure in sorted(failures, key=lambda failure: failure.retriable):
        raise failure
