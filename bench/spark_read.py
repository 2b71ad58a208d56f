"""Reading a topic into Spark against one confluent-kafka consumer that reads it into Python.

Run with `python -m bench.spark_read`. Both read the same two partitions of 100-byte values from the same
Holdfast process, from beginning to end, every round. The Spark side makes every column of every row and
hands it to Spark's `noop` sink; the consumer takes key and value of every message, in batches.
"""

import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from pyspark.sql import DataFrame

from bench.report import compare, publish
from holdfast.spark.session import spark_session

TOPIC = "bench"
PARTITIONS = 2
RECORDS = 2_000_000
VALUE_BYTES = 100
KEYS = 2_000_000
ROUNDS = 5
SEED = 1
SILENCE_S_MAX = 30.0

GOALS = {"all columns": 1.0}


def main() -> int:
    """Measure, and say whether the goal was reached."""
    with tempfile.TemporaryDirectory() as directory, holdfast(Path(directory)) as address:
        fill(address)
        spark = spark_session("bench", master=f"local[{PARTITIONS}]")
        reader = spark.read.format("holdfast").option("bootstrap", address).option("topic", TOPIC)
        every = reader.load()
        narrow = reader.option("columns", "key,offset").load()
        assert every.count() == consume(address) == RECORDS
        figures = compare(
            lambda: consume(address),
            {"all columns": lambda: drain(every), "key and offset": lambda: drain(narrow)},
            rounds=ROUNDS,
            amount=RECORDS / 1e6,
            unit="M records/s",
            goals=GOALS,
        )
        spark.stop()
    return publish("spark_read", figures)


@contextmanager
def holdfast(directory: Path) -> Iterator[str]:
    """A Holdfast process; yields its address."""
    command = [sys.executable, "-m", "holdfast", "up", "--data", str(directory / "data")]
    command += ["--listen", "127.0.0.1:0", "--partitions", str(PARTITIONS)]
    with (directory / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
    assert server.stdout is not None
    try:
        found = re.search(r"listening on (\S+:\d+)", server.stdout.readline().decode())
        assert found is not None, (directory / "log").read_text()
        yield found[1]
    finally:
        server.terminate()
        server.wait(30)
        server.stdout.close()


def fill(address: str, *, records: int = RECORDS, value_bytes: int = VALUE_BYTES) -> None:
    """Random keys and values, half to each partition, in batches as a producer makes them."""
    chance = random.Random(SEED)
    values = [chance.randbytes(value_bytes) for _ in range(1_000)]
    producer = Producer(
        {"bootstrap.servers": address, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000}
    )
    for number in range(records):
        key = b"key-%012d" % chance.randrange(KEYS)
        producer.produce(TOPIC, key=key, value=values[number % 1_000], partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.poll(0)
            while len(producer) > 500_000:
                producer.poll(0.01)
    assert producer.flush(SILENCE_S_MAX) == 0


def consume(address: str) -> int:
    """Reads the topic with a consumer; returns the number of records."""
    settings = {"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False}
    # As librdkafka comes, it pauses for a second whenever 100,000 messages wait: half of this rate.
    tuned = {"queued.min.messages": 1_000_000, "fetch.queue.backoff.ms": 10}
    consumer = Consumer(settings | tuned)
    taken = 0
    try:
        consumer.assign([TopicPartition(TOPIC, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
        while taken < RECORDS:
            messages = consumer.consume(10_000, timeout=SILENCE_S_MAX)
            assert messages, "the consumer was starved"
            for message in messages:
                if message.error() is not None:
                    raise KafkaException(message.error())
                message.key(), message.value()
            taken += len(messages)
    finally:
        consumer.close()
    return taken


def drain(frame: DataFrame) -> None:
    """Has Spark make every row, and keep none."""
    frame.write.format("noop").mode("overwrite").save()


if __name__ == "__main__":
    sys.exit(main())
