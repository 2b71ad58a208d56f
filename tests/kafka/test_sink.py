"""Spark's sink on Apache Kafka as on Holdfast: the guards of `tests/spark/test_ticket.py`, and a query in Spark."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.streams import FORMS, consume, make_topic, read_files, wanted, write_files
from tests.spark.test_ticket import (  # noqa: F401  collected here once more, for each broker
    generation,
    options,
    test_a_late_task_of_an_earlier_attempt_is_fenced_off,
    test_a_second_copy_of_a_task_is_refused,
    test_a_time_out_costs_an_attempt,
    test_abandoning_frees_readers_and_never_undoes,
    test_tasks_write_together_and_the_token_tells,
    test_the_log_must_hold_what_was_reported,
    test_two_writers_of_one_partition_are_refused,
)

FILES = 2


@pytest.fixture
def holdfast(transactional: str) -> str:
    """What those tests call their broker."""
    return transactional


@pytest.mark.parametrize("form", FORMS)
def test_a_query_writes_every_row_once(
    transactional: str, spark: SparkSession, tmp_path: Path, form: str
) -> None:
    """And after a restart only what is new."""
    topic = f"spark.once.{form}"
    make_topic(transactional, topic)
    for files in (FILES, FILES + 1):
        write_files(tmp_path / "in", files)
        frame = read_files(spark, tmp_path / "in")
        FORMS[form](frame, transactional, topic, tmp_path / "checkpoint").awaitTermination()
        assert consume(transactional, topic) == wanted(files)
