"""`holdfast store` and `holdfast topic replicas`: what operators see of stores, and what they do to them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.client.cluster import Cluster
from holdfast.client.topics import create_topic
from tests.cli.commands import Answer
from tests.cli.test_compaction import here
from tests.process import HoldfastProcess

SECONDS_MAX = 60.0


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HoldfastProcess]:
    """Three stores; a topic on all of them, and one on the first alone."""
    with HoldfastProcess(tmp_path_factory.mktemp("cli-store") / "data", "--nodes", "3") as process:
        with Cluster(process.bootstrap) as cluster:
            create_topic(cluster, "wide", partitions=1, replication_factor=3)
            create_topic(cluster, "alone", partitions=1, replication_factor=1)
        yield process
        assert process.stop() == 0
        assert "Traceback" not in process.log


def store(process: HoldfastProcess, *words: str) -> Answer:
    return here("store", *words, "--data", str(process.data))


def stores(process: HoldfastProcess) -> dict[int, Any]:
    return {each["store"]: each for each in store(process, "list", "--json").json}


def leader(process: HoldfastProcess, topic: str) -> int:
    with Cluster(process.bootstrap) as cluster:
        return cluster.topic(topic).partitions[0].leader


def test_list(trio: HoldfastProcess) -> None:
    """A line for each store, with what it holds and where its node listens."""
    found = stores(trio)
    assert [each["phase"] for each in found.values()] == ["in sync"] * 3
    assert sum(each["partitions"] for each in found.values()) == 4
    heads, *lines = store(trio, "list").text.splitlines()
    assert heads.split() == ["STORE", "PHASE", "LIFE", "ADDRESS", "PARTITIONS", "BEHIND", "WHY"]
    assert [line.split()[:4] for line in lines] == [[str(number), "in", "sync", "1"] for number in found]
    assert [line.split()[4] for line in lines] == [each["address"] for each in found.values()]


def test_nothing_is_done_unless_it_is_confirmed(trio: HoldfastProcess) -> None:
    """Neither after a no, nor where nobody is there to answer; the question says what it means."""
    for action, said in (("fence", b"It stops counting for good"), ("remove", b"it is fenced")):
        command = [sys.executable, "-m", "holdfast", "store", action, "3", "--data", str(trio.data)]
        done = subprocess.run(command, input=b"n\n", capture_output=True, timeout=SECONDS_MAX, check=False)
        assert (done.returncode != 0, done.stdout) == (True, b"")
        assert said in done.stderr
        assert store(trio, action, "3").code != 0
    assert stores(trio)[3]["phase"] == "in sync"


def test_refusals(trio: HoldfastProcess) -> None:
    """The answer no is exit code 1, bad usage is 2, each in one line on stderr."""
    only = str(leader(trio, "alone"))
    for words, code, said in (
        (("store", "fence", "9", "--yes"), 1, "no store 9: there are 1, 2, 3"),
        (("store", "rebuild", "1", "--yes"), 1, "only one that is away or fenced is rebuilt"),
        (("store", "fence", only, "--yes"), 1, "the only replica in sync of alone:0"),
        (("store", "remove", only, "--yes"), 1, "the only replica in sync of alone:0"),
        (("store", "fence", "0", "--yes"), 2, "0 is not in the range"),
        (("store", "add"), 1, "is in use by another process"),
        (("topic", "replicas", "wide:0", "1,9"), 1, "no store 9"),
        (("topic", "replicas", "wide:9", "1"), 1, "'wide' has partitions 0 to 0"),
        (("topic", "replicas", "none:0", "1"), 1, "no topic 'none'"),
        (("topic", "replicas", "wide", "1"), 2, "such as orders:0 1,2,3"),
        (("topic", "replicas", "wide:0", "one"), 2, "such as orders:0 1,2,3"),
    ):
        answer = here(*words, "--data", str(trio.data))
        assert (answer.code, answer.out) == (code, b""), words
        (line,) = answer.err.splitlines()
        assert said in line


def test_a_life_of_a_store(trio: HoldfastProcess) -> None:
    """Its partition goes elsewhere, it is fenced, begins anew, and is given the partition again."""
    spared = next(number for number in (3, 2) if number != leader(trio, "alone"))
    others = [number for number in (1, 2, 3) if number != spared]
    words = ("topic", "replicas", "wide:0", ",".join(map(str, others)), "--data", str(trio.data))
    assert here(*words).text == f"wide:0 lies on stores {others[0]}, {others[1]}\n"
    assert stores(trio)[spared]["partitions"] == 0
    assert store(trio, "fence", str(spared), "--yes").text == f"store {spared} is fenced\n"
    assert stores(trio)[spared]["phase"] == "fenced"
    rebuilt = store(trio, "rebuild", str(spared), "--yes")
    assert (rebuilt.code, f"store {spared} begins anew" in rebuilt.text) == (0, True)
    assert (stores(trio)[spared]["life"], stores(trio)[spared]["phase"]) == (2, "joining")
    words = ("topic", "replicas", "wide:0", "1,2,3", "--data", str(trio.data))
    assert here(*words).code == 0
    assert stores(trio)[spared]["partitions"] == 1


def test_add(tmp_path: Path) -> None:
    """While nobody serves the directory; it is no store yet, but the next start finds it."""
    (tmp_path / "holdfast.json").write_text(
        json.dumps({"format": 1, "cluster_id": "00000000-0000-4000-8000-000000000001", "nodes": 2})
    )
    answer = here("store", "add", "--data", str(tmp_path))
    assert (answer.code, answer.text.partition(":")[0]) == (0, "store 3 is added")
    assert json.loads((tmp_path / "holdfast.json").read_text())["nodes"] == 3
