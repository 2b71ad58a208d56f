"""PySpark's worker daemon with the kernels loaded, so that no forked worker loads or compiles them.

Spark starts it by name (`spark.python.daemon.module`). Only numpy, numba and the kernels may be imported
here: pyarrow and pandas start threads, and a process with threads must not fork.
"""

import gc
from contextlib import suppress

from pyspark.daemon import manager


def load_kernels() -> None:
    """Where something is missing, the first task that needs it says so in its own words; a dead daemon could not."""
    with suppress(ImportError):
        from holdfast.records.warm import warm  # noqa: PLC0415

        warm()
    # PySpark collects garbage after every task: through all that was loaded here that took 0.1 s, and each worker
    # wrote to the memory that it shares with the others.
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    load_kernels()
    manager()
