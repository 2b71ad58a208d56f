"""Status and metrics of transactions."""

import time
from collections.abc import Iterator

import pytest

from holdfast.client import admin as client
from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition
from holdfast.client.topics import create_topic
from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.client.transactions import TV2, produce, verdicts
from holdfast.errors import OutOfOrderSequence
from holdfast.records.build import Record, build_batch
from tests.admin.test_service import metrics, status
from tests.process import HoldfastProcess

SECONDS_MAX = 30.0


@pytest.fixture
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HoldfastProcess]:
    with HoldfastProcess(tmp_path_factory.mktemp("admin") / "data") as process:
        yield process
        assert process.stop() == 0
        assert "Traceback" not in process.log


@pytest.fixture
def cluster(process: HoldfastProcess) -> Iterator[Cluster]:
    with Cluster(process.bootstrap) as cluster:
        create_topic(cluster, "t", partitions=1)
        yield cluster


def begun(cluster: Cluster, name: str, *, timeout_ms: int = 60_000) -> TransactionalProducer:
    producer = TransactionalProducer(cluster, name, timeout_ms=timeout_ms)
    producer.init()
    producer.begin()
    producer.send("t", 0, [Record(value=b"v")])
    return producer


def counts(process: HoldfastProcess) -> dict[str, float]:
    """What is told of transactions, by the word that is different."""
    prefix = "holdfast_transactions_"
    found = metrics(process)
    return {name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)}


def test_counts(process: HoldfastProcess, cluster: Cluster) -> None:
    """Each end is counted once, whoever brought it about; what is under way stands beside it."""
    nothing = {"open": 0, "open_age_seconds": 0}
    ended = {"begun_total": 0, "committed_total": 0, "aborted_total": 0, "timed_out_total": 0}
    assert counts(process) == {**nothing, **ended}
    begun(cluster, "a").commit()
    begun(cluster, "a").commit()
    begun(cluster, "b").abort()
    begun(cluster, "left")
    begun(cluster, "left").abort()
    assert counts(process) == {
        **nothing,
        "begun_total": 5,
        "committed_total": 2,
        "aborted_total": 3,
        "timed_out_total": 0,
    }
    begun(cluster, "late", timeout_ms=100)
    deadline = time.monotonic() + SECONDS_MAX
    while counts(process)["timed_out_total"] == 0:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    found = counts(process)
    assert found == {
        **nothing,
        "begun_total": 6,
        "committed_total": 2,
        "aborted_total": 4,
        "timed_out_total": 1,
    }


def test_the_oldest(process: HoldfastProcess, cluster: Cluster) -> None:
    """Status names the oldest transaction with its producer, also after a restart."""
    found = client.get_json(client.find_address(process.data), "/status")
    assert found["transactions"] == {"open": 0, "oldest": None}
    assert "none open" in status("--data", str(process.data)).stdout
    first = begun(cluster, "first")
    second = begun(cluster, "second")
    begun(cluster, "third").commit()
    check_oldest(process, 2, first)
    assert 0 < counts(process)["open_age_seconds"] < SECONDS_MAX
    process.kill()
    process.start()
    check_oldest(process, 2, first)
    with Cluster(process.bootstrap) as again:
        # Takes the id over, which aborts what it has open.
        TransactionalProducer(again, "first").init()
    check_oldest(process, 1, second)
    shown = status("--data", str(process.data)).stdout
    who = f"second (producer {second.identity.producer_id} epoch {second.identity.producer_epoch})"
    assert "1 open, the oldest for 0:00:" in shown
    assert who in shown


def check_oldest(process: HoldfastProcess, number: int, producer: TransactionalProducer) -> None:
    found = client.get_json(client.find_address(process.data), "/status")["transactions"]
    assert found["open"] == number == counts(process)["open"]
    age_seconds = found["oldest"].pop("age_seconds")
    assert 0 < age_seconds < SECONDS_MAX
    assert found["oldest"] == {
        "transactional_id": producer.identity.transactional_id,
        "producer_id": producer.identity.producer_id,
        "producer_epoch": producer.identity.producer_epoch,
    }


def test_refused_batch_opens_nothing(process: HoldfastProcess, cluster: Cluster) -> None:
    """A batch that was refused leaves no transaction behind that anybody would have to look after."""
    producer = begun(cluster, "refused")
    assert producer.generation is TV2
    producer.commit()
    batch = build_batch(
        [Record(value=b"v")],
        producer_id=producer.identity.producer_id,
        producer_epoch=producer.identity.producer_epoch,
        base_sequence=7,
        transactional=True,
    )
    request = produce("refused", {TopicPartition("t", 0): batch})
    (verdict,) = verdicts(cluster.any_broker().send(request, versions=TV2.produce))
    assert verdict.code == OutOfOrderSequence.kafka_code
    assert counts(process)["open"] == 0
