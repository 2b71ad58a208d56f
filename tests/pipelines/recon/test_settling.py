"""Ends of partitions on a log that is written to all the time: what holds an answer up, and what does not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.client.cluster import Cluster
from holdfast.client.offsets import list_offsets
from holdfast.client.producer import Producer
from holdfast.client.retry import Patience
from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.pipelines.config import EndState
from holdfast.pipelines.recon import looking
from holdfast.pipelines.recon.day import PartitionView
from holdfast.pipelines.recon.looking import view_partitions
from tests.pipelines.recon.scenes import DAY, Scene, record

NOON = DAY.start_ms + 43_200_000
Q = EndState.QUALIFIED


@pytest.fixture
def scene(cluster: Cluster, tmp_path: Path) -> Scene:
    """Topics without a record."""
    made = Scene(cluster, tmp_path, tmp_path.name)
    made.create_topics()
    return made


@pytest.fixture
def producer(cluster: Cluster, scene: Scene) -> Iterator[TransactionalProducer]:
    """A service, say, that is in a transaction."""
    made = TransactionalProducer(cluster, f"{scene.pipeline.name}.live")
    made.init()
    made.begin()
    made.send(scene.pipeline.audit, 0, [record("acme", "a", time_ms=NOON, state=Q)])
    yield made
    made.abort()


def first_of_audit(scene: Scene, cluster: Cluster, patience: Patience | None = None) -> PartitionView:
    views = view_partitions(cluster, scene.pipeline, patience=patience)
    return next(view for view in views if (view.topic, view.partition) == (scene.pipeline.audit, 0))


def test_what_is_written_while_somebody_looks_is_no_open_transaction(
    scene: Scene, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*arguments: Any, **options: Any) -> dict[int, int]:
        found = list_offsets(*arguments, **options)
        if arguments[1] == scene.pipeline.audit:
            Producer(cluster, scene.pipeline.audit).send({0: [record("acme", "a", time_ms=NOON, state=Q)]})
        return found

    monkeypatch.setattr(looking, "list_offsets", ask)
    view = first_of_audit(scene, cluster)
    assert view.read_to >= view.end > 0


def test_a_transaction_is_waited_for_and_those_that_begin_behind_it_are_not(
    scene: Scene, cluster: Cluster, producer: TransactionalProducer
) -> None:
    """As a service runs: each time somebody waits it commits, and begins the next one."""
    waits: list[float] = []

    def go_on(seconds: float) -> None:
        waits.append(seconds)
        producer.commit()
        producer.begin()
        producer.send(scene.pipeline.audit, 0, [record("acme", "a", time_ms=NOON, state=Q)])

    view = first_of_audit(scene, cluster, Patience(10, sleep=go_on))
    assert len(waits) == 1
    assert view.read_to >= view.end > 0


@pytest.mark.usefixtures("producer")
def test_a_transaction_that_hangs_is_waited_for_until_patience_ends(scene: Scene, cluster: Cluster) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    view = first_of_audit(scene, cluster, Patience(10, clock=lambda: now[0], sleep=sleep))
    assert (view.read_to, view.end, now[0]) == (0, 1, 10)
