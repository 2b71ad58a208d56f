"""A Spark driver of its own, to be killed; its arguments are BOOTSTRAP TOPIC DIRECTORY FORM STEP NTH."""

import os
import sys
from pathlib import Path

from holdfast.spark.session import spark_session
from holdfast.spark.steps import Step
from tests.spark.streams import FORMS, SHORT_LIVED, KillAt, read_files


def main() -> int:
    """Copies the files, unless it is killed together with its JVM."""
    bootstrap, topic, name, form, step, nth = sys.argv[1:]
    directory = Path(name)
    spark = spark_session("driver", master="local[2]", config=SHORT_LIVED)
    java = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
    hook = KillAt(step=Step[step], nth=int(nth), counter=directory / "steps", pids=(java, os.getpid()))
    frame = read_files(spark, directory / "in")
    FORMS[form](frame, bootstrap, topic, directory / "checkpoint", hook).awaitTermination()
    return 0


if __name__ == "__main__":
    sys.exit(main())
