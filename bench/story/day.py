"""A day in one delivery mode: a producer, a pipeline on Spark, and somebody who breaks things at given moments.

The faults are the same in every mode: sends to the audit topic are refused for a while, the log is killed and comes
back, and processes of the pipeline are killed in the middle of a micro-batch. Whatever ends is started again.
"""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.story.failure import StoryFailed
from bench.story.parts import Part
from holdfast.client.cluster import Cluster
from holdfast.client.groups import fetch_group_offsets
from holdfast.client.offsets import LATEST, list_offsets
from holdfast.client.topics import alter_configs, create_topic
from holdfast.errors import ConnectionFailed
from holdfast.pipelines.config import EndState, Mode, Pipeline
from holdfast.pipelines.loading import load_pipeline
from holdfast.pipelines.status import look_at, parts_of
from tests.process import HoldfastProcess

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "compliance"
PARTITIONS: Final = 4
BATCHES: Final = 40
BATCH_MIN: Final = 500
"""Micro-batches are many, so that kills find some of them at work, and so few that what each costs does not decide."""
MOMENTS: Final = (0.1, 0.3, 0.5, 0.7)
"""Of what the service has come past: when the next thing is broken."""
REFUSAL_S: Final = 2.5
OUTAGE_S: Final = 2.0
POLL_S: Final = 0.1
SAMPLE_S: Final = 0.5
BATCH_S_MAX: Final = 60.0

Tell = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class Ran:
    """What there is to say of a day."""

    mode: Mode
    pipeline: Pipeline
    seconds: float = 0.0
    undisturbed_per_s: float = 0.0
    """Messages per second after the last fault."""
    restarts: int = 0
    given_up: int = 0
    """Sends that were tried eleven times in vain."""
    faults: list[tuple[float, str]] = field(default_factory=list)
    samples: list[tuple[float, int]] = field(default_factory=list)
    """Seconds, and how many messages the service has come past."""


