"""Requests that nobody should listen to: the right error code, and nothing changes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.transactions import opening
from holdfast.client import transactions
from holdfast.client.groups import TopicPartition
from holdfast.client.transactions import Identity
from tests.agent import requests
from tests.agent.batches import batch
from tests.agent.raw import DescribeTransactionsRequest
from tests.agent.transactions.driving import TOPIC, TV1, TV2, Desk, Producer, describe, run

PLACE = TopicPartition(TOPIC, 0)
BAD_GROUP, TOO_MANY = 24, 44
BAD_REQUEST, OLD_EPOCH, STRANGER, FENCED, UNKNOWN_PLACE, UNKNOWN_ID = 42, 47, 49, 90, 3, 105
NO_KEY = 87

Strangers = dict[str, Identity]


def strangers(who: Identity, other: Identity) -> Strangers:
    """Whom nobody should take for the owner of the transactional id."""
    return {
        "unknown id": replace(who, transactional_id="nobody"),
        "empty id": replace(who, transactional_id=""),
        "oversized id": replace(who, transactional_id="x" * 32_000),
        "unknown producer": replace(who, producer_id=77_777),
        "no producer": replace(who, producer_id=-1),
        "id of another client": replace(who, transactional_id=other.transactional_id),
        "producer of another client": replace(who, producer_id=other.producer_id),
        "old epoch": replace(who, producer_epoch=who.producer_epoch - 1),
        "newer epoch": replace(who, producer_epoch=who.producer_epoch + 1),
    }


def expected(label: str, *, epoch_code: int) -> int:
    """The code for a stranger."""
    if label == "empty id":
        return BAD_REQUEST
    return epoch_code if label.endswith("epoch") else STRANGER


def add(who: Identity) -> Any:
    return transactions.add_partitions(who, [PLACE])


def add_offsets(who: Identity) -> Any:
    return transactions.add_offsets(who, "g")


def commit(who: Identity) -> Any:
    return transactions.end_txn(who, committed=True)


def abort(who: Identity) -> Any:
    return transactions.end_txn(who, committed=False)


def stage(who: Identity) -> Any:
    return transactions.txn_offset_commit(who, "g", {PLACE: 5})


def produce(who: Identity) -> Any:
    data = batch(
        b"bad",
        producer_id=max(who.producer_id, 0),
        producer_epoch=who.producer_epoch,
        base_sequence=1,
        transactional=True,
    )
    return transactions.produce(who.transactional_id, {PLACE: data})


async def known(desk: Desk) -> Any:
    """All that a stranger might have changed."""
    plane = desk.agent.plane
    topic_id = desk.agent.catalog.get(TOPIC).topic_id
    return (
        await describe(desk.client, "tx"),
        await describe(desk.client, "other"),
        await desk.read(committed=False),
        await desk.read(committed=True),
        plane.list_transactional_ids(),
        plane.find_producers(topic_id, 0),
        plane.find_open_instances(topic_id, 0),
        plane.find_group_offsets("g"),
        plane.find_staged("g"),
    )


CASES = [
    (add, 1, OLD_EPOCH),
    (add, 3, FENCED),
    (add_offsets, 1, OLD_EPOCH),
    (add_offsets, 4, FENCED),
    (commit, 1, OLD_EPOCH),
    (commit, 4, FENCED),
    (commit, 5, FENCED),
    (abort, 4, FENCED),
    (abort, 5, FENCED),
    (stage, 3, OLD_EPOCH),
    (stage, 5, OLD_EPOCH),
    (produce, 10, OLD_EPOCH),
    (produce, 11, OLD_EPOCH),
    (produce, 12, OLD_EPOCH),
]


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize(("build", "version", "epoch_code"), CASES)
def test_strangers_change_nothing(
    tmp_path: Path, build: Callable[[Identity], Any], version: int, epoch_code: int, is_open: bool
) -> None:
    """With and without an open transaction that they could harm."""

    async def scenario(desk: Desk) -> None:
        other = await desk.producer("other", TV2)
        await other.write(b"other")
        producer = await desk.producer()
        assert await producer.init() == 0
        if is_open:
            await producer.write(b"mine")
        before = await known(desk)
        codes = {}
        for label, who in strangers(producer.who, other.who).items():
            answer = await Producer(await desk.connect()).ask(build(who), version)
            codes[label] = [verdict.code for verdict in transactions.verdicts(answer)][-1]
        assert codes == {label: expected(label, epoch_code=epoch_code) for label in codes}
        assert await known(desk) == before
        if is_open:
            assert await producer.produce(b"more") == (0, 2)
            assert await producer.end(commit=True) == 0

    run(tmp_path, scenario)


@pytest.mark.parametrize("versions", [TV1, TV2])
def test_unknown_places_change_nothing(tmp_path: Path, versions: Any) -> None:
    """A topic or a partition that is not there is refused, and the transaction goes on."""

    async def scenario(desk: Desk) -> None:
        other = await desk.producer("other", TV2)
        await other.write(b"other")
        producer = await desk.producer(versions=versions)
        await producer.write(b"mine")
        before = await known(desk)
        assert await producer.add(9) == [UNKNOWN_PLACE]
        assert await producer.add(0, topic="nowhere") == [UNKNOWN_PLACE]
        assert await producer.add(1, 9) == [55, UNKNOWN_PLACE]
        assert await producer.produce(b"x", partition=9) == (UNKNOWN_PLACE, -1)
        assert await producer.produce(b"x", topic="nowhere") == (UNKNOWN_PLACE, -1)
        assert await producer.stage("", 5) == 24
        assert await known(desk) == before
        assert await producer.end(commit=True) == 0

    run(tmp_path, scenario)


@pytest.mark.parametrize("versions", [TV1, TV2])
def test_records_without_a_key_change_nothing(tmp_path: Path, versions: Any) -> None:
    """A topic that has become a compacted one refuses them; the transaction goes on with what it has."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer(versions=versions)
        await producer.write(b"mine")
        change = requests.change_configs((2, TOPIC, [("cleanup.policy", 0, "compact")]))
        assert (await desk.client.call(change)).responses[0].error_code == 0
        before = await known(desk)
        assert await producer.produce(b"no key") == (NO_KEY, -1)
        assert await known(desk) == before
        assert await producer.end(commit=True) == 0
        assert (await desk.read(committed=True)).records == [(0, b"mine")]

    run(tmp_path, scenario)


