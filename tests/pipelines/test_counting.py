"""The sums of a task are those of plain Python, whatever the numbers."""

import random
from functools import reduce
from operator import xor

import pyarrow as pa

from holdfast.pipelines.counting import count_noted
from holdfast.pipelines.tally import Sums

KIND = pa.struct(
    {
        "tenant": pa.string(),
        "window_start_ms": pa.int64(),
        "stage": pa.string(),
        "hash": pa.int64(),
        "value_bytes": pa.int64(),
        "time_ms": pa.int64(),
    }
)


def test_sums_are_those_of_plain_python() -> None:
    """Also where a sum of hashes leaves 64 bits, before 1970, and beside rows that are not to be counted."""
    rng = random.Random(20261118)
    rows = [
        {
            "tenant": rng.choice(["", "acme", "globex"]),
            "window_start_ms": rng.choice([-600_000, 0, 600_000]),
            "stage": rng.choice(["qualified", "failed"]),
            "hash": rng.choice([rng.randrange(-(2**63), 2**63), 2**63 - 1, -(2**63)]),
            "value_bytes": rng.randrange(1_000),
            "time_ms": rng.randrange(-(10**12), 10**12),
        }
        for _ in range(500)
    ]
    groups: dict[tuple[str, int, str], list[dict[str, int]]] = {}
    for row in rows:
        groups.setdefault((row["tenant"], row["window_start_ms"], row["stage"]), []).append(row)  # type: ignore[arg-type]
    expected = {
        place: Sums(
            count=len(group),
            hash_sum=sum(row["hash"] for row in group),
            hash_xor=reduce(xor, (row["hash"] for row in group)),
            value_bytes=sum(row["value_bytes"] for row in group),
            time_ms_min=min(row["time_ms"] for row in group),
            time_ms_max=max(row["time_ms"] for row in group),
        )
        for place, group in groups.items()
    }
    mixed = [each for row in rows for each in (row, None)]
    assert count_noted(pa.array(mixed, KIND)) == expected
    assert count_noted(pa.array([None], KIND)) == {}
