"""A small cluster with one topic: brokers that die, are cut off and come back, settings that arrive late, and the truth
about who may have been harmed."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.errors import ConnectionFailed
from holdfast.guard.decide import Alter, Examine
from holdfast.guard.lever import LONG_MAX, MAX_LAG, MIN_LAG, Lags, mark_of
from holdfast.guard.sight import Look, SeenPartition, SeenTopic, Verdict
from holdfast.guard.state import State

TOPIC = "orders"
RETENTION_MS = 60_000
NODES = (1, 2, 3)
UNSET = Lags()


@dataclass(slots=True)
class Node:
    """One broker and its replica."""

    alive: bool = True
    cut_off: bool = False
    """From the controller: it answers and cleans, with what it knows."""
    lags: Lags = UNSET
    sees_in_sync: frozenset[int] = frozenset(NODES)
    end: int = 0


@dataclass(slots=True)
class ClusterModel:
    """Implements `run.World` and `run.Doctor`; `now_ms` is everybody's time."""

    owner: Lags = UNSET
    """As the topic's owner wants it; what a pause must leave behind."""
    now_ms: int = 1_000_000
    settings: Lags = UNSET
    """As the controller has them."""
    nodes: dict[int, Node] = field(default_factory=lambda: {number: Node() for number in NODES})
    in_sync: set[int] = field(default_factory=lambda: set(NODES))
    leader: int = 1
    leader_epoch: int = 0
    out_since_ms: dict[int, int] = field(default_factory=dict)
    endangered: set[int] = field(default_factory=set)
    """Replicas that may have missed something, and that no doctor has cleared since."""
    harmed: set[int] = field(default_factory=set)
    """Those of them that a doctor would find; the others had luck."""
    asked: list[Examine] = field(default_factory=list)
    answers: int = 0
    topic_id: str = "id-1"
    refuses: bool = False
    loses_answers: bool = False
    restored_unsafely: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.settings = self.owner
        for node in self.nodes.values():
            node.lags = self.owner

    def pass_time(self, ms: int) -> None:
        """Cleaners work wherever nothing stops them."""
        self.now_ms += ms
        cleaning = any(node.alive and mark_of(node.lags) is None for node in self.nodes.values())
        for number, since_ms in self.out_since_ms.items():
            if cleaning and self.now_ms - since_ms > RETENTION_MS:
                self.endangered.add(number)

    def take_away(self, number: int, *, cut_off: bool) -> None:
        """It dies, or is cut off; it leaves the ISR unless nobody else is left in it."""
        node = self.nodes[number]
        if not node.alive or node.cut_off or self.in_sync == {number}:
            return
        node.alive, node.cut_off = cut_off, cut_off
        if self.leader == number:
            self.change_leader(min(self.in_sync - {number}))
        self.in_sync.discard(number)
        self.out_since_ms.setdefault(number, self.now_ms)
        self.spread()

    def bring_back(self, number: int) -> None:
        """It runs and knows what the controller knows; it is not in sync yet."""
        node = self.nodes[number]
        node.alive, node.cut_off = True, False
        self.spread_to(number)

    def catch_up(self, number: int) -> None:
        """It joins the ISR."""
        node = self.nodes[number]
        if node.alive and not node.cut_off and number not in self.in_sync:
            node.end = max(self.nodes[each].end for each in self.in_sync)
            self.in_sync.add(number)
            self.out_since_ms.pop(number, None)
            self.spread()

    def write(self) -> None:
        """A record, on all that are in sync."""
        end = 1 + max(node.end for node in self.nodes.values())
        for number in self.in_sync:
            self.nodes[number].end = end

    def change_leader(self, number: int) -> None:
        """Copies that are being made go on from another: who is out may have a copy of two."""
        if number == self.leader or number not in self.in_sync:
            return
        self.leader, self.leader_epoch = number, self.leader_epoch + 1
        self.endangered |= self.out_since_ms.keys()

    def change_owner(self, lags: Lags) -> None:
        """The owner sets what differs from before, unless the controller refuses it: min must not exceed max."""
        mine = self.owner
        wanted = Lags(
            lags.min_ms if lags.min_ms != mine.min_ms else self.settings.min_ms,
            lags.max_ms if lags.max_ms != mine.max_ms else self.settings.max_ms,
        )
        if int(wanted.min_ms or 0) > int(wanted.max_ms or LONG_MAX):
            return
        self.owner, self.settings = lags, wanted
        self.spread()

    def spread(self) -> None:
        """Every broker that hears of the controller knows what it knows."""
        for number in self.nodes:
            self.spread_to(number)

    def spread_to(self, number: int) -> None:
        """One of them does."""
        node = self.nodes[number]
        if node.alive and not node.cut_off:
            node.lags = self.settings
            node.sees_in_sync = frozenset(self.in_sync)

    def look(self, state: State, verdicts: Sequence[Verdict]) -> Look:
        """All brokers that run, taken together."""
        running = {number: node for number, node in self.nodes.items() if node.alive}
        if not running:
            raise ConnectionFailed("nobody answers")
        in_sync = frozenset.intersection(*(node.sees_in_sync for node in running.values()))
        partition = SeenPartition(
            replicas=frozenset(NODES), in_sync=in_sync, leader=self.leader, leader_epoch=self.leader_epoch
        )
        seen = SeenTopic(
            name=TOPIC,
            topic_id=self.topic_id,
            retention_ms=RETENTION_MS,
            partitions={0: partition},
            lags={number: node.lags for number, node in running.items()},
            ends={(0, number): node.end for number, node in running.items()},
        )
        return Look(
            began_ms=self.now_ms,
            at_ms=self.now_ms,
            brokers=frozenset(running),
            topics={TOPIC: seen},
            verdicts=tuple(verdicts),
        )

    def alter(self, step: Alter) -> None:
        """The controller takes it, or not; the answer may be lost. Brokers hear of it later (`spread`)."""
        if self.refuses:
            raise ConnectionFailed("refused")
        put, unset = step.change.put, step.change.unset
        wanted = Lags(
            put.get(MIN_LAG, None if MIN_LAG in unset else self.settings.min_ms),
            put.get(MAX_LAG, None if MAX_LAG in unset else self.settings.max_ms),
        )
        if mark_of(self.settings) is not None and mark_of(wanted) is None:
            self._judge_restore()
        self.settings = wanted
        if self.loses_answers:
            raise ConnectionFailed("lost")

    def _judge_restore(self) -> None:
        if self.in_sync != set(NODES):
            self.restored_unsafely.append(f"{set(NODES) - self.in_sync} out of sync")
        if len({node.end for node in self.nodes.values()}) > 1:
            self.restored_unsafely.append("not caught up")
        if self.endangered:
            self.restored_unsafely.append(f"{self.endangered} never examined")

    def begin(self, step: Examine) -> None:
        """Stand in line; `collect` answers."""
        self.asked.append(step)

    def collect(self) -> list[Verdict]:
        """By the truth at this moment, if all can be compared."""
        found = []
        for step in self.asked:
            comparable = self.in_sync == set(NODES)
            against = f"{self.harmed} differ" if self.harmed else None if comparable else "not examined"
            if against is None:
                self.endangered.clear()
            found.append(
                Verdict(topic=step.topic, partition=step.partition, asked_ms=step.asked_ms, against=against)
            )
        self.answers += len(found)
        self.asked = []
        return found

    def repair(self) -> None:
        """A doctor's repair: what differs is made anew."""
        self.harmed.clear()
