"""Finds the user's function, `module:function`: beside the pipeline's file first, then where Python looks."""

import importlib
import sys
from collections.abc import Callable
from typing import Any

from holdfast.errors import UsageError
from holdfast.pipelines.config import Pipeline


def find_transform(pipeline: Pipeline) -> Callable[..., Any]:
    """Imports it; UsageError names the line of the file and what went wrong."""
    module_name, _, name = pipeline.transform.partition(":")
    directory = str(pipeline.path.parent.resolve())
    if directory not in sys.path:
        sys.path.insert(0, directory)
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(module_name)
    except Exception as failure:
        raise UsageError(
            f"{pipeline.at('transform')}: cannot import {module_name!r}: {type(failure).__name__}: {failure}"
        ) from failure
    found = getattr(module, name, None)
    if not callable(found):
        what = "is not a function" if hasattr(module, name) else "is not there"
        raise UsageError(f"{pipeline.at('transform')}: {name!r} {what} in {module.__file__ or module_name}")
    return found
