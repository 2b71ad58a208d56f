"""How every kernel is compiled, and where the machine code is kept.

numba's own disk cache notices a change in the file of the function it holds, but not in the files of those
that were compiled into it; and it keeps apart what lies at different paths, such as the copies that Spark makes for
each executor. So ours is named after the content of all kernel sources: new sources, new directory, wherever they lie.
"""

import hashlib
import os
from collections.abc import Callable
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from numba import config, njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache

Function = TypeVar("Function", bound=Callable[..., Any])

_SOURCES: Traversable = files(__package__ or "")
"""A directory, or a place in a zip."""


def compiled(function: Function) -> Function:
    """Compile on first call, or load what an earlier process has compiled.

    Kernels allocate nothing and return no arrays, so they need no references counted: numba counts with atomic
    instructions, a pair of which costs as much as half a record.
    """
    kernel = njit(nogil=True, _nrt=False)(function)
    if _DIRECTORY is not None:
        kernel._cache = _Cache(function)
    return kernel


def inlined(function: Function) -> Function:
    """A small function that is compiled into its callers and never alone."""
    return njit(nogil=True, inline="always")(function)


def cache_directory() -> Path | None:
    """Where compiled kernels are kept: NUMBA_CACHE_DIR, beside the sources, or the user's cache."""
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    beside = Path(str(_SOURCES), "__pycache__")
    choices = [Path(config.CACHE_DIR)] if config.CACHE_DIR else [beside, user_cache / "holdfast"]
    for choice in choices:
        directory = choice / f"kernels-{_digest()[:16]}"
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(directory, os.W_OK):
            return directory
    return None


def _digest() -> str:
    sources = sorted(
        (each for each in _SOURCES.iterdir() if each.name.endswith(".py")), key=lambda it: it.name
    )
    return hashlib.sha256(b"".join(each.read_bytes() for each in sources)).hexdigest()


_DIRECTORY = cache_directory()


class _Locator:
    """Tells numba where a kernel is kept: in the one directory, whatever the path of its source."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        self._py_file = file  # numba names it in a warning
        self._line = function.__code__.co_firstlineno

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> "_Locator":
        return cls(function, file)

    def ensure_cache_path(self) -> None:
        assert _DIRECTORY is not None
        _DIRECTORY.mkdir(parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        return str(_DIRECTORY)

    def get_source_stamp(self) -> str:
        """The directory's name says it for all."""
        return str(_DIRECTORY and _DIRECTORY.name)

    def get_disambiguator(self) -> str:
        return str(self._line)


class _CacheImplementation(CompileResultCacheImpl):
    _locator_classes = (_Locator,)


class _Cache(FunctionCache):
    """What `cache=True` would make, with our locator."""

    _impl_class = _CacheImplementation
