"""How every kernel is compiled, and where the machine code is kept.

numba's own disk cache notices a change in the file of the function it holds, but not in the files of those
that were compiled into it. So the directory is named after all kernel sources: new sources, new directory.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from numba import config, njit

Function = TypeVar("Function", bound=Callable[..., Any])

_SOURCES = Path(__file__).parent


def compiled(function: Function) -> Function:
    """Compile on first call, or load what an earlier process has compiled.

    Kernels allocate nothing and return no arrays, so they need no references counted: numba counts with atomic
    instructions, a pair of which costs as much as half a record.
    """
    with _cache_directory():
        return njit(nogil=True, cache=True, _nrt=False)(function)


def inlined(function: Function) -> Function:
    """A small function that is compiled into its callers and never alone."""
    return njit(nogil=True, inline="always")(function)


def cache_directory() -> Path | None:
    """Where compiled kernels are kept: NUMBA_CACHE_DIR, beside the sources, or the user's cache."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(_SOURCES.glob("*.py")))).hexdigest()
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    choices = (
        [Path(config.CACHE_DIR)] if config.CACHE_DIR else [_SOURCES / "__pycache__", user_cache / "holdfast"]
    )
    for choice in choices:
        directory = choice / f"kernels-{digest[:16]}"
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(directory, os.W_OK):
            return directory
    return None


_DIRECTORY = cache_directory()


@contextmanager
def _cache_directory() -> Iterator[None]:
    """numba reads the setting once, when a function is decorated; other people's functions keep theirs."""
    before = config.CACHE_DIR
    if _DIRECTORY is not None:
        config.CACHE_DIR = str(_DIRECTORY)
    try:
        yield
    finally:
        config.CACHE_DIR = before
