"""A checkpoint that is older than the log: a batch that was planned anew is never taken for the committed one."""

import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from holdfast.client.cluster import Cluster
from holdfast.client.producer import Producer
from holdfast.records.build import Record
from holdfast.spark.planned import digest_of_newest, digest_of_running, local_checkpoint
from holdfast.spark.sink import QUERY_ID
from tests.spark.streams import FORMS, consume, make_topic, read_files, run, write_files

ROWS = 10


@pytest.mark.timeout(400)
@pytest.mark.parametrize("form", FORMS)
def test_an_older_checkpoint(
    spark: SparkSession, holdfast: str, tmp_path: Path, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One batch behind and nothing new: that batch is known. With anything new in it, or two behind: refused."""
    source, target = f"planned.{form}.in", f"planned.{form}.out"
    make_topic(holdfast, source, partitions=1)
    make_topic(holdfast, target)
    checkpoint, older = tmp_path / "checkpoint", [tmp_path / "one", tmp_path / "two"]

    def copy() -> None:
        reader = spark.readStream.format("holdfast").option("bootstrap", holdfast).option("topic", source)
        frame = reader.option("startingOffsets", "earliest").load().select("key", "value")
        run(lambda: FORMS[form](frame, holdfast, target, checkpoint))

    for number, kept in enumerate([*older, None]):
        send(holdfast, source, number)
        copy()
        if kept is not None:
            shutil.copytree(checkpoint, kept)
    assert consume(holdfast, target) == sent(3)

    restore(older[1], checkpoint)
    copy()
    assert consume(holdfast, target) == sent(3)

    restore(older[0], checkpoint)
    with pytest.raises(PySparkException, match="goes on with batch 1, and batch 2 is committed"):
        copy()

    restore(older[1], checkpoint)
    send(holdfast, source, 3)
    with pytest.raises(PySparkException, match="its batch 2 has other offsets"):
        copy()
    assert consume(holdfast, target) == sent(3)
    attempts = [record.getMessage() for record in caplog.records if record.name == "holdfast.spark.sink"]
    assert not any("older than" in attempt for attempt in attempts), "it was tried again, in vain"


def send(bootstrap: str, topic: str, number: int) -> None:
    with Cluster(bootstrap) as cluster:
        Producer(cluster, topic).send({0: [Record(value=value.encode()) for value in rows(number)]})


def rows(number: int) -> list[str]:
    return [f"{number}.{row}" for row in range(ROWS)]


def sent(times: int) -> Counter[str]:
    return Counter(value for number in range(times) for value in rows(number))


def restore(kept: Path, checkpoint: Path) -> None:
    shutil.rmtree(checkpoint)
    shutil.copytree(kept, checkpoint)


def test_both_forms_see_the_same_offsets(spark: SparkSession, tmp_path: Path) -> None:
    """Those of all sources, in memory and in the checkpoint: a query may go from one form to the other."""
    write_files(tmp_path / "in", 2)
    write_files(tmp_path / "more", 2)
    checkpoint = tmp_path / "checkpoint"
    seen: dict[int, tuple[str, tuple[int, str]]] = {}

    def look(frame: DataFrame, batch_id: int) -> None:
        session = frame.sparkSession
        query_id = session.sparkContext.getLocalProperty(QUERY_ID)
        assert query_id is not None
        assert digest_of_running(session, query_id, batch_id + 1) == ""
        seen[batch_id] = (digest_of_running(session, query_id, batch_id), digest_of_newest(checkpoint))

    frame = read_files(spark, tmp_path / "in").union(read_files(spark, tmp_path / "more"))
    writer = frame.writeStream.foreachBatch(look).option("checkpointLocation", str(checkpoint))
    run(lambda: writer.trigger(availableNow=True).start())
    assert len(seen) == 2
    digests = [digest for digest, _ in seen.values()]
    assert len({*digests, ""}) == 3, "one of them is empty, or both are equal"
    assert {number: newest for number, (_, newest) in seen.items()} == dict(enumerate(enumerate(digests)))


def test_what_is_elsewhere_has_no_digest(spark: SparkSession, tmp_path: Path) -> None:
    """A query that does not run, a Spark of other names, a checkpoint that is not here: nothing fails."""
    assert digest_of_running(spark, "00000000-0000-0000-0000-000000000000", 0) == ""
    other = cast(
        "SparkSession", SimpleNamespace(sparkContext=spark.sparkContext, _jsparkSession=object_of(spark))
    )
    assert digest_of_running(other, "00000000-0000-0000-0000-000000000000", 0) == ""
    assert local_checkpoint(None) is None
    assert local_checkpoint("s3a://bucket/checkpoint") is None
    assert local_checkpoint(str(tmp_path)) is None
    (tmp_path / "metadata").touch()
    assert local_checkpoint(tmp_path.as_uri()) == tmp_path
    assert digest_of_newest(tmp_path) == (-1, "")
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "7").write_text('v9\n{}\n{"logOffset":7}')
    assert digest_of_newest(tmp_path) == (7, "")


def object_of(spark: SparkSession) -> Any:
    """In Java, without any method that a session has."""
    java: Any = spark.sparkContext._jvm
    return java.java.lang.Object()
