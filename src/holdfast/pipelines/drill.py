"""Faults that are put into a running pipeline on purpose, from outside of whoever has to see them, and taken out again.

Every fault can be undone, at any moment and more than once, and undoing it loses nothing: a process that was frozen
goes on, one that was killed is started again, and an exact adapter goes on where its own checkpoint says. The one
exception is a doubled record, which no log takes back: it is a message of a tenant of its own.
"""

import os
import signal
import subprocess
import sys
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition, commit_group_offsets
from holdfast.client.handing import hand_on, without_handed
from holdfast.client.offsets import LATEST, Isolation, list_offsets
from holdfast.client.producer import Producer
from holdfast.client.reader import OffsetRange, read_range
from holdfast.client.transactional_producer import State, TransactionalProducer
from holdfast.errors import PipelineRefused
from holdfast.pipelines.config import WINDOW_MS, Mode, Pipeline
from holdfast.pipelines.identity import Part as Where
from holdfast.pipelines.recon.columns import CANARY_HEADER
from holdfast.pipelines.recon.day import LATENESS_MS
from holdfast.pipelines.recon.kept import topic_of
from holdfast.pipelines.state import PartFiles
from holdfast.pipelines.status import ADAPTER, SERVICE
from holdfast.pipelines.watch.evaluator import AlarmKind
from holdfast.records.build import Record, read_records

TENANT: Final = "holdfast-drill"
"""Whose message is doubled: no real tenant's day is spoilt."""
HANG_MS: Final = 900_000
"""A transaction that nobody ends is aborted by the log after so long, should the drill be killed."""
SLACK_MS: Final = 60_000
"""For the clock of another machine."""
ARRIVAL_S_MAX: Final = 300.0
POLL_S: Final = 0.2
TAIL_BYTES: Final = 1 << 20


class FaultName(StrEnum):
    """What can be broken."""

    STALL = "stall"
    """The process that forwards is frozen."""
    CRASH = "crash"
    """It is killed."""
    LOST = "lost"
    """Its group's position goes on, and nothing is forwarded."""
    HANG = "hang"
    """A transaction is left open where it reads."""
    DUP = "dup"
    """A record stands in audit twice."""


class Fault(ABC):
    """One of them."""

    kinds: frozenset[AlarmKind]
    """The alarms that are made for it: one of them has to tell."""
    echoes: frozenset[AlarmKind] = frozenset()
    """What may come of it besides, and proves nothing; it is over when these are, too."""
    cure: str
    """What is done about it."""
    is_undone: bool = True
    """Whether the alarm ends when it is undone."""

    @abstractmethod
    def inject(self) -> None:
        """Break it."""

    def hold(self) -> None:
        """Called again and again while somebody waits for the alarm."""
        return

    @abstractmethod
    def undo(self) -> None:
        """Make it good; a second time does nothing."""


class Stall(Fault):
    """SIGSTOP to the process of a part: its lock and its JVM live on, and nothing moves."""

    kinds = frozenset({AlarmKind.STALLED})
    echoes = frozenset({AlarmKind.NO_PROGRESS, AlarmKind.AGE, AlarmKind.CANARY})
    cure = "the process goes on"

    def __init__(self, pipeline: Pipeline, part: str) -> None:
        self._pid = running_pid(pipeline, part)
        self._is_stopped = False

    def inject(self) -> None:
        """See Fault."""
        self._is_stopped = True
        os.kill(self._pid, signal.SIGSTOP)

    def undo(self) -> None:
        """See Fault."""
        if self._is_stopped:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGCONT)
            self._is_stopped = False


