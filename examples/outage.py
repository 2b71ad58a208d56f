"""A delete while one of three replicas is away: compaction holds it, and cleans up when the replica is back.

Run it with `python -m examples.outage`; `make demo` runs it too. The store of node 3 is really taken away (its
directory is moved), and the key is really deleted, compacted and cleaned up, by `holdfast keeper run`. In the end the
model tells what becomes of the same story under Kafka's rules.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from examples.server import ExampleError, expect, holdfast
from holdfast.client.admin import find_address, get_json
from holdfast.lab import account, library

TOPIC: Final = "customers"
RETENTION_MS: Final = 500
SETTINGS: Final = """\
return_seconds = 0.2
[keeper]
round_seconds = 86400
settle_ms_max = 0
"""
WAIT_S_MAX: Final = 60.0
GROUP: Final = {
    "group.id": "outage",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "log_level": 0,
}

console = Console(highlight=False, soft_wrap=True)
Rows = list[tuple[int, str, str | None]]


class Story:
    """One Holdfast with three nodes, stopped and started as the story wants it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.store = self.data / "stores" / "3"
        self.taken = directory / "store-3-taken-away"
        (directory / "settings.toml").write_text(SETTINGS)
        self.options = ("--nodes", "3", "--config", str(directory / "settings.toml"))

    def keep(self) -> None:
        """One round of upkeep, by hand."""
        command = [sys.executable, "-m", "holdfast", "keeper", "run", "--once", "--data", str(self.data)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S_MAX)
        expect(done.returncode == 0, f"the keeper failed: {done.stderr.strip()}")

    def phase(self, store: int) -> str:
        """Where a store stands, as `holdfast store list` says."""
        stores = get_json(find_address(self.data), "/stores")["stores"]
        return str(next(each["phase"] for each in stores if each["store"] == store))

    def wait_for(self, store: int, phase: str) -> None:
        """Until a store has come so far."""
        deadline = time.monotonic() + WAIT_S_MAX
        while self.phase(store) != phase:
            expect(time.monotonic() < deadline, f"store {store} is {self.phase(store)}, not {phase}")
            time.sleep(0.05)


def create(address: str) -> None:
    """A compacted topic that keeps tombstones for half a second."""
    configs = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0",
        "delete.retention.ms": str(RETENTION_MS),
    }
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, 1, 3, config=configs)])[TOPIC].result(WAIT_S_MAX)


def write(address: str, key: str, value: str | None) -> None:
    """One record; without a value it is a delete."""
    producer = Producer({"bootstrap.servers": address, "log_level": 0})
    producer.produce(TOPIC, key=key, value=value)
    expect(producer.flush(WAIT_S_MAX) == 0, "a record was not acknowledged")


def read(address: str) -> Rows:
    """Everything that the topic still holds."""
    rows: Rows = []
    consumer = Consumer(GROUP | {"bootstrap.servers": address})
    try:
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(WAIT_S_MAX)
            if message is None:
                raise ExampleError("the consumer was not answered")
            if message.error() is None:
                value = message.value()
                rows.append((message.offset(), message.key().decode(), value and value.decode()))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return rows
            else:
                raise KafkaException(message.error())
    finally:
        consumer.close()


def lead(data: Path, node: int) -> None:
    """Let a node lead, so that consumers read its replica."""
    command = [sys.executable, "-m", "holdfast", "topic", "lead", TOPIC, str(node), "--data", str(data)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S_MAX)
    expect(done.returncode == 0, done.stderr.strip())


def tell(what: str, rows: Rows | None = None) -> None:
    """One line of the story, and what the topic holds."""
    console.print(f"[green]✔[/] {what}")
    for offset, key, value in rows or []:
        console.print(f"    offset {offset}: {key} " + ("[red]deleted[/]" if value is None else f"= {value}"))


def play(directory: Path) -> None:
    """The story on Holdfast."""
    story = Story(directory)
    with holdfast(directory, options=story.options) as address:
        create(address)
        write(address, "ada", "ada@example.org")
        write(address, "bob", "bob@example.org")
        story.keep()
        tell("three replicas hold two customers, compacted", read(address))
    shutil.move(story.store, story.taken)
    with holdfast(directory, options=story.options) as address:
        story.wait_for(3, "away")
        write(address, "ada", None)
        tell("the store of node 3 is taken away; ada is deleted while it is gone")
        for _ in range(3):
            story.keep()
            time.sleep(2 * RETENTION_MS / 1000)
            write(address, "bob", "bob@example.com")
        held = read(address)
        expect((2, "ada", None) in held, f"the delete is gone: {held}")
        tell(
            "three rounds of compaction, and delete.retention.ms has passed thrice: the delete is held", held
        )
        shutil.move(story.taken, story.store)
        story.keep()
        story.wait_for(3, "in sync")
        tell("the store is back: it was verified, caught up, and is in sync")
        story.keep()
        time.sleep(2 * RETENTION_MS / 1000)
        story.keep()
        lead(story.data, 3)
        rows = read(address)
        expect([key for _, key, _ in rows] == ["bob"], f"node 3 shows {rows}")
        tell("cleanup has resumed: read from node 3, ada is gone, and so is her delete", rows)


def compare() -> None:
    """The same story in the model, under Kafka's rules."""
    told = account.begin(library.load("tombstone", replicas=None), policy="kafka")
    for _ in account.advance(told):
        pass
    expect(not told.agreed, "the model of Kafka should have lost the delete")
    console.print(
        "[yellow]✘[/] the same story under Kafka's rules: [bold]holdfast lab run tombstone --policy kafka[/]"
    )
    for finding in told.as_json()["evidence"]:
        console.print(f"    replica {finding['replica']}: {finding['what']}")


def run() -> None:
    """Both."""
    with tempfile.TemporaryDirectory(prefix="holdfast-outage-") as directory:
        play(Path(directory))
    compare()


def main() -> int:
    """Exit code 0 if the delete held, 1 if not."""
    try:
        run()
    except ExampleError as error:
        console.print(f"[red]the example failed:[/] {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
