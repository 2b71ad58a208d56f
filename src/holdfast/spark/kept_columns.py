"""Columns, built once for all micro-batches: each takes dozens of calls into the JVM, and does not change."""

import functools
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from pyspark import SparkContext

Given = ParamSpec("Given")
Built = TypeVar("Built")

KEPT_MAX: Final = 64
"""Of each kind: a process has few queries, and each few schemas."""


def built_once(build: Callable[Given, Built]) -> Callable[Given, Built]:
    """Remembers what was built from equal arguments for as long as its session lives.

    Functions of Python's are bound to their session. Columns may name columns alone: one that belongs to a frame would
    hold on to it.
    """
    by_context: WeakKeyDictionary[Any, Callable[..., Built]] = WeakKeyDictionary()

    @functools.wraps(build)
    def find(*given: Given.args, **named: Given.kwargs) -> Built:
        context = SparkContext._active_spark_context
        if context is None:
            # Spark Connect has no JVM here, and its columns cost nothing to build.
            return build(*given, **named)
        if context not in by_context:
            by_context[context] = functools.lru_cache(KEPT_MAX)(build)
        return by_context[context](*given, **named)

    return find
