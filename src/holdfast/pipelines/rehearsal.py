"""Tries a transform on no messages at all: what it gives back is known from the plan alone."""

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.errors import UsageError
from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.frames import Transform, end, with_identity
from holdfast.pipelines.streams import columns_of
from holdfast.spark.schema import select


def rehearse(session: SparkSession, pipeline: Pipeline, transform: Transform) -> None:
    """UsageError tells what is wrong with the transform, be it an error of its own."""
    empty = session.createDataFrame([], select(columns_of(pipeline)))
    try:
        end(with_identity(empty, pipeline.identity), pipeline, transform)
    except UsageError:
        raise
    except PySparkException as failure:
        raise UsageError(f"{pipeline.transform} fails: {_first_line(failure)}") from failure
    except Exception as failure:
        what = f"{type(failure).__name__}: {_first_line(failure)}"
        raise UsageError(f"{pipeline.transform} fails: {what}") from failure


def _first_line(failure: Exception) -> str:
    return (str(failure).splitlines() or [""])[0]
