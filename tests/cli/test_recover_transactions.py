"""`holdfast recover` and transactions: open, committed and aborted ones are what they were."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.admin import DescribeTransactionsRequest

from holdfast.client import transactions
from holdfast.client.groups import TopicPartition
from holdfast.client.transactions import Identity
from holdfast.records.build import Record, build_batch
from tests.agent import requests
from tests.agent.raw import RawClient
from tests.cli.commands import run_holdfast
from tests.process import HoldfastProcess

TOPIC = "moves"
PLACE = TopicPartition(TOPIC, 0)
OUTCOMES = {"committed": True, "aborted": False, "open": None}
READ_COMMITTED = 1
UNSTABLE = 88


class Talk:
    """Requests of the second generation, of one producer for each transactional id."""

    def __init__(self, process: HoldfastProcess) -> None:
        self._process = process

    def ask(self, request: Any, version: int) -> Any:
        """Once, on a connection of its own."""
        request.API_VERSION = version
        with RawClient(self._process.port) as client:
            client.send(request)
            return request.header.get_response_class().decode(client.receive_frame(), header=True)

    def do(self, request: Any, version: int) -> Any:
        """The same for a request of transactions, which has to succeed."""
        answer = self.ask(request, version)
        assert not [verdict for verdict in transactions.verdicts(answer) if verdict.code], answer
        return answer

    def begin(self, name: str, offset: int) -> Identity:
        """A transaction with one record and one position of the group of the same name."""
        identity = self._become(
            name,
            self.do(
                transactions.init_producer_id(Identity(transactional_id=name), timeout_ms=600_000), version=4
            ),
        )
        data = build_batch(
            [Record(value=name.encode(), timestamp_ms=1_700_000_000_000)],
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        self.do(transactions.produce(name, {PLACE: data}), version=12)
        self.do(transactions.txn_offset_commit(identity, name, {PLACE: offset}), version=5)
        return identity

    def end(self, identity: Identity, *, committed: bool) -> Identity:
        """Whoever the producer is afterwards."""
        answer = self.do(transactions.end_txn(identity, committed=committed), version=5)
        return self._become(identity.transactional_id, answer)

    def _become(self, name: str, answer: Any) -> Identity:
        return Identity(
            transactional_id=name, producer_id=answer.producer_id, producer_epoch=answer.producer_epoch
        )

    def described(self) -> list[tuple[object, ...]]:
        """How each id stands."""
        answer = self.ask(DescribeTransactionsRequest(transactional_ids=list(OUTCOMES)), version=0)
        return [
            (each.transaction_state, each.producer_id, each.producer_epoch, each.transaction_start_time_ms)
            for each in answer.transaction_states
        ]

    def stable_end(self) -> int:
        """The last stable offset."""
        request = requests.list_offsets(TOPIC, {0: -1})
        request.isolation_level = READ_COMMITTED
        end: int = self.ask(request, version=7).topics[0].partitions[0].offset
        return end

    def position(self, group: str, *, stable: bool = False) -> tuple[int, int]:
        """(error code, offset)."""
        request = requests.fetch_offset(group, TOPIC)
        request.require_stable = stable
        part = self.ask(request, version=8).groups[0].topics[0].partitions[0]
        return part.error_code, part.committed_offset


def rows(data: Path) -> dict[str, list[tuple[object, ...]]]:
    """All that is in the control plane, by table."""
    with closing(sqlite3.connect(data / "control.db")) as connection:
        tables = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return {table: sorted(connection.execute(f"SELECT * FROM {table}"), key=repr) for table in tables}


@pytest.mark.parametrize("how", ["recover", "up"])
def test_transactions_are_made_anew(tmp_path: Path, how: str) -> None:
    """Outcomes, the open transaction, staged positions, and the retry of an end; the open one can be ended."""
    with HoldfastProcess(tmp_path / "data") as process:
        talk = Talk(process)
        talk.ask(requests.create_topic(TOPIC), version=5)
        producers: dict[str, tuple[Identity, Identity]] = {}
        for offset, (name, committed) in enumerate(OUTCOMES.items(), 10):
            before = talk.begin(name, offset)
            after = before if committed is None else talk.end(before, committed=committed)
            producers[name] = (before, after)
        described = talk.described()
        assert [row[0] for row in described] == ["CompleteCommit", "CompleteAbort", "Ongoing"]
        assert process.stop() == 0
        recorded = rows(process.data)
        assert [outcome for _, _, outcome in recorded["instances"]] == [1, 2, 0]
        for file in process.data.glob("control.db*"):
            file.unlink()
        if how == "recover":
            assert run_holdfast("recover", "--data", str(process.data)).code == 0
            assert rows(process.data) == recorded
        process.start()
        assert talk.described() == described
        assert talk.stable_end() == 2
        assert talk.position("committed", stable=True) == (0, 10)
        assert talk.position("aborted", stable=True) == (0, -1)
        assert (talk.position("open"), talk.position("open", stable=True)) == ((0, -1), (UNSTABLE, -1))
        for name, committed in OUTCOMES.items():
            before, after = producers[name]
            if committed is not None:
                assert talk.end(before, committed=committed) == after
        going_on = talk.end(producers["open"][0], committed=True)
        assert going_on.producer_epoch == producers["open"][0].producer_epoch + 1
        assert (talk.stable_end(), talk.position("open", stable=True)) == (3, (0, 12))
        assert process.stop() == 0
        assert "Traceback" not in process.log
        process.start()