def init(who: Identity) -> Any:
    return transactions.init_producer_id(who, timeout_ms=60_000)


def describe_request(who: Identity) -> Any:
    return DescribeTransactionsRequest(transactional_ids=[who.transactional_id])


def code_of(answer: Any) -> int:
    """The last one that an answer tells."""
    if hasattr(answer, "transaction_states"):
        return int(answer.transaction_states[0].error_code)
    return [verdict.code for verdict in transactions.verdicts(answer)][-1]


@pytest.mark.parametrize(
    ("build", "version", "unknown_code"),
    [
        (init, 4, 0),
        (add, 3, STRANGER),
        (add_offsets, 4, STRANGER),
        (commit, 5, STRANGER),
        (stage, 3, STRANGER),
        (produce, 12, STRANGER),
        (describe_request, 0, UNKNOWN_ID),
    ],
)
def test_oversized_ids(
    tmp_path: Path, build: Callable[[Identity], Any], version: int, unknown_code: int
) -> None:
    """As long as Kafka's strings may be; a longer one is told so in every request, and nothing of it is remembered."""

    async def scenario(desk: Desk) -> None:
        asker = Producer(desk.client)

        async def code_for(name: str) -> int:
            who = Identity(transactional_id=name, producer_id=77_777, producer_epoch=0)
            return code_of(await asker.ask(build(who), version))

        assert [await code_for(name) for name in ("x" * 32_767, "\u00e9" * 16_383)] == [unknown_code] * 2
        before = desk.agent.plane.list_transactional_ids()
        for name in ("x" * 32_768, "\u00e9" * 16_384, "x" * 1_000_000):
            assert await code_for(name) == BAD_REQUEST
        assert desk.agent.plane.list_transactional_ids() == before

    run(tmp_path, scenario)


def test_groups_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer that announces ever new ones is stopped, and goes on with those that it has."""
    monkeypatch.setattr(opening, "GROUPS_MAX", 3)

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer()
        codes = [await producer.stage(f"g{number}", 5) for number in (0, 1, 2, 3, 2)]
        assert codes == [0, 0, 0, TOO_MANY, 0]
        assert await producer.stage("g" * 32_768, 5) == BAD_GROUP
        assert await producer.end(commit=True) == 0
        assert [len(desk.agent.plane.find_group_offsets(f"g{number}")) for number in range(4)] == [1, 1, 1, 0]
        assert await producer.stage("g3", 5) == 0

    run(tmp_path, scenario)
