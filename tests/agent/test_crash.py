"""SIGKILL, torn tails, lost and stale control planes: nothing acknowledged is lost, nothing unsent appears."""

import random
import shutil
import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from tests.agent import requests
from tests.agent.batches import batch
from tests.agent.raw import InitProducerIdRequest, RawClient
from tests.process import HoldfastProcess

SECONDS_MAX = 30.0
SEED = 20_240_607
KILLS = 5
TOPIC = "t"
PARTITIONS = 2


@dataclass
class History:
    """What one producer did: everything sent, and the place of everything acknowledged."""

    partition: int
    idempotent: bool
    sent: list[bytes] = field(default_factory=list)
    acknowledged: dict[bytes, int] = field(default_factory=dict)


class Load:
    """A librdkafka producer that sends numbered records until it is told to stop."""

    def __init__(self, bootstrap: str, name: str, *, partition: int, idempotent: bool) -> None:
        self.history = History(partition, idempotent)
        self._name = name
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": idempotent,
                "linger.ms": 1,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 50,
                "message.timeout.ms": 60_000,
                "log_level": 0,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> History:
        """Stop sending and wait until everything sent is acknowledged or has failed."""
        self._stop.set()
        self._thread.join(SECONDS_MAX)
        assert self._producer.flush(SECONDS_MAX) == 0
        return self.history

    def _run(self) -> None:
        while not self._stop.is_set():
            value = f"{self._name}-{len(self.history.sent)}".encode()
            self.history.sent.append(value)
            try:
                self._producer.produce(
                    TOPIC, value, partition=self.history.partition, on_delivery=self._delivered
                )
            except BufferError:
                self.history.sent.pop()
            self._producer.poll(0.001)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.history.acknowledged[message.value()] = message.offset()


def read_all(bootstrap: str, partition: int) -> list[bytes]:
    """The values of a partition from offset 0 to its end, without a hole."""
    place = confluent_kafka.TopicPartition(TOPIC, partition, 0)
    config = {"bootstrap.servers": bootstrap, "group.id": "checker", "enable.auto.commit": False}
    with closing(confluent_kafka.Consumer(config)) as consumer:
        _, end = consumer.get_watermark_offsets(place, SECONDS_MAX)
        consumer.assign([place])
        values: list[bytes] = []
        deadline = time.monotonic() + SECONDS_MAX
        while len(values) < end and time.monotonic() < deadline:
            for message in consumer.consume(10_000, timeout=0.5):
                assert message.error() is None, message.error()
                assert message.offset() == len(values)
                values.append(message.value())
    assert len(values) == end
    return values


def check(history: History, log: list[bytes], name: str) -> None:
    """Acknowledged records are where they were said to be; an idempotent producer's once and in order."""
    mine = [value for value in log if value.startswith(name.encode() + b"-")]
    for value, offset in history.acknowledged.items():
        assert log[offset] == value
    assert set(mine) <= set(history.sent)
    if history.idempotent:
        assert max(Counter(mine).values(), default=1) == 1
        assert mine == history.sent[: len(mine)]


def acknowledged(loads: list[Load]) -> int:
    return sum(len(load.history.acknowledged) for load in loads)


def wait_for(loads: list[Load], more: int) -> None:
    """Wait until so many more records are acknowledged."""
    goal = acknowledged(loads) + more
    deadline = time.monotonic() + SECONDS_MAX
    while acknowledged(loads) < goal:
        assert time.monotonic() < deadline, "producers are stuck"
        time.sleep(0.002)


def test_kill_under_load_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """Killed at random moments and started again under two kinds of producers on two partitions."""
    chance = random.Random(SEED)
    with HoldfastProcess(tmp_path / "data", "--partitions", str(PARTITIONS)) as process:
        loads = {
            f"p{partition}-{'once' if idempotent else 'plain'}": Load(
                process.bootstrap,
                f"p{partition}-{'once' if idempotent else 'plain'}",
                partition=partition,
                idempotent=idempotent,
            )
            for partition in range(PARTITIONS)
            for idempotent in (True, False)
        }
        for load in loads.values():
            load.start()
        for _ in range(KILLS):
            wait_for(list(loads.values()), more=chance.randrange(50, 2000))
            process.kill()
            process.start()
        wait_for(list(loads.values()), more=100)
        histories = {name: load.finish() for name, load in loads.items()}
        logs = [read_all(process.bootstrap, partition) for partition in range(PARTITIONS)]
        for name, history in histories.items():
            check(history, logs[history.partition], name)
        sent = {value for history in histories.values() for value in history.sent}
        assert {value for log in logs for value in log} <= sent, "nothing that was never sent"
        assert process.log == "", "a crash is nothing to complain about"


