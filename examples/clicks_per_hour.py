"""Clicks per user per hour, counted exactly once although the counting process is killed twice.

    python -m examples.clicks_per_hour [--clicks N]

A click is a user and a time. The counts go to another topic, under the key "user hour": the newest value of a key
is its count. New counts and the position in the clicks are one transaction. A process that starts takes over the
transactional id, which aborts what the one before left open, and then reads the committed counts back: they
belong to the committed position. Nothing is counted twice, and nothing is left out.
"""

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from rich.console import Console
from rich.table import Table

from examples.server import expect, holdfast
from examples.topics import create, fill, read_committed, wait_until_read
from examples.worker import HOLDING, Worker, hold

GROUP: Final = "counter"
CLICKS_TOPIC: Final = "clicks"
COUNTS_TOPIC: Final = "clicks-per-hour"
PARTITIONS: Final = 3
CLICKS: Final = 20_000
CLICKS_MIN: Final = 2_000
"""With fewer, nobody would be killed in time."""
USERS: Final = 20
DAY_S: Final = 86_400
SEED: Final = 7
BATCH_MAX: Final = 500
ANSWER_S_MAX: Final = 30.0
ROWS_SHOWN: Final = 5
KILLED_IN: Final = (2, 3)
"""The transactions, counted from each start, in which the process is killed."""
NEVER: Final = 0


def clicks(number: int) -> list[tuple[str, str]]:
    """Made-up clicks of one day, as keys and values."""
    chance = random.Random(SEED)
    midnight = int(datetime(2026, 1, 31, tzinfo=UTC).timestamp())
    made = []
    for _ in range(number):
        user = f"user-{chance.randrange(USERS):02}"
        made.append((user, json.dumps({"user": user, "time": midnight + chance.randrange(DAY_S)})))
    return made


def key_of(click: bytes | str) -> str:
    """The user and the hour that a click counts for."""
    fields = json.loads(click)
    return f"{fields['user']} {datetime.fromtimestamp(fields['time'], UTC):%Y-%m-%dT%H}"


def read_counts(address: str) -> Counter[str]:
    """The newest count of each key, of committed ones."""
    counts: Counter[str] = Counter()
    for message in read_committed(address, COUNTS_TOPIC):
        counts[message.key().decode()] = int(message.value())
    return counts


def work(address: str, hold_at: int) -> None:
    """Counts for ever; `hold_at` is the transaction that is left open, 0 for none."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": GROUP})
    # From here on nobody else can commit: what is read back now is what the committed position stands for.
    producer.init_transactions(ANSWER_S_MAX)
    counts = read_counts(address)
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(CLICKS_TOPIC, partition) for partition in range(PARTITIONS)])
    transactions = 0
    while True:
        messages = [each for each in consumer.consume(BATCH_MAX, timeout=0.2) if each.error() is None]
        if messages:
            transactions += 1
            count(messages, counts, consumer, producer, holds=transactions == hold_at)


def count(
    messages: list[Message], counts: Counter[str], consumer: Consumer, producer: Producer, *, holds: bool
) -> None:
    """One transaction: new counts, and the position behind the clicks that they count.

    An error ends the process: the next one begins where the last commit left off.
    """
    new = Counter(key_of(message.value()) for message in messages)
    counts += new
    producer.begin_transaction()
    for key in new:
        producer.produce(COUNTS_TOPIC, key=key, value=str(counts[key]))
    behind = {each.partition(): each.offset() + 1 for each in messages}
    positions = [TopicPartition(CLICKS_TOPIC, partition, offset) for partition, offset in behind.items()]
    producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), ANSWER_S_MAX)
    if holds:
        producer.flush(ANSWER_S_MAX)
        hold()
    producer.commit_transaction(ANSWER_S_MAX)


@contextmanager
def counter(address: str, hold_at: int) -> Iterator[Worker]:
    """A process that counts, killed at the end of the block."""
    worker = Worker("examples.clicks_per_hour", "--work", address, str(hold_at))
    try:
        yield worker
    finally:
        worker.stop()


def run(number: int) -> None:
    """The whole story."""
    made = clicks(number)
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-example-") as directory,
        holdfast(Path(directory), partitions=PARTITIONS) as address,
    ):
        create(address, CLICKS_TOPIC, COUNTS_TOPIC)
        fill(address, CLICKS_TOPIC, made)
        print(f"{number:,} clicks of {USERS} users")
        for hold_at in KILLED_IN:
            with counter(address, hold_at) as worker:
                worker.wait_for(HOLDING)
            print(f"the counter is killed in its transaction number {hold_at}")
        with counter(address, NEVER) as worker:
            wait_until_read(address, GROUP, CLICKS_TOPIC, worker)
        counts = read_counts(address)
    expected = Counter(key_of(click) for _, click in made)
    show(counts)
    expect(counts == expected, f"{counts.total():,} clicks were counted, and not as they were made")
    print("counts and clicks match: every click is counted once")


def show(counts: Counter[str]) -> None:
    """The busiest hours."""
    table = Table(title=f"clicks per user per hour: {ROWS_SHOWN} of {len(counts):,}")
    for heading in ("user", "hour", "clicks"):
        table.add_column(heading, justify="right" if heading == "clicks" else "left")
    for key, clicked in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:ROWS_SHOWN]:
        user, hour = key.split(" ")
        table.add_row(user, hour.replace("T", " ") + ":00", str(clicked))
    Console().print(table)


def main() -> int:
    """Exit code 0 if the counts are right."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clicks", type=int, default=CLICKS)
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        address, hold_at = options.work
        work(address, int(hold_at))
    else:
        if options.clicks < CLICKS_MIN:
            parser.error(f"at least {CLICKS_MIN} clicks are needed")
        run(options.clicks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
