"""Consume, transform, produce, exactly once: t1 goes to t2 or to t3, and a worker is killed on the way.

    python -m examples.exactly_once [--records N]

Two workers share the partitions of t1. Each record goes to t2 if its number is even and to t3 if it is odd. What
a worker produces and how far it has read are one transaction: both count, or neither does. One worker is
killed with SIGKILL when a transaction of its has everything but the commit; another one takes its place and
its transactional id, which aborts what the dead one left open. In the end t2 and t3 together hold what t1 holds.
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from examples.server import expect, holdfast
from examples.topics import create, fill, read_committed, wait_until_read
from examples.worker import HOLDING, READY, Worker, hold, say

MODULE: Final = "examples.exactly_once"
GROUP: Final = "movers"
PARTITIONS: Final = 4
RECORDS: Final = 20_000
RECORDS_MIN: Final = 2_000
"""With fewer, nobody would be killed in time."""
BATCH_MAX: Final = 100
ANSWER_S_MAX: Final = 30.0
HOLD_AT: Final = 3
"""The transaction in which the worker is killed."""


def work(address: str, name: str, hold_at: int) -> None:
    """Moves records for ever; `hold_at` is the transaction that is left open, 0 for none."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": GROUP,
            # Whoever comes in its place is given its partitions, without waiting for the dead one's session to end.
            "group.instance.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    producer = Producer({"bootstrap.servers": address, "transactional.id": name})
    producer.init_transactions(ANSWER_S_MAX)
    consumer.subscribe(["t1"], on_assign=lambda *_: say(READY))
    transactions = 0
    while True:
        messages = [each for each in consumer.consume(BATCH_MAX, timeout=0.2) if each.error() is None]
        if not messages:
            continue
        transactions += 1
        try:
            move(messages, consumer, producer, holds=transactions == hold_at)
        except KafkaException as failure:
            if not failure.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(ANSWER_S_MAX)
            rewind(consumer, messages)


def move(messages: list[Message], consumer: Consumer, producer: Producer, *, holds: bool) -> None:
    """One transaction: the records to where they belong, and the position behind the last of them."""
    producer.begin_transaction()
    for message in messages:
        topic = "t2" if int(message.value()) % 2 == 0 else "t3"
        producer.produce(topic, key=message.key(), value=message.value())
    behind = {each.partition(): each.offset() + 1 for each in messages}
    positions = [TopicPartition("t1", partition, offset) for partition, offset in behind.items()]
    producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), ANSWER_S_MAX)
    if holds:
        producer.flush(ANSWER_S_MAX)
        hold()
    producer.commit_transaction(ANSWER_S_MAX)


def rewind(consumer: Consumer, messages: list[Message]) -> None:
    """Back to where an aborted transaction began, in what is still this worker's to read."""
    mine = {place.partition for place in consumer.assignment()}
    first = {each.partition(): each.offset() for each in reversed(messages)}
    for partition in mine & first.keys():
        consumer.seek(TopicPartition("t1", partition, first[partition]))


def run(records: int) -> None:
    """The whole story."""
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-example-") as directory,
        holdfast(Path(directory), partitions=PARTITIONS) as address,
    ):
        create(address, "t1", "t2", "t3")
        workers = [
            Worker(MODULE, "--work", address, name, str(hold_at))
            for name, hold_at in (("worker-1", HOLD_AT), ("worker-2", 0))
        ]
        try:
            for worker in workers:
                worker.wait_for(READY)
            fill(address, "t1", ((f"key-{number % 97}", str(number)) for number in range(records)))
            print(f"t1 holds {records:,} records")
            workers[0].wait_for(HOLDING)
            workers[0].stop()
            print("worker-1 is killed in the middle of a transaction; another one takes its place")
            workers[0] = Worker(MODULE, "--work", address, "worker-1", "0")
            wait_until_read(address, GROUP, "t1", *workers)
        finally:
            for worker in workers:
                worker.stop()
        compare(address, records)


def compare(address: str, records: int) -> None:
    """Each record once, and where it belongs."""
    found: dict[str, Counter[int]] = {"t2": Counter(), "t3": Counter()}
    for message in read_committed(address, "t2", "t3"):
        found[message.topic()][int(message.value())] += 1
    print(f"t2 holds {found['t2'].total():,} and t3 {found['t3'].total():,} committed records")
    expect(found["t2"] == Counter(range(0, records, 2)), "t2 is not the even half of t1")
    expect(found["t3"] == Counter(range(1, records, 2)), "t3 is not the odd half of t1")
    print("input and output match: every record is there once")


def main() -> int:
    """Exit code 0 if input and output match."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        address, name, hold_at = options.work
        work(address, name, int(hold_at))
    else:
        if options.records < RECORDS_MIN:
            parser.error(f"at least {RECORDS_MIN} records are needed")
        run(options.records)
    return 0


if __name__ == "__main__":
    sys.exit(main())