class Session:
    """Raw requests against a process: a topic, an idempotent producer, a group."""

    def __init__(self, process: HoldfastProcess) -> None:
        self.process = process

    def call(self, message: Any) -> Any:
        with RawClient(self.process.port) as client:
            return client.call(message)

    def produce(self, data: bytes) -> int:
        """The base offset; an error is an error of the test."""
        part = self.call(requests.produce(TOPIC, {0: data})).responses[0].partition_responses[0]
        assert part.error_code == 0, part
        return int(part.base_offset)

    def allot_producer_id(self) -> int:
        answer = self.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1, version=1))
        return int(answer.producer_id)

    def stored(self) -> bytes:
        """All bytes of the partition."""
        part = (
            self.call(requests.fetch(TOPIC, {0: 0}, partition_bytes_max=1 << 26)).responses[0].partitions[0]
        )
        assert part.error_code == 0
        return bytes(part.records or b"")

    def position(self, group: str) -> tuple[int, str]:
        part = self.call(requests.fetch_offset(group, TOPIC)).groups[0].topics[0].partitions[0]
        return int(part.committed_offset), str(part.metadata)


def journal(data: Path) -> Path:
    (file,) = (data / "stores" / "1" / "journal").iterdir()
    return file


def remove_control_plane(data: Path, *, also_wal: bool = True) -> None:
    for file in data.glob("control.db*" if also_wal else "control.db"):
        file.unlink()


@pytest.mark.parametrize("keeps_control_plane", [True, False])
def test_torn_tail_is_cut_off_wherever_it_was_torn(tmp_path: Path, keeps_control_plane: bool) -> None:
    """A crash in the middle of a frame: what was acknowledged before stays, the rest never was."""
    data = tmp_path / "data"
    chance = random.Random(SEED)
    with HoldfastProcess(data) as process:
        session = Session(process)
        session.call(requests.metadata(TOPIC))
        assert [session.produce(batch(b"kept", b"too")), session.produce(batch(b"kept"))] == [0, 2]
        process.kill()
        end = journal(data).stat().st_size
        saved = tmp_path / "control"
        saved.mkdir()
        for file in data.glob("control.db*"):
            shutil.copy(file, saved)
        process.start()
        assert session.produce(batch(b"in flight", bytes(2000))) == 3
        process.kill()
        whole = journal(data).read_bytes()
        cuts = sorted({end + 1, len(whole) - 1, *(chance.randrange(end + 1, len(whole)) for _ in range(4))})
        for cut in cuts:
            journal(data).write_bytes(whole[:cut])
            remove_control_plane(data)
            if keeps_control_plane:
                for file in saved.iterdir():
                    shutil.copy(file, data)
            process.start()
            stored = session.stored()
            assert stored.count(b"kept") == 2
            assert b"in flight" not in stored
            assert session.produce(batch(b"after")) == 3
            process.kill()


def test_torn_bytes_in_the_last_frame_are_cut_off(tmp_path: Path) -> None:
    """The file has its length but not all of its bytes, as after a power cut: the CRCs tell."""
    data = tmp_path / "data"
    with HoldfastProcess(data) as process:
        session = Session(process)
        session.call(requests.metadata(TOPIC))
        session.produce(batch(b"kept"))
        process.kill()
        end = journal(data).stat().st_size
        remove_control_plane(data)
        process.start()
        session.produce(batch(b"in flight", bytes(9000)))
        process.kill()
        whole = journal(data).read_bytes()
        journal(data).write_bytes(whole[: end + 5000] + bytes(len(whole) - end - 5000))
        remove_control_plane(data)
        process.start()
        assert b"in flight" not in session.stored()
        assert session.produce(batch(b"after")) == 1


