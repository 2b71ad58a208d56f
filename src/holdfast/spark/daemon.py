"""PySpark's worker daemon with the kernels loaded, so that no forked worker loads or compiles them.

Spark starts it by name (`spark.python.daemon.module`). Only numpy, numba and the kernels may be imported
here: pyarrow and pandas start threads, and a process with threads must not fork.
"""

import gc
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, ParamSpec

Given = ParamSpec("Given")

FREEZES_MAX: Final = 8
"""Of a worker, before as many of its tasks: by then it has loaded what it needs. What becomes garbage later than right
after its own task has to be found."""


def prefer_installed(paths: list[str]) -> None:
    """Take Spark's zip of PySpark off the path where the same PySpark is installed: a zip holds no compiled modules.

    Spark puts the zip first, and each worker compiled all that it needs of it: one to two seconds.
    """
    for path in [path for path in paths if path.endswith("/pyspark/python/lib/pyspark.zip")]:
        installed = Path(path).parents[2]
        if str(installed.parent) in paths and (installed / "__init__.py").is_file():
            paths.remove(path)


def load_kernels() -> None:
    """Where something is missing, the first task that needs it says so in its own words; a dead daemon could not."""
    with suppress(ImportError):
        from holdfast.records.warm import warm  # noqa: PLC0415

        warm()
    # PySpark collects garbage after every task: through all that was loaded here that took 0.1 s, and each worker
    # wrote to the memory that it shares with the others.
    gc.collect()
    gc.freeze()


def freezing(run_task: Callable[Given, int]) -> Callable[Given, int]:
    """The same, for a worker's first tasks with what survived the collection before it left out of later ones.

    To go through all that a worker loads besides the kernels took 0.05 s after each task.
    """
    freezes = 0

    def run(*given: Given.args, **named: Given.kwargs) -> int:
        nonlocal freezes
        if freezes < FREEZES_MAX:
            freezes += 1
            gc.freeze()
        return run_task(*given, **named)

    return run


if __name__ == "__main__":
    prefer_installed(sys.path)
    from pyspark import daemon

    from holdfast.spark.parting import ending_quietly

    load_kernels()
    if hasattr(daemon, "worker"):  # else a PySpark that we do not know: it does without
        daemon.worker = freezing(ending_quietly(daemon.worker))
    daemon.manager()
