"""The engine `holdfast`: the log itself, on disk and over sockets; only time is the scenario's.

Clients write and read as any client does, stores are taken away and come back, and what is due is rewritten by the
keeper's own rounds. Under `coordinated` it is the log as it is run. Under `kafka` removal waits only for the replicas
that are here, so that time alone protects the others.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from holdfast.agent.cluster import UpkeepClocks
from holdfast.agent.writes import MoveLeader
from holdfast.client.cluster import Cluster as ClientCluster
from holdfast.control.coordination import COORDINATED, Coordination
from holdfast.control.sqlite import SqliteControlPlane
from holdfast.errors import HoldfastError, OutcomeMissing, UsageError
from holdfast.keeper.round import ChooseRunner, Round
from holdfast.keeper.runner import InProcessRunner
from holdfast.lab import steps
from holdfast.lab.engines.engine import POLICIES, StepError
from holdfast.lab.engines.holdfast_cluster import LabCluster, lab_cluster
from holdfast.lab.engines.holdfast_pass import compare
from holdfast.lab.engines.holdfast_replica import StoreReplica
from holdfast.lab.engines.holdfast_writers import Writers
from holdfast.lab.scenario import Scenario
from holdfast.rules.entry import Entry
from holdfast.rules.policy import CompactionConfig, Fate, Pass
from holdfast.rules.removal import Removable

FIRST_MS = 1_700_000_000_000
"""What the wall clock says when a scenario begins."""
PATIENCE_SECONDS = 10.0
COORDINATIONS = {"coordinated": COORDINATED, "kafka": Coordination(waits_for_absent=False)}
"""Whom removal waits for, by policy."""

_NO_CONFIG = {"producer_id_expiration_ms", "segment_batches"}
"""Settings that only a model has: the log forgets no producer by age, and counts bytes."""


def in_process(size_bytes: int) -> InProcessRunner:
    """Where rewrites run unless a Spark session is there."""
    return InProcessRunner()


class StoryTime:
    """The scenario's time; nothing but its steps moves it."""

    def __init__(self) -> None:
        self.now_ms = 0

    def wall_ms(self) -> int:
        """As timestamps have it."""
        return FIRST_MS + self.now_ms

    @property
    def clocks(self) -> UpkeepClocks:
        """For the cluster."""
        return UpkeepClocks(wall_ms=self.wall_ms, monotonic_ms=lambda: self.now_ms)


