"""Consume, transform, produce, and commit the position in the same transaction: t1 into t2 or t3."""

import json
import sys
from random import Random
from zlib import crc32

from soak.clients import connect
from soak.clients.client import TransactionalClient
from soak.history import LogRecord
from soak.txn_history import Place, Write
from soak.workers.notes import READY, fail, note, run_transaction

ABORTED_SHARE = 0.15


def target_of(value: bytes, targets: tuple[str, str]) -> str:
    """Some logic: which of the two topics a value goes to."""
    return targets[crc32(value) % 2]


def transformed(tag: str, number: int, value: bytes) -> bytes:
    """What comes out: unique for each attempt, with the input behind the bar."""
    return f"{tag}.{number}|".encode() + value


def origin_of(value: bytes) -> bytes:
    """The input of an output."""
    return value.partition(b"|")[2]


def run(
    client: TransactionalClient, *, name: str, source: Place, targets: tuple[str, str], group: str, seed: str
) -> None:
    """Until somebody ends it."""
    chance = Random(seed)
    client.init()
    position = client.follow(source, group)
    note(READY)
    number = 0
    while True:
        records = client.poll()
        if not records:
            continue
        tag = f"{name}.{number}"
        number += 1
        writes = _writes(tag, records, source.partition, targets)
        end = records[-1].offset + 1
        half = chance.randrange(len(writes) + 1)

        def send(writes: list[Write] = writes, half: int = half, end: int = end) -> None:
            client.send(writes[:half])
            client.send_offset(end)
            client.send(writes[half:])

        if run_transaction(client, tag, writes, send, is_aborted=chance.random() < ABORTED_SHARE):
            position = end
        else:
            client.rewind(position)


def _writes(tag: str, records: list[LogRecord], partition: int, targets: tuple[str, str]) -> list[Write]:
    return [
        Write(Place(target_of(record.value, targets), partition), transformed(tag, number, record.value))
        for number, record in enumerate(records)
    ]


def main() -> None:
    """The arguments are one JSON object."""
    told = json.loads(sys.argv[1])
    try:
        client = connect(told["client"], told["bootstrap"], told["transactional_id"])
        run(
            client,
            name=told["name"],
            source=Place(*told["source"]),
            targets=tuple(told["targets"]),
            group=told["group"],
            seed=told["seed"],
        )
    except BaseException as failure:  # whatever a client raises is part of the history
        fail(failure)


if __name__ == "__main__":
    main()
