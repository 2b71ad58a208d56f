"""One round: load, kills, damage, restarts, and then every history is held against the log."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.client.cluster import Cluster
from holdfast.client.offsets import LATEST, list_offsets
from holdfast.client.reader import OffsetRange, read_range
from holdfast.client.topics import create_topic
from holdfast.errors import HoldfastError
from holdfast.records.build import read_records
from soak import checker
from soak.disk import strike_all
from soak.history import LogRecord, Violation
from soak.outages import Absence, KeeperKiller
from soak.plan import Kill, Plan
from soak.server import SETTINGS, Server
from soak.workload import LAST_WORDS_SECONDS, PATIENCE_SECONDS, TOPIC, Workload
from soak.workloads.produce import Producer
from soak.workloads.transfers import Transfers
from soak.workloads.transform import Transform
from soak.workloads.upkeep import Upkeep

STUCK = "stuck"
START = "start"
COMPLAINT = "complaint"
REBUILT = "rebuilt"
CARE = "care"
ACKNOWLEDGED_AT_END = 50
WAIT_SECONDS = 0.002
SPARK_SECONDS = 600.0
"""Until all of Spark's processes have been killed that are to be: a session takes its time to start, each time."""
EXPECTED = (
    " INFO ",
    "the keeper ended with",
    "stays away",
    "is not there: put it back",
    "is not taken",
    "is not in sync",
)
"""In lines of the log, where keepers are killed and stores are away."""

ReplicaLogs = dict[int, dict[int, list[LogRecord]]]
"""Partition, then node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came of a round."""

    plan: Plan
    acknowledged: int
    records: int
    seconds: float
    violations: Sequence[Violation]


class Failed(Exception):
    """The round cannot go on; the violation says why."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(what)
        self.violation = Violation(rule, what)


def run(plan: Plan, directory: Path) -> Report:
    """Play a plan in a directory that does not exist yet."""
    begun = time.monotonic()
    settings = plan.troubles.settings if plan.has_upkeep else SETTINGS
    server = Server(directory, nodes=plan.setting.nodes, settings=settings)
    absence = Absence(plan.troubles.outage if plan.has_upkeep else None, server.data)
    killer = KeeperKiller(server, plan.troubles.kills if plan.has_upkeep else ())
    workloads: list[Workload] = []
    logs: ReplicaLogs = {}
    violations: list[Violation] = []
    try:
        try:
            _start(server)
            _create_topic(server.bootstrap, plan)
            killer.start()
            _load_and_kill(plan, server, workloads, absence)
            if plan.has_upkeep and plan.troubles.is_on_spark:
                _await(lambda: killer.is_done, "end of the kills", SPARK_SECONDS)
        except Failed:
            _finish(workloads, LAST_WORDS_SECONDS)
            raise
        finally:
            killer.stop()
        _finish(workloads, PATIENCE_SECONDS)
        rest_seconds = SPARK_SECONDS if plan.troubles.is_on_spark else PATIENCE_SECONDS
        violations += _check_rest(server, workloads, rest_seconds)
        logs = read_logs(server.bootstrap)
        violations += check(plan, workloads, logs)
        if plan.rebuilds_at_end:
            violations += _check_rebuilt(server, workloads, logs, rest_seconds)
        violations += _check_end(server, _is_expected if plan.has_upkeep else lambda line: False)
    except Failed as failed:
        violations.append(failed.violation)
    finally:
        if server.process.is_running:
            server.process.kill()
    return Report(
        plan=plan,
        acknowledged=_acknowledged(workloads),
        records=sum(len(log) for by_node in logs.values() for log in list(by_node.values())[:1]),
        seconds=time.monotonic() - begun,
        violations=violations,
    )


def check(plan: Plan, workloads: Iterable[Workload], logs: ReplicaLogs) -> list[Violation]:
    """Every workload's own rules, and those that need all of them."""
    workloads = list(workloads)
    first = {partition: next(iter(by_node.values())) for partition, by_node in logs.items()}
    found: list[Violation] = []
    for workload in workloads:
        found += workload.check(first)
    producers = [workload.history for workload in workloads if isinstance(workload, Producer)]
    for partition, log in first.items():
        found += checker.check_offsets(log)
        found += checker.check_sent([each for each in producers if each.partition == partition], log)
        found += checker.check_replicas(logs[partition], partition)
        if len(logs[partition]) < min(3, plan.setting.nodes):
            found.append(
                Violation(checker.REPLICAS, f"only nodes {list(logs[partition])} hold partition {partition}")
            )
    return found


