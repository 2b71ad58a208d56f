"""The engine `kafka`: a scenario on real Apache Kafka brokers, killed and stalled as real processes are.

Time is real, so the story runs by a scale (`kafka_timing`). A cleaner cannot be told when to look; beside the
brokers the model runs along, and where its cleaners drop something the story goes on when the brokers' have done so,
too, or when patience ends. What is judged is what the brokers then show, never what the model holds.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from holdfast.client.cluster import NO_NODE, Cluster, Partition
from holdfast.client.groups import TopicPartition
from holdfast.client.leaders import move_leader
from holdfast.client.replica_log import find_bounds
from holdfast.errors import HoldfastError, KafkaUnavailable, TransientRefusal
from holdfast.guard.state import Stage
from holdfast.lab import steps
from holdfast.lab.engines.engine import SeenReplica, StepError
from holdfast.lab.engines.kafka_guard import LabGuard
from holdfast.lab.engines.kafka_pass import gone
from holdfast.lab.engines.kafka_replica import BrokerReplica
from holdfast.lab.engines.kafka_timing import Timing
from holdfast.lab.engines.kafka_writers import TOPIC, Writers
from holdfast.lab.engines.model import Model
from holdfast.lab.kafka_broker import KafkaCluster
from holdfast.lab.scenario import FILLER_KEY, Scenario
from holdfast.rules.entry import Entry
from holdfast.rules.policy import Pass
from holdfast.rules.removal import Removable
from holdfast.rules.transaction import NO_INSTANCE

logger = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 60.0
CLEANER_SECONDS_MAX: Final = 45.0
GUARDED_SECONDS: Final = 6.0
"""For a cleaner that a guard holds: three times delete.retention.ms, in which it would have dropped what it may not."""
FILLER_PAUSE_S: Final = 0.15
"""While a cleaner is waited for: each record rolls a segment and feeds a pass."""
LOOK_PAUSE_S: Final = 0.05


class KafkaEngine:
    """Implements `engine.Engine`; made by `kafka_cluster.open_engine`."""

    name = "kafka"
    policy = "kafka"

    def __init__(
        self,
        scenario: Scenario,
        *,
        brokers: KafkaCluster,
        clients: Cluster,
        writers: Writers,
        timing: Timing,
        guard: LabGuard | None = None,
    ) -> None:
        self.passes: list[tuple[int, Pass]] = []
        self.history: list[Entry] = []
        self._brokers = brokers
        self._clients = clients
        self._writers = writers
        self._timing = timing
        self.guard = guard
        self.model = Model(policy="kafka", replicas=scenario.replicas, config=scenario.config)
        """What runs along."""
        self._place = TopicPartition(TOPIC, 0)
        self._by_offset: dict[int, Entry] = {}
        self._names: dict[int, str] = {}
        self._open: dict[str, int] = {}
        """The instance of each transaction that is open."""
        self._instances = 0
        self._given_up: set[int] = set()
        self._partition = clients.topic(TOPIC).partitions[0]
        self._began = time.monotonic()
        self.replicas: dict[int, BrokerReplica] = {
            number: BrokerReplica(id=number, clients=clients, place=self._place, written=self._by_offset)
            for number in range(1, scenario.replicas + 1)
        }

    @property
    def brokers(self) -> KafkaCluster:
        """The processes themselves, for whoever restarts them."""
        return self._brokers

    @property
    def bootstrap(self) -> str:
        """Where other clients find the brokers."""
        return self._clients.bootstrap

    @property
    def now_ms(self) -> int:
        """The time that has really passed, by the story's scale."""
        return self._timing.story_ms(time.monotonic() - self._began)

    @property
    def leader_id(self) -> int | None:
        """As brokers told last."""
        return None if self._partition.leader == NO_NODE else self._partition.leader

    @property
    def in_sync(self) -> set[int]:
        """The ISR, as brokers told last."""
        return set(self._partition.in_sync)

    def removable(self, number: int) -> Removable | None:
        """Kafka knows no such thing."""
        return None

    def producer_name(self, producer_id: int) -> str:
        """What the scenario calls a producer."""
        return self._names[producer_id]

    def apply(self, step: steps.Step) -> None:
        """Take one step, or raise StepError; the model goes first, so that it is refused before brokers see it."""
        if isinstance(step, steps.Begin) and self._writers.generation is not None:
            step = replace(step, version=self._writers.generation)
        self.model.apply(step)
        try:
            HANDLERS[type(step)](self, step)
        except HoldfastError as failure:
            raise StepError(str(failure)) from failure
        finally:
            for replica in self.replicas.values():
                replica.touch()

    def _live(self, number: int) -> BrokerReplica:
        replica = self.replicas.get(number)
        if replica is None or not replica.alive:
            raise StepError(f"replica {number} is down")
        return replica

    def _produce(self, step: steps.Produce) -> None:
        if step.producer is None:
            self._note_written(self._writers.produce(step.key, step.value), step, NO_INSTANCE)
            return
        instance = self._open[step.producer]
        offset = self._writers.send(step.producer, step.key, step.value)
        entry = self._note_written(offset, step, instance)
        self._names[entry.producer_id] = step.producer

    def _note_written(self, offset: int, step: steps.Produce, instance: int) -> Entry:
        """Take a record into the history as the leader has it: brokers alone know its producer's id."""
        seen = self._await_entry(lambda entry: entry.offset == offset)
        entry = Entry(
            offset=offset,
            key=step.key,
            value=step.value,
            timestamp_ms=seen.timestamp_ms,
            producer_id=seen.producer_id,
            transactional=step.producer is not None,
            instance=instance,
        )
        self._note(entry)
        return entry

    def _note(self, entry: Entry) -> None:
        self.history.append(entry)
        self._by_offset[entry.offset] = entry

    def _begin(self, step: steps.Begin) -> None:
        self._writers.begin(step.producer, step.version)
        self._instances += 1
        self._open[step.producer] = self._instances

    def _end(self, step: steps.End) -> None:
        self._writers.end(step.producer, step.outcome)
        instance = self._open.pop(step.producer)
        data = [entry for entry in self.history if entry.instance == instance]
        if not data:
            return  # brokers have heard of nothing, and write no marker
        last = data[-1]
        # Brokers answer when the outcome is decided; the marker comes a moment later.
        marker = self._await_entry(
            lambda entry: (
                entry.marker is step.outcome
                and entry.producer_id == last.producer_id
                and entry.offset > last.offset
            )
        )
        self._note(
            Entry(
                offset=marker.offset,
                marker=step.outcome,
                producer_id=last.producer_id,
                transactional=True,
                instance=instance,
            )
        )

    def _await_entry(self, wanted: Callable[[Entry], bool]) -> Entry:
        """The newest such batch of the leader, as soon as it is there."""
        found: list[Entry] = []

        def is_there() -> bool:
            leader = self.replicas[self._find_leader()]
            leader.touch()
            found[:] = [entry for entry in leader.entries if wanted(entry)]
            return bool(found)

        self._await(is_there, "what was written to be in the leader's log")
        return found[-1]

    def _find_leader(self) -> int:
        if self.leader_id is None:
            raise TransientRefusal("nobody leads the partition at present")
        return self.leader_id

    def _kill(self, step: steps.Kill) -> None:
        self._take_away(self._live(step.replica), self._brokers.kill_node)

    def _lag(self, step: steps.Lag) -> None:
        self._take_away(self._live(step.replica), self._brokers.pause_node)

    def _take_away(self, replica: BrokerReplica, end: Callable[[int], None]) -> None:
        """Until the others know. So nothing is written in time for a fetch that is still under way, either."""
        replica.look()
        end(replica.id)
        replica.alive = False
        self._clients.disconnect(replica.id)
        self._await(
            lambda: (
                replica.id not in self._look_at_partition().in_sync
                and self._partition.leader not in (NO_NODE, replica.id)
            ),
            f"replica {replica.id} to leave the ISR",
        )
        if self.guard is not None:
            # Its looks take as long as ever, while the story's days are seconds.
            self._await(self._is_guarded, "the guard to pause cleanup")

    def _is_guarded(self) -> bool:
        return self.guard is not None and self.guard.stage is Stage.PAUSED

    def _return(self, step: steps.Return) -> None:
        replica = self.replicas[step.replica]
        self._brokers.launch(replica.id)
        self._brokers.wait_ready()
        self._bring_back(replica)

    def _bring_back(self, replica: BrokerReplica) -> None:
        replica.alive = True
        self._await(lambda: self._end_of(replica) >= 0, f"replica {replica.id} to answer")

    def _fetch(self, step: steps.Fetch) -> None:
        """A replica that stalled goes on by itself; how far a fetch comes nobody can choose."""
        replica = self.replicas[step.replica]
        if not replica.alive:
            self._brokers.resume_node(replica.id)
            self._bring_back(replica)
        self._await_isr(steps.AwaitIsr())

    def _await_isr(self, step: steps.AwaitIsr) -> None:
        alive = {number for number, replica in self.replicas.items() if replica.alive}
        self._await(lambda: set(self._look_at_partition().in_sync) >= alive, "all replicas to be in sync")
        self._exchange(steps.Exchange())
        for number in sorted(alive):
            self._tell_gone(self.replicas[number], silently=True)
        if self.guard is not None and len(alive) == len(self.replicas):
            guard = self.guard
            self._await(lambda: guard.stage is None, "the guard to let cleanup go on")
            self._given_up.clear()

    def _force_leader(self, step: steps.ForceLeader) -> None:
        move_leader(self._clients, self._place, self._live(step.replica).id)
        self._await(lambda: self._look_at_partition().leader == step.replica, "leadership to move")

    def _advance(self, step: steps.Advance) -> None:
        time.sleep(self._timing.real_ms(step.ms, least_ms=0) / 1000)

    def _clean(self, step: steps.Clean) -> None:
        """A pass of the model is waited for; a cleaner that does not follow is waited for once."""
        replica = self._live(step.replica)
        is_guarded = self._is_guarded()
        deadline = time.monotonic() + (GUARDED_SECONDS if is_guarded else CLEANER_SECONDS_MAX)
        while replica.id not in self._given_up and not self._is_as_clean(replica):
            if time.monotonic() > deadline:
                self._given_up.add(replica.id)
                if not is_guarded:
                    logger.warning(
                        "the cleaner of replica %d keeps what was expected to go; the story goes on",
                        replica.id,
                    )
            self.write_filler()
            time.sleep(FILLER_PAUSE_S)
            replica.touch()
        self._tell_gone(replica, silently=False)

    def write_filler(self) -> None:
        """A record that rolls a segment and feeds a pass."""
        self._produce(steps.Produce(FILLER_KEY, "0"))

    def _is_as_clean(self, replica: BrokerReplica) -> bool:
        """Whether everything is gone that the model's cleaner has dropped, and perhaps more."""
        return held(replica) <= held(self.model.replicas[replica.id])

    def _tell_gone(self, replica: BrokerReplica, *, silently: bool) -> None:
        """Note what has left a replica's log, or never came there: that nobody dropped, and it is not told."""
        replica.touch()
        fates = [
            (fate, entry) for fate, entry in gone(self.history, replica) if entry.offset not in replica.told
        ]
        replica.told.update(entry.offset for _, entry in fates)
        if fates and not silently:
            done = Pass(fates=fates)
            replica.count(done)
            self.passes.append((replica.id, done))

    def _consume_via(self, step: steps.ConsumeVia) -> None:
        self._live(step.replica).read(step.isolation)

    def _exchange(self, step: steps.Exchange) -> None:
        """Let every replica in sync hear of all that was written, and of the high watermark."""
        self._look_at_partition()
        self._await(self._agree, "the replicas in sync to agree on the end of the log")

    def _agree(self) -> bool:
        end = self._end_of(self.replicas[self._find_leader()])
        following = [self.replicas[each] for each in self.in_sync if self.replicas[each].alive]
        for replica in following:
            replica.touch()
        return all((replica.log_end, replica.high_watermark) == (end, end) for replica in following)

    def _end_of(self, replica: BrokerReplica) -> int:
        return find_bounds(self._clients, replica.id, self._place).log_end

    def _look_at_partition(self) -> Partition:
        self._partition = self._clients.topic(TOPIC).partitions[0]
        return self._partition

    def _await(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        why: object = ""
        while True:
            try:
                if is_so():
                    return
            except HoldfastError as failure:
                if not failure.retriable:
                    raise
                why = f": {failure}"
            if time.monotonic() > deadline:
                raise KafkaUnavailable(f"waited {PATIENCE_SECONDS:.0f} s for {what}{why}")
            time.sleep(LOOK_PAUSE_S)
            self._look_quietly()

    def _look_quietly(self) -> None:
        """Leadership may have moved, and whoever is asked for it may be gone."""
        try:
            self._look_at_partition()
        except HoldfastError as failure:
            logger.debug("nobody tells who leads: %s", failure)


def held(replica: SeenReplica) -> set[tuple[str | None, str | None, object]]:
    """What of the story is in a log; offsets differ, because waiting takes more filler."""
    return {
        (entry.key, entry.value, entry.marker)
        for entry in replica.entries
        if not entry.empty and entry.key != FILLER_KEY
    }


HANDLERS: dict[type, Callable[[KafkaEngine, Any], None]] = {
    steps.Produce: KafkaEngine._produce,
    steps.Begin: KafkaEngine._begin,
    steps.End: KafkaEngine._end,
    steps.Kill: KafkaEngine._kill,
    steps.Return: KafkaEngine._return,
    steps.Lag: KafkaEngine._lag,
    steps.Fetch: KafkaEngine._fetch,
    steps.AwaitIsr: KafkaEngine._await_isr,
    steps.Advance: KafkaEngine._advance,
    steps.Clean: KafkaEngine._clean,
    steps.ForceLeader: KafkaEngine._force_leader,
    steps.ConsumeVia: KafkaEngine._consume_via,
    steps.Exchange: KafkaEngine._exchange,
}