class HoldfastEngine:
    """Implements `engine.Engine`; made by `open_engine`. The first stores are its members."""

    name = "holdfast"

    def __init__(
        self,
        policy: str,
        *,
        cluster: LabCluster,
        clients: ClientCluster,
        replicas: int,
        time: StoryTime,
        choose_runner: ChooseRunner,
    ) -> None:
        self.policy = policy
        self.passes: list[tuple[int, Pass]] = []
        self.replicas: dict[int, StoreReplica] = {}
        self._cluster = cluster
        self._clients = clients
        self._writers = Writers(cluster, clients)
        self._time = time
        self._choose_runner = choose_runner
        self._decided: set[int] = set()
        """The outcomes that the control plane kept when somebody last looked."""
        for number in range(1, replicas + 1):
            self._add_replica(number)

    @property
    def now_ms(self) -> int:
        """The scenario's time."""
        return self._time.now_ms

    @property
    def leader_id(self) -> int | None:
        """As the control plane has it."""
        return self._plane.find_partition(*self._cluster.key).leader

    @property
    def history(self) -> list[Entry]:
        """What was acknowledged, in the order of the log."""
        return self._writers.history

    @property
    def in_sync(self) -> set[int]:
        """As clients are told."""
        return {number for number, replica in self.replicas.items() if replica.serves}

    def removable(self, number: int) -> Removable | None:
        """Of the group: what one replica has reported is known to all at once."""
        if self.policy == "kafka":
            return None
        return self._plane.find_removal(*self._cluster.key).removable

    def outcomes_kept(self) -> set[int]:
        """The transactions whose outcome the control plane still knows."""
        return self._plane.list_decided()

    def producer_name(self, producer_id: int) -> str:
        """What the scenario calls a producer."""
        return self._writers.name_of(producer_id)

    def apply(self, step: steps.Step) -> None:
        """Take one step, or raise StepError."""
        try:
            HANDLERS[type(step)](self, step)
        except HoldfastError as failure:
            raise StepError(str(failure)) from failure
        finally:
            for replica in self.replicas.values():
                replica.touch()

    @property
    def _plane(self) -> SqliteControlPlane:
        return self._cluster.cluster.plane

    def _add_replica(self, number: int) -> None:
        self.replicas[number] = StoreReplica(
            id=number, cluster=self._cluster, clients=self._clients, written=self._writers.by_offset
        )

    def _live(self, number: int) -> StoreReplica:
        replica = self.replicas.get(number)
        if replica is None:
            raise StepError(f"there is no replica {number}")
        if not replica.alive:
            raise StepError(f"replica {number} is down")
        if replica.halted is not None:
            raise StepError(f"replica {number} stopped itself: {replica.halted}")
        return replica

    def _serving(self, number: int) -> StoreReplica:
        replica = self._live(number)
        if not replica.serves:
            raise StepError(f"replica {number} is not in sync, and its node serves nobody")
        return replica

    def _produce(self, step: steps.Produce) -> None:
        self._writers.produce(step, timestamp_ms=self._time.wall_ms())

    def _begin(self, step: steps.Begin) -> None:
        self._writers.begin(step)

    def _end(self, step: steps.End) -> None:
        self._writers.end(step)

    def _kill(self, step: steps.Kill) -> None:
        replica = self._live(step.replica)
        others = self.in_sync - {replica.id}
        if not others:
            raise StepError(f"replica {replica.id} is the last one in sync: nobody is left to take a frame")
        replica.look()
        replica.alive = False
        self._cluster.take_away(replica.id)
        # The log notices with the next frame. A lease is one, and it changes nothing for anybody.
        other = min(others)
        self._cluster.gateway.lease(other)
        self._cluster.gateway.release(other)

    def _return(self, step: steps.Return) -> None:
        replica = self.replicas.get(step.replica)
        if replica is None or replica.alive:
            raise StepError(f"replica {step.replica} is not down")
        self._cluster.bring_back(replica.id)
        replica.alive = True

    def _fetch(self, step: steps.Fetch) -> None:
        replica = self.replicas.get(step.replica)
        if replica is not None and not replica.alive:
            # A replica that stalled is one whose store was taken away: it is back when it fetches again.
            self._return(steps.Return(step.replica))
        self._catch_up(self._live(step.replica))

    def _await_isr(self, step: steps.AwaitIsr) -> None:
        for replica in self.replicas.values():
            if replica.alive and replica.halted is None and not replica.serves:
                self._catch_up(replica)

    def _catch_up(self, replica: StoreReplica) -> None:
        try:
            self._round(replica.id)
        except OutcomeMissing as missing:
            replica.halted = str(missing)

    def _round(self, store: int) -> None:
        Round(self._cluster.gateway, self._choose_runner, stores={store}).run()

    def _advance(self, step: steps.Advance) -> None:
        # Observed before it jumps: the grace clock counts from what it saw last.
        self._cluster.cluster.grace.elapsed_ms()
        self._time.now_ms += step.ms
        self._cluster.cluster.grace.elapsed_ms()

    def _clean(self, step: steps.Clean | steps.Settle) -> None:
        replica = self._live(step.replica)
        before = replica.look()
        self._catch_up(replica)
        replica.touch()
        done = compare(before.entries, before.outcomes, replica.entries)
        self._note(replica, done)

    def _note(self, replica: StoreReplica, done: Pass) -> None:
        if done.fates:
            replica.count(done)
            self.passes.append((replica.id, done))

    def _force_leader(self, step: steps.ForceLeader) -> None:
        replica = self._serving(step.replica)
        move = MoveLeader(self._cluster.key, replica.id)
        if self.leader_id != replica.id:
            self._cluster.call(lambda: self._cluster.cluster.commits.submit(move))
            self._clients.forget_leaders()

    def _join(self, step: steps.Join) -> None:
        if step.replica in self.replicas:
            raise StepError(f"replica {step.replica} is a member already")
        self._assign([*self.replicas, step.replica])
        self._add_replica(step.replica)

    def _leave(self, step: steps.Leave) -> None:
        if step.replica not in self.replicas or step.replica == self.leader_id:
            raise StepError(f"replica {step.replica} is no member that could be spared")
        self._assign([number for number in self.replicas if number != step.replica])
        del self.replicas[step.replica]

    def _assign(self, numbers: list[int]) -> None:
        care, key = self._cluster.cluster.care, self._cluster.key
        self._cluster.call(lambda: care.assign(key.topic_id, key.partition, tuple(numbers)))

    def _consume_via(self, step: steps.ConsumeVia) -> None:
        self._serving(step.replica).read(step.isolation)

    def _exchange(self, step: steps.Exchange) -> None:
        """Reports are exchanged with every frame; what is left to do is to forget what may go."""
        self._decided |= self.outcomes_kept()
        self._cluster.call(self._cluster.cluster.expiry.expire)
        forgotten = self._decided - self.outcomes_kept()
        self._decided -= forgotten
        done = Pass(
            fates=[(Fate.OUTCOME, self._writers.marker_of(instance)) for instance in sorted(forgotten)]
        )
        for replica in self.replicas.values():
            if replica.alive and replica.halted is None:
                self._note(replica, done)


