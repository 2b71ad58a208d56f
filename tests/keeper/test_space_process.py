"""From outside: what is deleted is given back by `holdfast keeper run --once`, beside a server that may be paused."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from holdfast.store.segment import SegmentWriter, segment_file, segment_path
from tests.keeper.space import usage
from tests.process import HoldfastProcess

MB = 1 << 20
VALUE = bytes(100_000)
RECORDS = 500
KEEPER_SECONDS_MAX = 60.0


@contextmanager
def keeper(data: Path) -> Iterator[subprocess.Popen[str]]:
    """`holdfast keeper run --once`, which must end well."""
    command = [sys.executable, "-m", "holdfast", "keeper", "run", "--once", "--data", str(data)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
        output = process.communicate(timeout=KEEPER_SECONDS_MAX)[0]
        assert process.returncode == 0, output
    finally:
        process.kill()
        process.wait()


def run_keeper(data: Path) -> None:
    with keeper(data):
        pass


def produce(bootstrap: str, topic: str, count: int, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 50})
    for number in range(count):
        producer.produce(topic, value=value + b"%d" % number, partition=number % 2)
        producer.poll(0)
    assert producer.flush(30) == 0


def read(bootstrap: str, topic: str) -> list[bytes | None]:
    """All of partition 0."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0))
        return [message.value() for message in consumer.consume(end, 20)]
    finally:
        consumer.close()


def test_fifty_megabytes_come_and_go(tmp_path: Path) -> None:
    """Settled, some records deleted, then the topic: each time the stores shrink, and another topic stays as it is."""
    data = tmp_path / "data"
    config = tmp_path / "config.toml"
    config.write_text(
        "expire_seconds = 86400\n[keeper]\nsettle_ms_max = 0\nround_seconds = 86400.0\ncollect_seconds = 0.0\n"
    )
    with HoldfastProcess(data, "--nodes", "2", "--config", str(config)) as log:
        admin = AdminClient({"bootstrap.servers": log.bootstrap, "log_level": 0})
        for future in admin.create_topics([NewTopic("big", 2, 2), NewTopic("kept", 2, 2)]).values():
            future.result()
        produce(log.bootstrap, "kept", 10, b"kept")
        kept = read(log.bootstrap, "kept")
        assert len(kept) == 5
        produce(log.bootstrap, "big", RECORDS, VALUE)
        written = sum(usage(data).values())
        assert written > 2 * 50 * MB * 0.95
        run_keeper(data)
        settled = usage(data)
        assert settled["segments"] > 2 * 45 * MB, settled
        # Segments are as large as they are: those go that lie below as a whole.
        admin.delete_records([TopicPartition("big", 0, RECORDS // 2)])[
            TopicPartition("big", 0, RECORDS // 2)
        ].result()
        run_keeper(data)
        assert usage(data)["segments"] < 0.6 * settled["segments"]
        produce(log.bootstrap, "big", 180, VALUE)
        admin.delete_topics(["big"])["big"].result()
        os.kill(log.pid, signal.SIGSTOP)
        before = usage(data)
        with keeper(data) as process:
            # It asks, waits for the answer, and touches nothing meanwhile.
            time.sleep(1.5)
            assert process.poll() is None
            assert usage(data) == before
            os.kill(log.pid, signal.SIGCONT)
        # A journal ends with a round's first frame, and goes after two snapshots.
        for _ in range(2):
            run_keeper(data)
        assert sum(usage(data).values()) < MB, usage(data)
        for store in ("1", "2"):
            assert len(list((data / "stores" / store / "segments").iterdir())) == 1
        assert read(log.bootstrap, "kept") == kept
        log.kill()
        for file in data.glob("control.db*"):
            file.unlink()
        log.start()
        assert read(log.bootstrap, "kept") == kept
        assert log.stop() == 0, log.log
    # Without a server nobody reads, and nobody is waited for.
    orphan = segment_file(UUID(int=1), 0, 0, 1, "orphan")
    SegmentWriter(data / "stores" / "1", orphan).finish()
    run_keeper(data)
    assert not segment_path(data / "stores" / "1", orphan).parent.exists()
