"""The stores' own files hold what an agent tells, and what they do not hold yet is asked of the agent."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from holdfast.client.cluster import Cluster
from holdfast.pipelines.config import EndState
from holdfast.pipelines.recon.beside import held_beside, place
from holdfast.pipelines.recon.looking import day_starts, pieces_of_day, view_partitions
from holdfast.pipelines.recon.reading import Piece, read_piece
from tests.pipelines.recon.scenes import DAY, Scene

NOON = DAY.start_ms + 43_200_000


def pieces(cluster: Cluster, scene: Scene) -> list[Piece]:
    views = view_partitions(cluster, scene.pipeline)
    starts = day_starts(cluster, views, DAY)
    return pieces_of_day(scene.pipeline, views, DAY, starts, tenant=None, tasks=5)


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
