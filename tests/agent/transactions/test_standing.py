"""Where transactional ids stand; and that nobody waits while all of them are looked at."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast.rules.transactional_id import Phase, TransactionalId
from tests.agent.raw import ListTransactionsRequest
from tests.agent.transactions.driving import GENERATIONS, TV1, TV2, Desk, Versions, describe, run, until

SECONDS_MAX = 10.0


def hold_up_scans(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Set once a scan of all ids has begun, and to be set for it to end."""
    begun, may_end = threading.Event(), threading.Event()
    scan = desk.agent.plane.list_transactional_ids

    def slow() -> dict[str, TransactionalId]:
        begun.set()
        assert may_end.wait(SECONDS_MAX), "the event loop waits for the scan"
        return scan()

    monkeypatch.setattr(desk.agent.plane, "list_transactional_ids", slow)
    return begun, may_end


@pytest.mark.parametrize("asked_by", ["ListTransactions", "WriteTxnMarkers"])
def test_others_are_served_during_a_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked_by: str
) -> None:
    """A cluster may have had hundreds of thousands of ids."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer(versions=TV2)
        await producer.write(b"value")
        other = await desk.producer("other", TV2)
        begun, may_end = hold_up_scans(desk, monkeypatch)
        question: Any
        if asked_by == "ListTransactions":
            request = ListTransactionsRequest(state_filters=[], producer_id_filters=[], version=0)
            question = desk.client.call(request)
        else:
            question = producer.abort_by_hand(0)
        asked = asyncio.create_task(question)
        await until(begun.is_set)
        await other.write(b"meanwhile", partition=1)
        assert await other.end(commit=True) == 0
        assert not asked.done()
        may_end.set()
        answer = await asked
        if asked_by == "ListTransactions":
            listed = [(each.transactional_id, each.transaction_state) for each in answer.transaction_states]
            assert listed == [("other", "CompleteCommit"), ("tx", "Ongoing")]
        else:
            assert answer == [0]
            assert (await describe(desk.client)).phase == "CompleteAbort"

    run(tmp_path, scenario)


@pytest.mark.parametrize("versions", GENERATIONS)
def test_from_nothing_to_the_end(tmp_path: Path, versions: Versions) -> None:
    """What is announced is under way; what is durable tells its own start; what has ended keeps that."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer(versions=versions)
        standings = desk.agent.transactions.standings
        topic_id = desk.agent.catalog.get("t").topic_id
        assert standings.describe("tx")[0].phase is Phase.EMPTY
        assert standings.describe("tx")[0].started_ms == -1
        if versions is TV1:
            assert await producer.add(0, 1) == [0, 0]
            standing, partitions = standings.describe("tx")
            assert (standing.phase, standing.started_ms > 0) == (Phase.ONGOING, True)
            assert partitions == {(topic_id, 0), (topic_id, 1)}
            assert standings.list_all() == {"tx": standing}
            assert [each.started_ms for each in standings.list_open()] == [standing.started_ms]
        await producer.write(b"value", partition=1)
        standing, partitions = standings.describe("tx")
        assert (standing.phase, standing.started_ms) == (Phase.ONGOING, standing.state.started_ms)
        assert partitions >= {(topic_id, 1)}
        assert standings.list_all() == {"tx": standing}
        assert [each.transactional_id for each in standings.list_open()] == ["tx"]
        assert await producer.end(commit=True) == 0
        ended, partitions = standings.describe("tx")
        assert (ended.phase, ended.started_ms) == (Phase.COMMITTED, standing.started_ms)
        assert (partitions, standings.list_open()) == (frozenset(), [])

    run(tmp_path, scenario)
