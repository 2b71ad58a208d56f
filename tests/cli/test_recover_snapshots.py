"""`holdfast recover` and `holdfast up` without control.db and without the first journals: a snapshot knows the rest."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest

from holdfast.store import footer
from holdfast.store.local import LocalStore
from tests.agent import requests
from tests.agent.batches import batch
from tests.agent.history import lose_control_plane, rows, snapshots
from tests.cli.commands import run_holdfast
from tests.cli.test_recover_transactions import OUTCOMES, TOPIC, Talk
from tests.process import HoldfastProcess


def take_snapshot(data: Path) -> None:
    """Of a stopped process, on all stores; the next frame begins a new journal on each, and old ones go."""
    identity = json.loads((data / "holdfast.json").read_text())
    with closing(sqlite3.connect(data / "control.db")) as connection:
        (applied,) = connection.execute("SELECT frame FROM applied").fetchone()

        def write(path: Path) -> int:
            connection.execute("VACUUM INTO ?", (str(path),))
            return int(applied)

        for number in range(1, identity["nodes"] + 1):
            store = LocalStore(
                data / "stores" / str(number), store=number, cluster_id=UUID(identity["cluster_id"])
            )
            store.save_snapshot(write)
            store.keep_snapshots(2)
            store.append(applied + 1, [], footer.encode([]))
            store.delete_journals(applied + 1)
            store.close()


def test_all_that_clients_know_comes_back(tmp_path: Path) -> None:
    """Topics, records, sequences, groups and transactions from before, between and after the snapshots."""
    with HoldfastProcess(tmp_path / "data") as process:
        talk = Talk(process)
        talk.ask(requests.create_topic(TOPIC), version=5)
        for number, (name, committed) in enumerate(OUTCOMES.items()):
            assert process.stop() == 0
            take_snapshot(process.data)
            process.start()
            talk.ask(requests.create_topic(f"topic-{number}"), version=5)
            data = batch(name.encode(), producer_id=77, base_sequence=number)
            talk.ask(requests.produce(TOPIC, {0: data}), version=9)
            talk.ask(requests.commit_offset("plain", TOPIC, number, metadata=name), version=8)
            before = talk.begin(name, 10 + number)
            if committed is not None:
                talk.end(before, committed=committed)
        described, end = talk.described(), talk.stable_end()
        assert process.stop() == 0
        recorded = rows(process.data)
        assert int(min(file.stem for file in process.data.glob("stores/1/journal/*"))) > 1
        newest = int(snapshots(process.data)[0].stem)
        lose_control_plane(process.data)
        assert run_holdfast("recover", "--data", str(process.data), "--json").json["snapshot"] == newest
        assert rows(process.data) == recorded
        told = run_holdfast("recover", "--data", str(process.data))
        assert f"made anew from a snapshot of frame {newest} and" in told.text
        assert rows(process.data) == recorded
        lose_control_plane(process.data)
        process.start()
        assert (talk.described(), talk.stable_end()) == (described, end)
        assert talk.position("plain") == (0, 2)
        assert (
            talk.ask(requests.produce(TOPIC, {0: data}), 9).responses[0].partition_responses[0].error_code
            == 0
        )
        assert talk.stable_end() == end, "the repeat was recognised"
        assert process.stop() == 0
        assert not process.log


def test_what_is_missing_is_told_in_a_line(tmp_path: Path) -> None:
    """No snapshot can be read and the first frames are gone: neither command makes an empty log of it."""
    with HoldfastProcess(tmp_path / "data", "--nodes", "2") as process:
        for number in range(3):
            Talk(process).ask(requests.create_topic(f"t{number}"), version=5)
            assert process.stop() == 0
            take_snapshot(process.data)
            process.start()
        assert process.stop() == 0
        lose_control_plane(process.data)
        for path in snapshots(process.data):
            path.write_bytes(path.read_bytes()[:-1])
        told = run_holdfast("recover", "--data", str(process.data))
        assert told.code == 1
        assert "is damaged" in told.err
        assert "frames 1 to " in told.err
        with pytest.raises(AssertionError, match="Put a snapshot back"):
            process.start()
        assert not list(process.data.glob("control.db*"))
