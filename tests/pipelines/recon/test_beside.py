"""The stores' own files hold what an agent tells, and what they do not hold yet is asked of the agent."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition
from holdfast.client.offsets import LATEST, list_offsets
from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.pipelines.config import EndState
from holdfast.pipelines.recon.beside import held_beside, place
from holdfast.pipelines.recon.looking import pieces_of_day, view_partitions
from holdfast.pipelines.recon.reading import Piece, read_piece
from tests.pipelines.recon.scenes import DAY, PARTITIONS, Scene, record

NOON = DAY.start_ms + 43_200_000


def pieces(cluster: Cluster, scene: Scene) -> list[Piece]:
    views = view_partitions(cluster, scene.pipeline)
    return pieces_of_day(scene.pipeline, views, DAY, tenant=None, tasks=5)


def rows(work: list[Piece]) -> list[dict[str, Any]]:
    return [row for piece in work for batch in read_piece(piece) for row in batch.to_pylist()]


def test_files_hold_what_an_agent_tells(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    scene = Scene(cluster, tmp_path, "beside")
    scene.create_topics()
    scene.run("acme", [f"id-{number}" for number in range(60)])
    scene.audit("acme", None, NOON, EndState.FAILED)
    scene.write()
    with held_beside(spark, cluster, scene.pipeline) as held:
        placed = place(held, pieces(cluster, scene))
        assert [piece.stored for piece in placed].count(None) == 0 < len(placed)
        fetched = rows([replace(piece, stored=None) for piece in placed])
        assert len(fetched) == 60 + 61 + 20 + 1  # ingest, audit, qualified; the nameless one twice
        assert rows(placed) == fetched

        scene.run("birch", [f"id-{number}" for number in range(10)])
        scene.write()
        later = place(held, pieces(cluster, scene))
        assert any(piece.stored is None for piece in later)
        assert len(rows(later)) == len(fetched) + 10 + 10 + 4


def test_files_hold_nothing_that_was_aborted_or_is_open(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    scene = Scene(cluster, tmp_path, "undecided")
    scene.create_topics()
    scene.run("acme", [f"id-{number}" for number in range(20)])
    scene.write()
    producers = [TransactionalProducer(cluster, f"undecided-{end}") for end in ("commit", "abort", "open")]
    for producer in producers:
        producer.init()
        producer.begin()
        for partition in range(PARTITIONS):
            told = record("acme", f"of-{producer.identity.transactional_id}-{partition}", time_ms=NOON)
            producer.send(scene.pipeline.ingest, partition, [told])
    committed, aborted, opened = producers
    committed.commit()
    aborted.abort()
    scene.ingest("acme", "behind-it", NOON)
    scene.write()
    ends = {
        TopicPartition(scene.pipeline.ingest, partition): end
        for partition, end in list_offsets(
            cluster, scene.pipeline.ingest, dict.fromkeys(range(PARTITIONS), LATEST)
        ).items()
    }
    with held_beside(spark, cluster, scene.pipeline) as held:
        assert held is not None
        placed = place(held, pieces(cluster, scene))
        assert [piece.stored for piece in placed].count(None) == 0 < len(placed)
        found = rows(placed)
        assert found == rows([replace(piece, stored=None) for piece in placed])
        assert len(found) == 20 + 20 + 7 + PARTITIONS  # ingest, audit, qualified; what was committed
        reached = {(each.topic, each.partition): each.end for each in held.reading.partitions}
        assert all(reached[where] < end for where, end in ends.items()), "not past what is open"
    opened.abort()


def test_executors_on_other_machines_ask_an_agent(cluster: Cluster, tmp_path: Path) -> None:
    class Elsewhere:
        class conf:
            @staticmethod
            def get(name: str, default: str) -> str:
                return "spark://elsewhere:7077"

    scene = Scene(cluster, tmp_path, "elsewhere")
    scene.create_topics()
    with held_beside(Elsewhere(), cluster, scene.pipeline) as held:
        assert held is None