class StoryDay:
    """Runs it; everything that it starts ends with it."""

    def __init__(
        self, holdfast: HoldfastProcess, directory: Path, mode: Mode, messages: int, *, logs: Path, tell: Tell
    ) -> None:
        self.mode = mode
        self._holdfast = holdfast
        self._messages = messages
        self._tell = tell
        self._logs = logs
        self._pipeline = write_pipeline(directory, mode, holdfast.bootstrap, messages)
        self._parts = {
            name: Part(self._pipeline, name, logs / f"{mode.value}-{name}.log")
            for name in parts_of(self._pipeline)
        }
        self._ran = Ran(mode=mode, pipeline=self._pipeline)
        self._began = 0.0

    def run(self, seconds_max: float) -> Ran:
        """From the first message to the last that has ended; StoryFailed if that takes too long."""
        with Cluster(self._holdfast.bootstrap) as cluster, self._producing(cluster) as producer:
            self._began = time.monotonic()
            deadline = self._began + seconds_max
            try:
                for part in self._parts.values():
                    part.start()
                faults: list[tuple[float, Callable[[Cluster], None]]] = list(
                    zip(MOMENTS, self._faults(), strict=True)
                )
                while faults or not self._is_done(cluster, producer):
                    if time.monotonic() > deadline:
                        raise StoryFailed(f"{self.mode.value}: not done after {seconds_max:.0f} s")
                    self._tend(producer)
                    passed = self._sample(cluster)
                    if faults and passed >= faults[0][0] * self._messages:
                        faults.pop(0)[1](cluster)
                    time.sleep(POLL_S)
                self._finish()
            finally:
                for part in self._parts.values():
                    part.end()
        return self._ran

    def _faults(self) -> tuple[Callable[[Cluster], None], ...]:
        forwarder = list(self._parts)[-1]
        return (
            lambda cluster: self._kill_part(cluster, "service"),
            self._refuse_audit,
            self._kill_log,
            lambda cluster: self._kill_part(cluster, forwarder),
        )

    def _kill_part(self, cluster: Cluster, name: str) -> None:
        """In the middle of a micro-batch: its first records are in the log just now."""
        part = self._parts[name]
        topic = self._pipeline.topics[EndState.QUALIFIED] if name == "service" else self._pipeline.audit
        before, deadline = _written(cluster, topic), time.monotonic() + BATCH_S_MAX
        while _written(cluster, topic) == before and time.monotonic() < deadline:
            part.tend()
        part.kill()
        self._note(f"{name} killed")
        part.start_again()

    def _refuse_audit(self, cluster: Cluster) -> None:
        """More replicas are asked for than there are: every send to the topic is refused, and may be tried again."""
        service, before = self._parts["service"], self._parts["service"].given_up_now
        # Two sends give up some time; how soon a batch comes to its sends depends on the machine.
        deadline = time.monotonic() + (BATCH_S_MAX if self.mode is Mode.DUAL else REFUSAL_S)
        self._note("audit refuses")
        alter_configs(cluster, self._pipeline.audit, put={"min.insync.replicas": "2"}, unset=[])
        while service.given_up_now == before and time.monotonic() < deadline:
            service.tend()
            time.sleep(POLL_S)
        alter_configs(cluster, self._pipeline.audit, put={}, unset=["min.insync.replicas"])
        if self.mode is Mode.DUAL and service.given_up_now == before:
            raise StoryFailed("dual gave nothing up, although nothing could be sent")

    def _kill_log(self, cluster: Cluster) -> None:
        self._holdfast.kill()
        self._note("log killed")
        time.sleep(OUTAGE_S)
        self._holdfast.start()
        deadline = time.monotonic() + BATCH_S_MAX
        while True:
            # What is known of the log that was killed has to be found anew.
            try:
                self._sample(cluster)
                _written(cluster, self._pipeline.ingest)
                return
            except ConnectionFailed:
                if time.monotonic() > deadline:
                    raise

    def _note(self, fault: str) -> None:
        seconds = time.monotonic() - self._began
        self._ran.faults.append((seconds, fault))
        self._tell(f"{self.mode.value}: {seconds:5.1f} s  {fault}")

    def _tend(self, producer: "subprocess.Popen[bytes]") -> None:
        for part in self._parts.values():
            if part.tend():
                self._note(f"{part.name} has ended by itself, and is started again")
        if producer.poll():
            raise StoryFailed(f"the producer ended with code {producer.returncode}: see {self._logs}")

    def _sample(self, cluster: Cluster) -> int:
        """How far the service is; noted now and then."""
        passed = sum(fetch_group_offsets(cluster, self._pipeline.service_group).values())
        seconds = time.monotonic() - self._began
        if not self._ran.samples or seconds - self._ran.samples[-1][0] >= SAMPLE_S:
            self._ran.samples.append((seconds, passed))
        return passed

    def _is_done(self, cluster: Cluster, producer: "subprocess.Popen[bytes]") -> bool:
        if producer.poll() is None or _written(cluster, self._pipeline.ingest) < self._messages:
            return False
        if sum(fetch_group_offsets(cluster, self._pipeline.service_group).values()) < self._messages:
            return False
        return all(lag.lag == 0 for part in look_at(self._pipeline, cluster) for lag in part.lags)

    def _finish(self) -> None:
        ran = self._ran
        ran.seconds = time.monotonic() - self._began
        ran.samples.append((ran.seconds, self._messages))
        ran.undisturbed_per_s = undisturbed(ran.samples, ran.faults[-1][0])
        for part in self._parts.values():
            part.stop()
            ran.restarts += part.restarts
            ran.given_up += sum(part.given_up.values())
        self._tell(
            f"{self.mode.value}: {ran.seconds:5.1f} s  all {self._messages:,} messages taken: "
            f"{self._messages / ran.seconds:,.0f} a second with all that was broken, "
            f"{ran.undisturbed_per_s:,.0f} after it; {ran.given_up:,} sends given up"
        )

    @contextmanager
    def _producing(self, cluster: Cluster) -> "Iterator[subprocess.Popen[bytes]]":
        """The topics, and a process that fills the first of them."""
        # The audit topic has the log's time, not the producer's: so it can be told when a message has arrived there.
        stamped = {"message.timestamp.type": "LogAppendTime"}
        create_topic(cluster, self._pipeline.ingest, partitions=PARTITIONS)
        for topic in self._pipeline.outputs:
            configs = stamped if topic == self._pipeline.audit else {}
            create_topic(cluster, topic, partitions=PARTITIONS, configs=configs)
        command = [sys.executable, "-m", "examples.compliance.generator", "--topic", self._pipeline.ingest]
        command += ["--bootstrap", self._holdfast.bootstrap, "--messages", str(self._messages)]
        with (self._logs / f"{self.mode.value}-producer.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, process_group=0)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def write_pipeline(directory: Path, mode: Mode, bootstrap: str, messages: int) -> Pipeline:
    """The example's pipeline with topics and a mode of its own; its checks come along."""
    changes = {
        "payments": mode.value,
        "127.0.0.1:9092": bootstrap,
        "delivery: transaction": f"delivery: {mode.value}",
        "interval: 1s": "interval: 100ms",
        "records: 50_000": f"records: {max(BATCH_MIN, messages // BATCHES)}",
        "failed: 1%": "failed: 2%",
    }
    if mode is Mode.DUAL:
        # What two sends have doubled nobody can take back: a day of theirs can only be closed by bearing with it.
        changes["failed: 1%"] = "failed: 2%\n  duplicate: 20%"
    text = (EXAMPLE / "pipeline.yaml").read_text(encoding="utf-8")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    target = directory / mode.value
    with suppress(FileNotFoundError):
        shutil.rmtree(target)
    target.mkdir(parents=True)
    shutil.copy(EXAMPLE / "checks.py", target)
    (target / "pipeline.yaml").write_text(text, encoding="utf-8")
    return load_pipeline(target / "pipeline.yaml")


def undisturbed(samples: list[tuple[float, int]], after_s: float) -> float:
    """The rate from the first batch after a moment to the end."""
    base = next((passed for seconds, passed in reversed(samples) if seconds <= after_s), 0)
    later = [(seconds, passed) for seconds, passed in samples if seconds > after_s and passed > base]
    if not later or later[-1][0] <= later[0][0]:
        return 0.0
    return (later[-1][1] - later[0][1]) / (later[-1][0] - later[0][0])


def _written(cluster: Cluster, topic: str) -> int:
    """Records of a topic, decided or not."""
    partitions = cluster.topic(topic).partitions
    return sum(list_offsets(cluster, topic, dict.fromkeys(partitions, LATEST)).values())
