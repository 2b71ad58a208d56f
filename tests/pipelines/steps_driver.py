"""A part of a pipeline in a driver of its own, to be killed; its arguments are FILE PART COUNTER STEP NTH."""

import os
import sys
from pathlib import Path

from holdfast.pipelines.loading import load_pipeline
from holdfast.spark.session import spark_session
from holdfast.spark.steps import Step
from tests.pipelines.kills import run_part
from tests.spark.streams import SHORT_LIVED, KillAt


def main() -> int:
    """Does what there is to do, unless it is killed together with its JVM."""
    file, part, counter, step, nth = sys.argv[1:]
    spark = spark_session("driver", master="local[2]", config=SHORT_LIVED)
    java = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
    hook = KillAt(step=Step[step], nth=int(nth), counter=Path(counter), pids=(java, os.getpid()))
    run_part(spark, load_pipeline(Path(file)), part, hook)
    return 0


if __name__ == "__main__":
    sys.exit(main())
