"""PySpark's worker daemon with the kernels loaded, so that no forked worker loads or compiles them.

Spark starts it by name (`spark.python.daemon.module`). Only numpy, numba and the kernels may be imported
here: pyarrow and pandas start threads, and a process with threads must not fork.
"""

from pyspark.daemon import manager

from holdfast.records.warm import warm

if __name__ == "__main__":
    warm()
    manager()
