"""PySpark's worker daemon with the kernels loaded, so that no forked worker loads or compiles them.

Spark starts it by name (`spark.python.daemon.module`). Only numpy, numba and the kernels may be imported
here: pyarrow and pandas start threads, and a process with threads must not fork.
"""

from pyspark.daemon import manager

import holdfast.records.kernel  # noqa: F401

if __name__ == "__main__":
    manager()
