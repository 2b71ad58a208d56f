"""Workers of PySpark that end without a word when Java is gone.

A worker whose socket is closed wants to tell Java of that, fails, and prints a traceback. By TCP the telling works,
since nobody has said yet that nobody listens; a Unix socket breaks at once, after every session that ends.
"""

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, ParamSpec

Given = ParamSpec("Given")

GONE: Final = 1
"""Ends the worker."""
DAEMON: Final = "pyspark.daemon"
STREAM_RUNNER: Final = "pyspark.sql.streaming.python_streaming_source_runner"
"""A process for each stream, which plans its micro-batches until the stream is stopped."""


def ending_quietly(run_task: Callable[Given, int]) -> Callable[Given, int]:
    """PySpark's `daemon.worker`, which runs one task in a worker that was forked for it, but for what it prints."""

    def run_quietly(*given: Given.args, **named: Given.kwargs) -> int:
        try:
            return run_task(*given, **named)
        except BrokenPipeError:
            return GONE

    return run_quietly


def quiet() -> None:
    """What plans our reads and writes runs in PySpark's own processes, whatever the session says: change them inside.

    Called when one loads the data source. Elsewhere it does nothing, nor with a PySpark that we do not know.
    """
    main: Any = sys.modules["__main__"]
    # Debuggers leave it without a spec.
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name == DAEMON and hasattr(main, "worker") and not hasattr(main, "_quiet"):
        main.worker = ending_quietly(main.worker)
        main._quiet = True
    elif name == STREAM_RUNNER:
        sys.excepthook = _tell_if_java_is_there


def _tell_if_java_is_there(
    kind: type[BaseException], failure: BaseException, trace: TracebackType | None
) -> None:
    if not issubclass(kind, BrokenPipeError):
        sys.__excepthook__(kind, failure, trace)
