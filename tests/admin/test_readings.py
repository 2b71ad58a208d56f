"""Readings over HTTP: taken, renewed and released; what is wrong is said."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.client.admin import find_address, get_json, post_json
from holdfast.client.beside import find_admin_beside
from holdfast.client.cluster import Cluster
from holdfast.client.readings import (
    PATH,
    ReadingWanted,
    TailPiece,
    pack_tail,
    release_reading,
    renew_reading,
    take_reading,
)
from holdfast.client.topics import create_topic
from holdfast.errors import AdminRefused, ReadingOver
from tests.process import HoldfastProcess


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HoldfastProcess]:
    """One node with an empty topic."""
    with HoldfastProcess(tmp_path_factory.mktemp("readings") / "data") as process:
        with Cluster(process.bootstrap) as cluster:
            create_topic(cluster, "t", partitions=2)
        yield process
        assert process.stop() == 0
        assert "Traceback" not in process.log


def test_taken_renewed_released(log: HoldfastProcess) -> None:
    """A reading that was released can be renewed no more."""
    address = find_address(log.data)
    reading = take_reading(address, ReadingWanted(topics=["t"], seconds=30))
    assert [(each.partition, each.start, each.end) for each in reading.partitions] == [(0, 0, 0), (1, 0, 0)]
    assert reading.cluster_id == get_json(address, "/status")["cluster_id"]
    (replica,) = reading.partitions[0].replicas
    assert Path(replica.directory) == log.data.resolve() / "stores" / "1"
    renew_reading(address, reading.name, 30)
    release_reading(address, reading.name)
    release_reading(address, reading.name)
    with pytest.raises(ReadingOver):
        renew_reading(address, reading.name, 30)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({}, "take, renew, release"),
        ({"action": "take"}, "topics"),
        ({"action": "take", "topics": "t"}, "topics"),
        ({"action": "take", "topics": ["absent"]}, "topic list"),
        ({"action": "take", "topics": ["t"], "store": 2}, "store 2"),
        ({"action": "take", "topics": ["t"], "seconds": -1}, "held for"),
        ({"action": "renew"}, "name"),
        ({"action": "renew", "name": "x"}, "over"),
    ],
)
def test_what_is_wrong_is_said(log: HoldfastProcess, asked: dict[str, object], why: str) -> None:
    """And nothing happens."""
    with pytest.raises(AdminRefused, match=why):
        post_json(find_address(log.data), PATH, asked)


def test_found_by_a_bootstrap_address(log: HoldfastProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Holdfast of this machine is; one of the same path and another id is not."""
    with Cluster(log.bootstrap) as cluster:
        assert find_admin_beside(cluster) == find_address(log.data)
        identity = log.data / "holdfast.json"
        kept = identity.read_text()
        identity.write_text(kept.replace(kept.split('"')[5], "00000000-0000-0000-0000-000000000000"))
        try:
            assert find_admin_beside(cluster) is None
        finally:
            identity.write_text(kept)


def test_a_tail_is_packed_and_unpacked() -> None:
    """Numbers of any size."""
    from holdfast.client.readings import ReplicaPieces

    pieces = [TailPiece(0, 1, 1, 44, 100), TailPiece(2**62, 2**62 + 9, 2**62 + 5, 2**40, 2**33)]
    packed = ReplicaPieces(store=1, incarnation=1, directory="-", segments=[], packed_tail=pack_tail(pieces))
    assert list(packed.tail) == pieces