def test_acknowledged_bytes_that_are_gone_are_not_passed_over(tmp_path: Path) -> None:
    """The control plane knows what was acknowledged: a journal that lacks it is refused, not shortened."""
    data = tmp_path / "data"
    with HoldfastProcess(data) as process:
        session = Session(process)
        session.call(requests.metadata(TOPIC))
        session.produce(batch(b"acknowledged"))
        process.stop()
        whole = journal(data).read_bytes()
        journal(data).write_bytes(whole[:-10])
        with pytest.raises(AssertionError, match="were acknowledged: restore it"):
            process.start()
        assert journal(data).read_bytes() == whole[:-10], "nothing is changed on the way out"
        journal(data).write_bytes(whole)
        process.start()
        assert b"acknowledged" in session.stored()


@pytest.mark.parametrize(("ending", "also_wal"), [("stop", True), ("kill", True), ("kill", False)])
def test_lost_control_plane_is_made_anew_from_the_journal(
    tmp_path: Path, ending: str, also_wal: bool
) -> None:
    """Topics, configs, offsets, producers' sequences, producer ids and groups: all of it is in the frames."""
    data = tmp_path / "data"
    with HoldfastProcess(data) as process:
        session = Session(process)
        session.call(requests.create_topic(TOPIC, partitions=3, configs={"max.message.bytes": "5000"}))
        producer = session.allot_producer_id()
        repeated = batch(b"a", b"b", producer_id=producer)
        assert session.produce(batch(b"plain")) == 0
        assert session.produce(repeated) == 1
        session.call(requests.commit_offset("g", TOPIC, 2, metadata="note"))
        before = session.stored()
        described = session.call(requests.metadata(TOPIC, version=10)).topics[0]
        getattr(process, ending)()
        remove_control_plane(data, also_wal=also_wal)
        process.start()
        assert session.stored() == before
        assert repr(session.call(requests.metadata(TOPIC, version=10)).topics[0]) == repr(described)
        assert session.position("g") == (2, "note")
        assert session.produce(repeated) == 1, "the repeat is recognised"
        assert session.produce(batch(b"c", producer_id=producer, base_sequence=2)) == 3
        assert session.allot_producer_id() > producer
        too_large = requests.produce(TOPIC, {0: batch(bytes(5000))})
        assert session.call(too_large).responses[0].partition_responses[0].error_code == 10
        gap = requests.produce(TOPIC, {0: batch(b"d", producer_id=producer, base_sequence=9)})
        assert session.call(gap).responses[0].partition_responses[0].error_code == 45


def test_stale_control_plane_catches_up(tmp_path: Path) -> None:
    """A control plane from an older copy learns what it missed from the frames after its own."""
    data = tmp_path / "data"
    with HoldfastProcess(data) as process:
        session = Session(process)
        session.call(requests.metadata(TOPIC))
        producer = session.allot_producer_id()
        session.produce(batch(b"a", producer_id=producer))
        process.stop()
        shutil.copy(data / "control.db", tmp_path / "old.db")
        process.start()
        last = batch(b"b", producer_id=producer, base_sequence=1)
        assert session.produce(last) == 1
        session.call(requests.metadata("later"))
        session.call(requests.commit_offset("g", TOPIC, 2, metadata="note"))
        process.kill()
        remove_control_plane(data)
        shutil.copy(tmp_path / "old.db", data / "control.db")
        process.start()
        assert session.produce(last) == 1
        assert session.position("g") == (2, "note")
        assert session.call(requests.metadata("later", create=False)).topics[0].error_code == 0


def test_damaged_frame_in_the_middle_is_refused(tmp_path: Path) -> None:
    """Not a torn tail: something acknowledged is broken, and the position is named."""
    data = tmp_path / "data"
    with HoldfastProcess(data) as process:
        session = Session(process)
        session.call(requests.metadata(TOPIC))
        for value in (b"first", b"second", b"third"):
            session.produce(batch(value))
        process.kill()
        remove_control_plane(data)
        damaged = bytearray(journal(data).read_bytes())
        damaged[damaged.index(b"second")] ^= 1
        journal(data).write_bytes(damaged)
        with pytest.raises(AssertionError, match="damaged in the middle"):
            process.start()
        assert journal(data).read_bytes() == damaged
