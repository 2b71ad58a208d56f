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
    """Remembers what was built from equal arguments for as long as its JVM lives.

    Columns may name columns alone: one that belongs to a frame would hold on to it.
    """
    by_jvm: WeakKeyDictionary[Any, Callable[..., Built]] = WeakKeyDictionary()

    @functools.wraps(build)
    def find(*given: Given.args, **named: Given.kwargs) -> Built:
        gateway = SparkContext._gateway
        if gateway is None:
            # Spark Connect has no JVM here, and its columns cost nothing to build.
            return build(*given, **named)
        if gateway not in by_jvm:
            by_jvm[gateway] = functools.lru_cache(KEPT_MAX)(build)
        return by_jvm[gateway](*given, **named)

    return find
