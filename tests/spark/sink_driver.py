"""A Spark driver of its own, to be killed; its arguments are BOOTSTRAP TOPIC FILES CHECKPOINT FORM STEP NTH."""

import os
import sys
from pathlib import Path

from holdfast.spark.session import spark_session
from holdfast.spark.steps import Step
from tests.spark.conftest import SHORT_LIVED
from tests.spark.streams import FORMS, KillAt, read_files


def main() -> int:
    """Copies the files, unless it is killed."""
    bootstrap, topic, files, checkpoint, form, step, nth = sys.argv[1:]
    spark = spark_session("driver", master="local[2]", config=SHORT_LIVED)
    java = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
    counter = Path(checkpoint).with_suffix(".steps")
    hook = KillAt(step=Step[step], nth=int(nth), counter=counter, pids=(java, os.getpid()))
    query = FORMS[form](read_files(spark, Path(files)), bootstrap, topic, Path(checkpoint), hook)
    query.awaitTermination()
    return 0


if __name__ == "__main__":
    sys.exit(main())
