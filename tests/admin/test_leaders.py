"""POST /leaders on three nodes: what it moves, and everything that it refuses."""

import asyncio
import http.client
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from holdfast.admin.leaders import move_leaders
from holdfast.agent.writes import MoveLeader
from holdfast.client.cluster import Cluster
from holdfast.control.plane import Partition, Topic
from holdfast.errors import StorageUnavailable
from tests.agent import requests
from tests.agent.raw import RawClient
from tests.process import HoldfastProcess

SECONDS_MAX = 30.0


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HoldfastProcess]:
    """Topic t on nodes 1, 2, 3, and topic pair, whose second partition lacks node 3."""
    with HoldfastProcess(tmp_path_factory.mktemp("leaders") / "data", "--nodes", "3") as process:
        with RawClient(process.port) as client:
            for name, replicas in (("t", {0: [1, 2, 3], 1: [2, 3, 1]}), ("pair", {0: [1, 3], 1: [1, 2]})):
                answer = client.call(requests.create_topic(name, assignments=replicas))
                assert answer.topics[0].error_code == 0
        yield process
        assert process.stop() == 0
        assert "Traceback" not in process.log


def post(process: HoldfastProcess, document: object, *, method: str = "POST") -> tuple[int, Any]:
    address = json.loads((process.data / "admin.json").read_text())["address"]
    connection = http.client.HTTPConnection(address, timeout=SECONDS_MAX)
    connection.request(method, "/leaders", json.dumps(document), {"Content-Type": "application/json"})
    response = connection.getresponse()
    found = json.loads(response.read())
    connection.close()
    return response.status, found


def leaders(process: HoldfastProcess, topic: str) -> list[int]:
    with Cluster(process.bootstrap) as cluster:
        return [part.leader for _, part in sorted(cluster.topic(topic).partitions.items())]


def test_one_and_all(trio: HoldfastProcess) -> None:
    """One partition moves alone; all of a topic move together, and one that is there already is no error."""
    assert leaders(trio, "t") == [1, 2]
    status, found = post(trio, {"topic": "t", "partition": 1, "node": 3})
    moved = {"partition": 1, "was": 2, "moved": True, "error": None}
    assert (status, found) == (200, {"topic": "t", "node": 3, "partitions": [moved]})
    assert leaders(trio, "t") == [1, 3]
    status, found = post(trio, {"topic": "t", "partition": None, "node": 3})
    assert (status, [each["moved"] for each in found["partitions"]]) == (200, [True, False])
    assert [(each["was"], each["error"]) for each in found["partitions"]] == [(1, None), (3, None)]
    assert leaders(trio, "t") == [3, 3]


@pytest.mark.parametrize(
    ("document", "status", "said"),
    [
        ({"topic": "none", "partition": 0, "node": 1}, 404, "no topic 'none'"),
        ({"topic": "t", "partition": 2, "node": 1}, 404, "'t' has partitions 0 to 1"),
        ({"topic": "t", "partition": -1, "node": 1}, 404, "'t' has partitions 0 to 1"),
        ({"topic": "t", "partition": 0, "node": 4}, 404, "no node 4: there are 1, 2, 3"),
        ({"topic": "pair", "partition": 1, "node": 3}, 409, "node 3 has no replica of pair:1"),
        ({"topic": "pair", "node": 3}, 409, "node 3 has no replica of pair:1"),
        ({"partition": 0, "node": 1}, 400, "topic is a name"),
        ({"topic": 7, "partition": 0, "node": 1}, 400, "topic is a name"),
        ({"topic": "t", "partition": "0", "node": 1}, 400, "partition is a number, or null for all of them"),
        ({"topic": "t", "partition": True, "node": 1}, 400, "partition is a number, or null for all of them"),
        ({"topic": "t", "partition": 0}, 400, "node is a number"),
        ({"topic": "t", "partition": 0, "node": 1.5}, 400, "node is a number"),
        ({"topic": "t", "partition": 0, "node": True}, 400, "node is a number"),
        ({"topic": "t", "partitions": [0], "node": 1}, 400, "unknown: partitions"),
        (["t", 0, 1], 400, "the body is not a JSON object"),
    ],
)  # fmt: skip
def test_refusals(trio: HoldfastProcess, document: object, status: int, said: str) -> None:
    """Each is told why, and nothing moves, not even the part that could."""
    before = leaders(trio, "pair")
    assert post(trio, document) == (status, {"error": said})
    assert leaders(trio, "pair") == before == [1, 1]


def test_a_move_that_fails() -> None:
    """What the commit refuses stands beside its partition; the others move."""

    async def submit(move: MoveLeader) -> None:
        if move.key.partition == 1:
            raise StorageUnavailable("no store took it")

    partition = Partition(replicas=(1, 2), leader=1, leader_epoch=0)
    topic = Topic(topic_id=UUID(int=1), name="t", partitions=(partition,) * 2, configs={})
    agent: Any = SimpleNamespace(
        catalog=SimpleNamespace(get=lambda name: topic, in_sync={1, 2}),
        peers=[SimpleNamespace(node_id=1), SimpleNamespace(node_id=2)],
        commits=SimpleNamespace(submit=submit),
    )
    found = json.loads(asyncio.run(move_leaders(agent, {"topic": "t", "node": 2})).body)
    assert found["partitions"] == [
        {"partition": 0, "was": 1, "moved": True, "error": None},
        {"partition": 1, "was": 1, "moved": False, "error": "no store took it"},
    ]


def test_only_post(trio: HoldfastProcess) -> None:
    """A GET moves nothing."""
    assert post(trio, {"topic": "t", "node": 1}, method="GET") == (405, {"error": "/leaders takes POST"})


def test_a_node_out_of_sync(tmp_path: Path) -> None:
    """A node whose store was lost cannot lead: it lacks what was acknowledged."""
    with HoldfastProcess(tmp_path / "data", "--nodes", "3") as process:
        with RawClient(process.port) as client:
            client.call(requests.create_topic("t", assignments={0: [1, 2, 3]}))
        process.kill()
        shutil.rmtree(process.data / "stores" / "3" / "journal")
        process.start()
        status, found = post(process, {"topic": "t", "partition": 0, "node": 3})
        assert (status, found["error"]) == (409, "node 3 is not in sync: it lacks what was acknowledged")
        assert leaders(process, "t") == [1]
