"""`holdfast compaction`: who waits for whom of a running Holdfast, and the check of what it has done."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from holdfast.cli.compaction import _show
from holdfast.cli.main import main
from holdfast.client.cluster import Cluster
from holdfast.client.producer import Producer
from holdfast.client.topics import create_topic
from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.records.record import Record
from holdfast.store.replica_changes import Granted
from tests.cli.commands import Answer, run_holdfast
from tests.keeper.engine import Engine
from tests.keeper.test_history import doctor
from tests.process import HoldfastProcess

SECONDS_MAX = 30.0


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HoldfastProcess]:
    """A compacted topic that waits for its lag, and a plain one in which a transaction is open."""
    with HoldfastProcess(tmp_path_factory.mktemp("cli-compaction") / "data") as process:
        with Cluster(process.bootstrap) as cluster:
            lag = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(1 << 50)}
            create_topic(cluster, "orders", partitions=1, configs=lag)
            create_topic(cluster, "plain", partitions=1)
            Producer(cluster, "orders").send({0: [Record(key=b"k", value=b"v", timestamp_ms=1)]})
            producer = TransactionalProducer(cluster, "payments-7", timeout_ms=600_000)
            producer.init()
            producer.begin()
            producer.send("plain", 0, [Record(value=b"v")])
        yield process
        assert process.stop() == 0
        assert "Traceback" not in process.log


def here(*arguments: str) -> Answer:
    """Run a command in this process, to save time."""
    with CliRunner().isolation() as (out, err, _), patch.object(sys, "argv", ["holdfast", *arguments]):
        with pytest.raises(SystemExit) as leave:
            main()
        code = leave.value.code
        assert isinstance(code, int)
        return Answer(code=code, out=out.getvalue(), err=err.getvalue().decode())


def status(process: HoldfastProcess, *arguments: str) -> Answer:
    return here("compaction", "status", *arguments, "--data", str(process.data))


def test_status(process: HoldfastProcess) -> None:
    """A line for each replica, then who waits for whom, in words."""
    answer = run_holdfast("compaction", "status", "--data", str(process.data))
    assert answer.code == 0, answer.err
    replicas, _, waits = answer.text.partition("\n\nWaiting\n")
    lines = [line.split() for line in replicas.splitlines()]
    assert lines[1:] == [
        ["orders:0", "1", "0", "0", "1", "in", "sync", "1", "0", "0", "0"],
        ["plain:0", "0", "-", "0", "1", "in", "sync", "1", "0", "0", "-"],
    ]
    title, *rows = waits.splitlines()
    assert title.split("  ")[0] == "PARTITION"
    assert "min.compaction.lag.ms, " in rows[0]
    assert rows[0].split()[:3] == ["orders:0", "MTRO", "0"]
    (open_one,) = (row for row in rows if row.startswith("plain:0"))
    assert "the open transaction of payments-7 (producer " in open_one
    assert open_one.endswith("), from offset 0 on")


def test_one_topic_as_json(process: HoldfastProcess) -> None:
    """All that the service tells."""
    found = status(process, "plain", "--json").json
    assert [each["topic"] for each in found["partitions"]] == ["plain"]
    (waiting,) = found["partitions"][0]["waiting"]
    assert (waiting["track"], waiting["reason"], waiting["store"]) == ("MXRO", "open-transaction", None)
    assert waiting["transaction"]["transactional_id"] == "payments-7"


def test_watch(process: HoldfastProcess) -> None:
    """Into a pipe, one block after the other, until ^C, which is a good end."""
    words = [sys.executable, "-m", "holdfast", "compaction", "status", "--watch", "--json", "orders"]
    with subprocess.Popen(
        [*words, "--data", str(process.data)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as watching:
        assert watching.stdout is not None
        first, second = (json.loads(watching.stdout.readline()) for _ in range(2))
        watching.send_signal(signal.SIGINT)
        _, err = watching.communicate(timeout=SECONDS_MAX)
    assert (watching.returncode, err) == (0, b"")
    assert first["partitions"][0]["topic"] == second["partitions"][0]["topic"] == "orders"
    waited = [found["partitions"][0]["waiting"][0]["for_ms"] for found in (first, second)]
    assert 900 <= waited[1] - waited[0] < 1000 * SECONDS_MAX


def test_nobody_to_ask(process: HoldfastProcess, tmp_path: Path) -> None:
    """Its own exit code: what it would have said is another matter."""
    answer = here("compaction", "status", "--data", str(tmp_path))
    assert (answer.code, answer.text) == (3, "")
    assert f"holdfast up --data {tmp_path}" in answer.err
    assert status(process, "none").code == 1
    assert status(process, "--no-such-option").code == 2


def test_words_for_every_reason(capsys: pytest.CaptureFixture[str]) -> None:
    """Stores that wait for the same share a line."""

    def waiting(reason: str, *stores: int | None, **facts: object) -> list[dict[str, object]]:
        nothing = {"remaining_ms": None, "dirty_bytes": None, "clean_bytes": None, "transaction": None}
        row = {"track": "MTRO", "reason": reason, "at": 5, "for_ms": 61_000, **nothing, **facts}
        return [{**row, "store": store} for store in stores]

    partition = {
        "topic": "t",
        "partition": 3,
        "compacted": True,
        "last_stable": 9,
        "mtro": 5,
        "mxro": 6,
        "waiting_bytes": {"MTRO": 7, "MXRO": 0},
        "replicas": [
            {"store": 1, "phase": "fenced", "held_to": None, "settled_to": None, "mxfo": None, "mcco": None}
        ],
        "waiting": [
            *waiting("away", 1),
            *waiting("joining", 2),
            *waiting("unreported", 3),
            *waiting("behind", 1, 2),
            *waiting("due", 1, 2, 3),
            *waiting("lag", 1, 2, remaining_ms=2000),
            *waiting("dirty-ratio", 1, 3, dirty_bytes=25, clean_bytes=75),
            *waiting("small", 1),
            *waiting("grace", None, remaining_ms=3000),
            *waiting("open-transaction", None),
            *waiting(
                "open-transaction",
                None,
                at=6,
                transaction={"transactional_id": None, "producer_id": 4, "first_offset": 6},
            ),
        ],
    }
    _show({"partitions": [partition], "omitted": 2})
    shown = capsys.readouterr()
    replicas, _, waits = shown.out.partition("\n\nWaiting\n")
    assert replicas.splitlines()[1].split() == ["t:3", "9", "5", "6", "1", "fenced", "-", "-", "-", "-"]
    prefix = ["t:3", "MTRO", "5", "7", "0:01:01"]
    rows = [line.split(maxsplit=5) for line in waits.splitlines()[1:]]
    assert [row[:5] for row in rows[:8]] == [prefix] * 8
    assert [row[5] for row in rows] == [
        "store 1: away",
        "store 2: catching up",
        "store 3: never reported",
        "stores 1, 2: behind the others, a rewrite is due",
        "the keeper: a rewrite is due on stores 1, 2, 3",
        "min.compaction.lag.ms, 0:00:02 more",
        "min.cleanable.dirty.ratio: 25 % is dirty on stores 1, 3",
        "more to settle on store 1, or more time",
        "delete.retention.ms, 0:00:03 more",
        "a transaction that has just ended",
        "the open transaction of producer 4, from offset 6 on",
    ]
    assert rows[8][1] == "tombstones"
    assert shown.err == "2 partitions more: name a topic to see its own\n"
    _show({"partitions": [], "omitted": 0})
    assert "every replica in sync" in capsys.readouterr().err


def test_check(tmp_path: Path) -> None:
    """What the engine did is right; a doctored footer is named by frame, store and partition, with exit code 1."""
    engine = Engine(tmp_path / "data", nodes=1)
    key = engine.create("t")
    engine.append(key, (b"a", b"1"))
    engine.round()
    engine.append(key, (b"a", b"2"))
    engine.round()
    check = ("compaction", "check", "--data", str(engine.data))
    answer = here(*check)
    assert answer.code == 0, answer.err
    assert "2 rewrites of 1 partition covered by what all replicas had reported" in answer.text
    engine.end()
    frame = doctor(
        engine.data, 1, lambda change: change.generation == 2, generation=3, grant=Granted(9, 9, 0)
    )
    answer = here(*check)
    assert answer.code == 1
    assert answer.text.splitlines()[1] == f"frame {frame}: store 1 of t:0: published generation 3 after 1"
    found = here(*check, "--json", "--store", "1")
    assert found.code == 1
    assert found.json["violation"] == {
        "frame": frame,
        "topic": "t",
        "partition": 0,
        "store": 1,
        "why": "published generation 3 after 1",
    }
    assert here(*check, "--store", "4").code == 2
    assert here("compaction", "check", "--data", str(tmp_path / "none")).code == 2
