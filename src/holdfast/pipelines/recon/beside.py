"""The stores' own files in place of an agent, where tasks run on the machine that has them: no socket in between."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import SparkSession

from holdfast.client.beside import find_admin_beside
from holdfast.client.cluster import Cluster
from holdfast.client.readings import ReadingWanted
from holdfast.errors import ConnectionFailed, ReadingRefused, StoreFailed
from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.recon.reading import Piece, topics_of
from holdfast.spark.held import HeldReading, hold_reading
from holdfast.spark.master import is_local
from holdfast.spark.stored_plan import cover


@contextmanager
def held_beside(session: SparkSession, cluster: Cluster, pipeline: Pipeline) -> Iterator[HeldReading | None]:
    """What the stores hold of all topics, as of now, and until this ends; None if the way leads through an agent."""
    held = _hold(session, cluster, pipeline)
    try:
        yield held
    finally:
        if held is not None:
            held.release()


def place(held: HeldReading | None, pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces with the files that hold them. What the reading does not reach to is left to an agent."""
    if held is None:
        return list(pieces)
    found = {work.offsets: work for work in cover(held, [piece.offsets for piece in pieces])}
    return [replace(piece, stored=found.get(piece.offsets)) for piece in pieces]


def _hold(session: SparkSession, cluster: Cluster, pipeline: Pipeline) -> HeldReading | None:
    if not is_local(str(session.conf.get("spark.master", ""))):
        return None
    address = find_admin_beside(cluster)
    if address is None:
        return None
    try:
        return hold_reading(address, ReadingWanted(topics=list(topics_of(pipeline))))
    except (ConnectionFailed, StoreFailed, ReadingRefused):
        return None