def read_logs(bootstrap: str) -> ReplicaLogs:
    """Every partition from every replica in sync."""
    with Cluster(bootstrap, patience_s=PATIENCE_SECONDS) as cluster:
        try:
            partitions = cluster.topic(TOPIC).partitions
            ends = list_offsets(cluster, TOPIC, dict.fromkeys(partitions, LATEST))
            return {
                number: {node: _read(cluster, number, ends[number], node) for node in partition.in_sync}
                for number, partition in partitions.items()
            }
        except HoldfastError as failure:
            raise Failed(checker.LOST, f"the log cannot be read: {failure}") from failure


def _read(cluster: Cluster, partition: int, end: int, node: int) -> list[LogRecord]:
    wanted = OffsetRange(topic=TOPIC, partition=partition, start=0, end=end)
    log = []
    for chunk in read_range(cluster, wanted, node_id=node):
        for batch in chunk.batches:
            for record in read_records(batch):
                assert record.offset is not None
                log.append(LogRecord(record.offset, bytes(record.value or b"")))
    return log


def _create_topic(bootstrap: str, plan: Plan) -> None:
    with Cluster(bootstrap, patience_s=PATIENCE_SECONDS) as cluster:
        create_topic(
            cluster,
            TOPIC,
            partitions=plan.setting.partitions,
            replication_factor=min(3, plan.setting.nodes),
        )


def _load_and_kill(plan: Plan, server: Server, workloads: list[Workload], absence: Absence) -> None:
    for number, kill in enumerate((*plan.kills, None)):
        for spec in plan.specs:
            if spec.from_start == number:
                workloads.append(spec.build(server.bootstrap))
                workloads[-1].start()
        if kill is None:
            _await_progress(workloads, ACKNOWLEDGED_AT_END)
        else:
            _await_progress(workloads, kill.after_acknowledged)
            _crash(server, kill, number, absence)
    if not absence.is_over(len(plan.kills)):
        server.kill()
        absence.on_crash(len(plan.kills))
        _start(server)
        _care(absence, len(plan.kills))


def _crash(server: Server, kill: Kill, number: int, absence: Absence) -> None:
    time.sleep(kill.pause_ms / 1000)
    if kill.is_at_write:
        server.await_write()
    server.kill()
    strike_all(kill.faults, server.disk)
    absence.on_crash(number)
    for after_ms in kill.starts_killed_after_ms:
        server.start_and_kill(after_ms)
    _start(server)
    _care(absence, number)


def _care(absence: Absence, number: int) -> None:
    try:
        absence.on_start(number, PATIENCE_SECONDS)
    except HoldfastError as failure:
        raise Failed(CARE, str(failure)) from failure


def _start(server: Server) -> None:
    try:
        server.process.start()
    except AssertionError as failure:
        raise Failed(START, str(failure)) from failure


def _finish(workloads: Iterable[Workload], seconds_max: float) -> None:
    for workload in workloads:
        workload.finish(seconds_max)


def _await_progress(workloads: Sequence[Workload], more: int) -> None:
    goal = _acknowledged(workloads) + more
    _await(lambda: _acknowledged(workloads) >= goal, f"{more} more acknowledgements")


def _await(condition: Callable[[], bool], what: str, seconds_max: float = PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds_max
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(STUCK, f"no {what} within {seconds_max:g} s")
        time.sleep(WAIT_SECONDS)


def _acknowledged(workloads: Iterable[Workload]) -> int:
    return sum(workload.acknowledged for workload in workloads)


def _check_rest(server: Server, workloads: Iterable[Workload], seconds_max: float) -> Iterator[Violation]:
    for workload in workloads:
        if isinstance(workload, Upkeep):
            yield from workload.check_rest(server.data, seconds_max)


def _check_rebuilt(
    server: Server, workloads: Iterable[Workload], logs: ReplicaLogs, rest_seconds: float
) -> Iterator[Violation]:
    """The journals alone say all that the control plane said."""
    server.kill()
    server.disk.remove_control_plane()
    _start(server)
    # A store that was away is looked at anew, and in sync soon.
    for violation in _check_rest(server, workloads, rest_seconds):
        yield Violation(REBUILT, str(violation))
    if read_logs(server.bootstrap) != logs:
        yield Violation(REBUILT, "a control plane made anew shows another log")
    for workload in workloads:
        if isinstance(workload, Transform | Transfers) and not workload.is_still_there():
            yield Violation(REBUILT, "a control plane made anew shows other transactions")


def _is_expected(line: str) -> bool:
    """Of killed keepers and stores that are away something is said."""
    return any(word in line for word in EXPECTED)


def _check_end(server: Server, is_expected: Callable[[str], bool]) -> list[Violation]:
    """It stops when asked, and a crash was nothing to complain about."""
    code = server.process.stop()
    found = [Violation(COMPLAINT, f"exit code {code} after SIGTERM")] if code else []
    complaints = [line for line in server.process.log.splitlines() if not is_expected(line)]
    return found + [Violation(COMPLAINT, line) for line in complaints[:10]]