class Crash(Fault):
    """SIGKILL to the process of a part. It is started again as it was, unless somebody else has done so."""

    kinds = frozenset({AlarmKind.NO_PROGRESS, AlarmKind.STALLED})
    echoes = frozenset({AlarmKind.AGE, AlarmKind.CANARY})
    cure = "the process is started again"

    def __init__(self, pipeline: Pipeline, part: str) -> None:
        self._files = PartFiles(pipeline.checkpoint, part)
        self._pid = running_pid(pipeline, part)
        self._command = command_of(self._pid, pipeline, part)
        self._security = pipeline.endpoint.security
        self._directory = working_directory(self._pid)
        self._log = pipeline.checkpoint / f"{part}.drill.log"
        self._is_killed = False

    def inject(self) -> None:
        """See Fault."""
        self._is_killed = True
        os.kill(self._pid, signal.SIGKILL)

    def undo(self) -> None:
        """See Fault."""
        if not self._is_killed:
            return
        self._is_killed = False
        if not self._files.is_running():
            again = without_handed(self._command)
            with self._log.open("ab") as log, hand_on(self._security) as handed:
                subprocess.Popen(
                    again if again == self._command else [*again, *handed.words],
                    cwd=self._directory,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=handed.descriptors,
                )


class Lost(Fault):
    """The adapter is frozen, and its group's positions are moved on in its place: it seems to be at work.

    The adapter goes by its own checkpoint. When it goes on it forwards everything, and the positions are right again.
    """

    kinds = frozenset({AlarmKind.CANARY})
    echoes = Stall.kinds | (Stall.echoes - kinds)
    cure = "the adapter goes on, from where its checkpoint says"

    def __init__(self, pipeline: Pipeline, cluster: Cluster) -> None:
        if pipeline.mode is not Mode.ADAPTER:
            raise PipelineRefused(f"delivery {pipeline.mode.value} has no adapter that could lose something")
        self._adapters, self._cluster = pipeline.adapters, cluster
        self._stall = Stall(pipeline, ADAPTER)

    def inject(self) -> None:
        """See Fault."""
        self._stall.inject()
        self.hold()

    def hold(self) -> None:
        """See Fault."""
        for adapter in self._adapters:
            partitions = self._cluster.topic(adapter.topic).partitions
            ends = list_offsets(
                self._cluster,
                adapter.topic,
                dict.fromkeys(partitions, LATEST),
                isolation=Isolation.READ_COMMITTED,
            )
            positions = {TopicPartition(adapter.topic, number): end for number, end in ends.items()}
            commit_group_offsets(self._cluster, adapter.group, positions)

    def undo(self) -> None:
        """See Fault."""
        self._stall.undo()


class Hang(Fault):
    """A transaction with a canary in it is left open in the topic that the part reads: readers are held back."""

    kinds = frozenset({AlarmKind.BLOCKED})
    echoes = frozenset({AlarmKind.AGE, AlarmKind.CANARY})
    cure = "the transaction is aborted"

    def __init__(self, pipeline: Pipeline, cluster: Cluster, part: str) -> None:
        self._topic = pipeline.ingest if part == SERVICE else pipeline.adapters[0].topic
        self._producer = TransactionalProducer(cluster, f"{pipeline.name}.drill", timeout_ms=HANG_MS)

    def inject(self) -> None:
        """See Fault."""
        self._producer.init()
        self._producer.begin()
        self._producer.send(self._topic, 0, [Record(value=b"", headers=[(CANARY_HEADER, b"drill")])])

    def undo(self) -> None:
        """See Fault."""
        if self._producer.state not in {State.NEW, State.READY}:
            self._producer.abort()


