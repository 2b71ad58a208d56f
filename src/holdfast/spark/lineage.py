"""Whether columns of a frame are those of the frame that it was made of."""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame


def passes_through(before: DataFrame, after: DataFrame, names: Sequence[str]) -> bool:
    """Whether each of these columns is the same attribute in both frames, so that every row has them as they were.

    Spark gives another id to whatever is computed, be it under the same name; but a union has the ids of its first side
    for the rows of all. False where it cannot be told: with frames that were put together, and with Spark Connect,
    whose plans are elsewhere.
    """
    if any(name not in frame.columns for frame in (before, after) for name in names):
        return False
    if not (hasattr(before, "_jdf") and hasattr(after, "_jdf")):
        return False
    plan = _plan(after)
    if plan.collectLeaves().length() > 1:
        return False
    pairs = zip(_ids(before, _plan(before), names), _ids(after, plan, names), strict=True)
    return all(one.equals(other) for one, other in pairs)


def _plan(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _ids(frame: DataFrame, plan: Any, names: Sequence[str]) -> Iterator[Any]:
    attributes = plan.output()
    for name in names:
        yield attributes.apply(frame.columns.index(name)).exprId()
