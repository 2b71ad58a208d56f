"""Rows that go through the sink are in the topic once, whatever dies on the way."""

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.spark.steps import Step
from tests.spark.streams import FORMS, consume, make_topic, read_files, wanted, write_files

FILES = 3
DRIVER_S_MAX = 100.0


@pytest.mark.parametrize("form", FORMS)
def test_every_row_once(spark: SparkSession, holdfast: str, tmp_path: Path, form: str) -> None:
    """And after a restart only what is new."""
    topic = f"once.{form}"
    make_topic(holdfast, topic)
    write_files(tmp_path / "in", FILES)
    for files in (FILES, FILES + 1):
        write_files(tmp_path / "in", files)
        frame = read_files(spark, tmp_path / "in")
        FORMS[form](frame, holdfast, topic, tmp_path / "checkpoint").awaitTermination()
        assert consume(holdfast, topic) == wanted(files)


@pytest.mark.parametrize("form", FORMS)
def test_killed_driver(spark: SparkSession, holdfast: str, tmp_path: Path, form: str) -> None:
    """Killed with its JVM when a batch is committed and nobody was told: the next driver finds the token."""
    step = {"sink": Step.ENDED, "format": Step.WRITTEN}[form]
    topic = f"driver.{form}"
    make_topic(holdfast, topic)
    write_files(tmp_path / "in", FILES)
    checkpoint = tmp_path / "checkpoint"
    arguments = [holdfast, topic, str(tmp_path / "in"), str(checkpoint), form, step.name, "2"]
    driver = subprocess.run(
        [sys.executable, "-m", "tests.spark.sink_driver", *arguments], timeout=DRIVER_S_MAX, check=False
    )
    assert driver.returncode == -9
    assert 0 < consume(holdfast, topic).total() < wanted(FILES).total() or step is not Step.ENDED
    FORMS[form](read_files(spark, tmp_path / "in"), holdfast, topic, checkpoint).awaitTermination()
    assert consume(holdfast, topic) == wanted(FILES)
