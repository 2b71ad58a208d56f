"""The doctor beside the guard: examinations take their time, and the guard must go on looking meanwhile."""

import queue
import threading

from holdfast.client.cluster import Cluster, Topic
from holdfast.client.endpoint import Endpoint
from holdfast.doctor.cluster import Chosen, examine_topics
from holdfast.doctor.examine import Examination
from holdfast.doctor.live import Meter
from holdfast.errors import HoldfastError, UnknownTopicOrPartition
from holdfast.guard.decide import Examine
from holdfast.guard.sight import Verdict

WAIT_SECONDS_MAX = 60.0


class BackgroundDoctor:
    """Implements `run.Doctor`: one examination after the other, on connections of its own, ended with the process."""

    def __init__(self, endpoint: Endpoint, *, answer_seconds_max: float) -> None:
        self._endpoint = endpoint
        self._answer_seconds_max = answer_seconds_max
        self._asked: queue.SimpleQueue[Examine] = queue.SimpleQueue()
        self._found: queue.SimpleQueue[Verdict] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def begin(self, step: Examine) -> None:
        """Stand in line."""
        self._asked.put(step)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="doctor", daemon=True)
            self._thread.start()

    def collect(self) -> list[Verdict]:
        """In the order in which they were found."""
        found = []
        while not self._found.empty():
            found.append(self._found.get())
        return found

    def _work(self) -> None:
        while True:
            step = self._asked.get()
            try:
                against = self._examine(step)
            except HoldfastError as failure:
                against = f"not examined: {failure}"
            self._found.put(
                Verdict(topic=step.topic, partition=step.partition, asked_ms=step.asked_ms, against=against)
            )

    def _examine(self, step: Examine) -> str | None:
        seconds = self._answer_seconds_max
        with Cluster(
            self._endpoint, client_id="holdfast-guard", timeout=seconds, patience_s=seconds
        ) as cluster:
            whole = cluster.topic(step.topic)
            if step.partition not in whole.partitions:
                raise UnknownTopicOrPartition(f"{step.topic} has no partition {step.partition}")
            part = Topic(name=whole.name, partitions={step.partition: whole.partitions[step.partition]})
            chosen = Chosen(topics=(part,), not_compacted=())
            (examined,) = examine_topics(cluster, chosen, meter=Meter(), wait_s_max=WAIT_SECONDS_MAX)
            return _against(examined)


def _against(examined: Examination) -> str | None:
    if examined.findings:
        first = examined.findings[0]
        more = f" (and {len(examined.findings) - 1} more)" if len(examined.findings) > 1 else ""
        return f"replica {first.replica} differs: {first.what}{more}; {first.advice}"
    if examined.not_examined:
        first_missed = examined.not_examined[0]
        return f"replica {first_missed.replica} was not examined: {first_missed.why}"
    return None
