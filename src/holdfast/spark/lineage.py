"""Whether columns of a frame are those of the frame that it was made of."""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame


def passes_through(before: DataFrame, after: DataFrame, names: Sequence[str]) -> bool:
    """Whether each of these columns is the same attribute in both frames, so that every row has them as they were.

    Spark gives another id to whatever is computed, be it under the same name; but a union has the ids of its first side
    for the rows of all, and keeps them when it is checkpointed. So both plans have to begin with the same leaf, and
    with no other. False where it cannot be told, too: with Spark Connect plans are elsewhere.
    """
    if not all(_has_once(frame, name) for frame in (before, after) for name in names):
        return False
    if not (hasattr(before, "_jdf") and hasattr(after, "_jdf")):
        return False
    plans = [frame._jdf.queryExecution().analyzed() for frame in (before, after)]
    leaves, others = (plan.collectLeaves() for plan in plans)
    if leaves.length() != 1 or others.length() != 1 or not leaves.head().fastEquals(others.head()):
        return False
    ids = (_ids(plan, frame.columns, names) for plan, frame in zip(plans, (before, after), strict=True))
    return all(one.equals(other) for one, other in zip(*ids, strict=True))


def _has_once(frame: DataFrame, name: str) -> bool:
    """As it is written here, and not in capitals besides: Spark may take the one for the other."""
    return name in frame.columns and [each.lower() for each in frame.columns].count(name.lower()) == 1


def _ids(plan: Any, columns: Sequence[str], names: Sequence[str]) -> Iterator[Any]:
    attributes = plan.output()
    for name in names:
        yield attributes.apply(columns.index(name)).exprId()
