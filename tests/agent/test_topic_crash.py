"""SIGKILL while a topic is made, filled, emptied, configured and deleted: what was acknowledged holds."""

import random
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.records.build import read_records
from holdfast.records.walk import walk_valid
from tests.agent import requests
from tests.agent.batches import batch
from tests.agent.raw import RawClient
from tests.process import HoldfastProcess

SEED = 20_261_116
KILLS = 6
STEPS_MAX = 20_000
TOPIC = 2
SET = 0


@dataclass(frozen=True)
class Life:
    """All that a client can see of the topic; `values` from its offset 0 on."""

    exists: bool = False
    partitions: int = 0
    values: tuple[bytes, ...] = ()
    start: int = 0
    retention: str | None = None


def step(life: Life, chance: random.Random, number: int) -> tuple[Any, Life]:
    """A request, and the topic after it."""
    if not life.exists:
        return requests.create_topic("t"), Life(exists=True, partitions=1)
    kind = chance.choices(("produce", "empty", "configure", "grow", "delete"), (5, 2, 2, 1, 2))[0]
    if kind == "produce":
        value = b"%d" % number
        return requests.produce("t", {0: batch(value)}), replace(life, values=(*life.values, value))
    if kind == "empty":
        start = chance.randint(life.start, len(life.values))
        return requests.delete_records("t", {0: start}), replace(life, start=start)
    if kind == "configure":
        # Far away: nothing expires here by itself.
        retention = str(10**15 + number)
        change = requests.change_configs((TOPIC, "t", [("retention.ms", SET, retention)]))
        return change, replace(life, retention=retention)
    if kind == "grow":
        more = life.partitions + 1
        return requests.create_partitions(("t", more, None)), replace(life, partitions=more)
    return requests.delete_topics("t"), Life()


def seen(client: RawClient) -> Life:
    """The topic as it is."""
    topic = client.call(requests.metadata("t", create=False)).topics[0]
    if topic.error_code == 3:
        return Life()
    assert topic.error_code == 0
    start, end = (
        client.call(requests.list_offsets("t", {0: time})).topics[0].partitions[0].offset for time in (-2, -1)
    )
    values: list[bytes] = [b""] * start
    while len(values) < end:
        part = client.call(requests.fetch("t", {0: len(values)})).responses[0].partitions[0]
        assert part.error_code == 0
        values += read_values(bytes(part.records))
    (described,) = client.call(requests.describe_configs((TOPIC, "t", ["retention.ms"]))).results
    (config,) = described.configs
    retention = config.value if config.config_source == 1 else None
    return Life(True, len(topic.partitions), tuple(values), start, retention)


def read_values(data: bytes) -> list[bytes]:
    return [record.value or b"" for one in walk_valid(data) for record in read_records(one)]


def visible(life: Life) -> Life:
    """What a reader can tell: values below the log start are gone."""
    return replace(life, values=(b"",) * life.start + life.values[life.start :])


def test_killed_while_a_topic_changes(tmp_path: Path) -> None:
    """After each kill the topic is as acknowledged, or as the one step under way would make it; half the restarts
    have only the journals to go by."""
    chance = random.Random(SEED)
    number = 0
    life = Life()
    with HoldfastProcess(tmp_path / "data") as process:
        for kill in range(KILLS):
            timer = threading.Timer(chance.uniform(0.05, 0.4), process.kill)
            timer.start()
            planned = life
            with suppress(OSError), RawClient(process.port) as client:
                for _ in range(STEPS_MAX):
                    number += 1
                    request, planned = step(life, chance, number)
                    client.call(request)
                    life = planned
            timer.join()
            if kill % 2:
                for file in process.data.glob("control.db*"):
                    file.unlink()
            process.start()
            with RawClient(process.port) as client:
                found = seen(client)
            assert found in (visible(life), visible(planned)), f"seed {SEED}, kill {kill}"
            # Hidden values do not matter any more; what was under way either happened or never will.
            life = found
    assert number > KILLS
