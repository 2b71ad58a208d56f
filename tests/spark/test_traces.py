"""What is made of Spark's texts: one line that says why."""

import pytest

from holdfast.spark.traces import cause_line
from tests.spark.failed import read_failure

OF_JAVA = """\
An error occurred while calling o170.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 8.0 failed 1 times, \
most recent failure: Lost task 0.0 in stage 8.0 (TID 9): org.apache.spark.SparkException: Python worker exited \
unexpectedly (crashed)
\tat org.apache.spark.api.python.BasePythonRunner.run(PythonRunner.scala:1)
Caused by: java.io.EOFException
\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:1)
"""
OF_PYTHON = """\
An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "dead.py", line 78, in _search
numpy._core._exceptions._ArrayMemoryError: Unable to allocate 512. GiB for an array
"""


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (OF_JAVA, "SparkException: Python worker exited unexpectedly (crashed)"),
        (OF_PYTHON, "_ArrayMemoryError: Unable to allocate 512. GiB for an array (dead.py:78, in _search)"),
        ("\nsomething else\nand more", "something else"),
        (f"SparkException: {'x' * 1000}", f"SparkException: {'x' * 284}"),
    ],
)
def test_why_a_job_failed_is_one_line(message: str, told: str) -> None:
    """The innermost cause, or the first line."""
    assert cause_line(message) == told


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("udf", "KeyError: 'amount' (checks.py:9, in amount)"),
        ("transform", "KeyError: 'column' (checks.py:26, in deeper)"),
        ("wordless", "ValueError (checks.py:44, in empty_error)"),
        ("column", "AnalysisException: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function"),
        ("cast", "NumberFormatException: [CAST_INVALID_INPUT] The value '7253edc618187993-1' of the type"),
        (
            "lost",
            "offsets 42 to 44 of a.in-0 were removed before they were read (retention or DeleteRecords)",
        ),
    ],
)
def test_why_a_query_failed_is_one_line(name: str, told: str) -> None:
    """Of whole texts, as Spark 4.2 has them for queries of a pipeline, with their plans behind."""
    line = cause_line(read_failure(name))
    assert line.startswith(told)
    assert "\n" not in line
    places = {"cast": "(checks.py:35)", "column": "(checks.py:39, in no_column)"}
    assert line.endswith(places.get(name, ""))