class Dup(Fault):
    """A message of the drill's own tenant is ingested; when audit has it, it is sent there once more.

    It says that it happened in a window that is sealed already: nobody has to wait half an hour for the alarm.
    """

    kinds = frozenset({AlarmKind.CONSERVATION})
    cure = "nothing: no log takes a record back; the drill's own tenant has it twice, and nobody else"
    is_undone = False

    def __init__(self, pipeline: Pipeline, cluster: Cluster) -> None:
        identity = pipeline.identity
        places = (identity.id, identity.source, identity.tenant, identity.time)
        if any(each is not None and each.part not in {Where.HEADER, Where.TIMESTAMP} for each in places):
            raise PipelineRefused("dup needs a pipeline whose messages tell in headers who they are")
        if topic_of(pipeline) not in cluster.metadata([topic_of(pipeline)]).topics:
            raise PipelineRefused(
                "dup is seen by fingerprints: keep them with `holdfast pipeline run --fingerprints`"
            )
        self._pipeline, self._cluster = pipeline, cluster
        self._mark = f"drill-{uuid.uuid4().hex}"

    def inject(self) -> None:
        """See Fault."""
        before = self._ends()
        Producer(self._cluster, self._pipeline.ingest).send({0: [self._message()]})
        deadline = time.monotonic() + ARRIVAL_S_MAX
        while (found := self._find(before)) is None:
            if time.monotonic() > deadline:
                raise PipelineRefused(
                    f"a message of the drill did not arrive in {self._pipeline.audit} within {ARRIVAL_S_MAX:.0f} s: "
                    "does the pipeline run?"
                )
            time.sleep(POLL_S)
        partition, record = found
        Producer(self._cluster, self._pipeline.audit).send({partition: [record]})

    def undo(self) -> None:
        """See Fault: there is nothing to be done."""

    def _message(self) -> Record:
        now_ms = time.time_ns() // 1_000_000
        sealed_ms = now_ms - LATENESS_MS - WINDOW_MS - SLACK_MS
        told = {"id": self._mark, "source": TENANT, "tenant": TENANT, "time": str(sealed_ms)}
        headers = [(name, told[column].encode()) for column, name in self._pipeline.identity.headers.items()]
        return Record(value=b"{}", headers=headers, timestamp_ms=now_ms)

    def _ends(self) -> dict[int, int]:
        partitions = self._cluster.topic(self._pipeline.audit).partitions
        return list_offsets(
            self._cluster,
            self._pipeline.audit,
            dict.fromkeys(partitions, LATEST),
            isolation=Isolation.READ_COMMITTED,
        )

    def _find(self, starts: dict[int, int]) -> tuple[int, Record] | None:
        """The record of our message, in what audit has got since."""
        for partition, end in self._ends().items():
            for record in self._read(partition, starts.get(partition, 0), end):
                if self._mark.encode() in [value for _, value in record.headers]:
                    return partition, Record(key=record.key, value=record.value, headers=record.headers)
            starts[partition] = end
        return None

    def _read(self, partition: int, start: int, end: int) -> Iterator[Record]:
        if start >= end:
            return
        wanted = OffsetRange(topic=self._pipeline.audit, partition=partition, start=start, end=end)
        for chunk in read_range(
            self._cluster, wanted, isolation=Isolation.READ_COMMITTED, fetch_bytes=TAIL_BYTES
        ):
            for batch in chunk.batches:
                yield from () if batch.is_control else read_records(batch)


def prepare(name: FaultName, pipeline: Pipeline, cluster: Cluster) -> Fault:
    """The fault, for the part that forwards to audit; PipelineRefused where it cannot be had."""
    part = ADAPTER if pipeline.mode is Mode.ADAPTER else SERVICE
    if name is FaultName.STALL:
        return Stall(pipeline, part)
    if name is FaultName.CRASH:
        return Crash(pipeline, part)
    if name is FaultName.LOST:
        return Lost(pipeline, cluster)
    if name is FaultName.HANG:
        return Hang(pipeline, cluster, part)
    return Dup(pipeline, cluster)


def running_pid(pipeline: Pipeline, part: str) -> int:
    """The process of a part on this machine."""
    files = PartFiles(pipeline.checkpoint, part)
    state = files.read()
    if state is None or not files.is_running():
        raise PipelineRefused(f"the {part} of {pipeline.name!r} is not running on {pipeline.checkpoint}")
    try:
        os.kill(state.pid, 0)
    except ProcessLookupError:
        raise PipelineRefused(f"the {part} of {pipeline.name!r} runs on another machine") from None
    return state.pid


def command_of(pid: int, pipeline: Pipeline, part: str) -> list[str]:
    """How to start a process again as it was, that part alone; where the system does not tell, as it comes."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().rstrip("\0").split("\0")
    except (OSError, UnicodeDecodeError):
        words = [sys.executable, "-m", "holdfast", "pipeline", "run", str(pipeline.path)]
    return words if "--only" in words else [*words, "--only", part]


def working_directory(pid: int) -> Path | None:
    """Where it runs; None where the system does not tell."""
    try:
        return Path(f"/proc/{pid}/cwd").readlink()
    except OSError:
        return None