HANDLERS: dict[type, Callable[[HoldfastEngine, Any], None]] = {
    steps.Produce: HoldfastEngine._produce,
    steps.Begin: HoldfastEngine._begin,
    steps.End: HoldfastEngine._end,
    steps.Fetch: HoldfastEngine._fetch,
    steps.AwaitIsr: HoldfastEngine._await_isr,
    steps.Kill: HoldfastEngine._kill,
    steps.Return: HoldfastEngine._return,
    steps.Lag: HoldfastEngine._kill,
    steps.Advance: HoldfastEngine._advance,
    steps.Clean: HoldfastEngine._clean,
    steps.Settle: HoldfastEngine._clean,
    steps.ForceLeader: HoldfastEngine._force_leader,
    steps.Join: HoldfastEngine._join,
    steps.Leave: HoldfastEngine._leave,
    steps.ConsumeVia: HoldfastEngine._consume_via,
    steps.Exchange: HoldfastEngine._exchange,
}


@contextmanager
def open_engine(
    scenario: Scenario, *, policy: str, choose_runner: ChooseRunner = in_process
) -> Iterator[HoldfastEngine]:
    """The engine, ready for the scenario's first line; UsageError for a step that it cannot take."""
    check_steps(scenario)
    assert policy in POLICIES, policy
    time = StoryTime()
    numbers = [getattr(step, "replica", 0) for line in scenario.lines for step in line.steps]
    with (
        lab_cluster(
            stores=max(scenario.replicas, 2, *numbers),
            replicas=scenario.replicas,
            configs=topic_configs(scenario.config),
            clocks=time.clocks,
            coordination=COORDINATIONS[policy],
        ) as cluster,
        ClientCluster(cluster.bootstrap, patience_s=PATIENCE_SECONDS) as clients,
    ):
        yield HoldfastEngine(
            policy,
            cluster=cluster,
            clients=clients,
            replicas=scenario.replicas,
            time=time,
            choose_runner=choose_runner,
        )


def check_steps(scenario: Scenario) -> None:
    """UsageError that names the first line with a step that only a model can take."""
    for line in scenario.lines:
        for step in line.steps:
            if type(step) not in HANDLERS or not getattr(step, "acknowledged", True):
                raise UsageError(
                    f"scenario {scenario.name}, line {line.number} ({line.text}):"
                    f" the engine holdfast has no step {type(step).__name__}"
                )


def topic_configs(config: CompactionConfig) -> dict[str, str | None]:
    """A compacted topic with what the scenario sets; it goes on with one replica, as the model does."""
    default = CompactionConfig()
    chosen: dict[str, str | None] = {"cleanup.policy": "compact", "min.insync.replicas": "1"}
    for item in fields(config):
        value = getattr(config, item.name)
        if item.name not in _NO_CONFIG and value != getattr(default, item.name):
            chosen[item.name.replace("_", ".")] = str(value)
    return chosen
