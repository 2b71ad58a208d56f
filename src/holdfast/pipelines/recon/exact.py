"""A small exact look: so few rows that they are counted in this process, where a plan with a shuffle takes longer.

How many rows it takes is known beforehand, from the cells. Ids are counted by pattern: how often each was seen at every
stage. There are few patterns, and the law itself judges each.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.pipelines.config import EndState
from holdfast.pipelines.recon.law import Kind, Law, Stage, Tally, is_conserved, kinds_of
from holdfast.pipelines.recon.reading import INGESTED, UNREADABLE, number_of
from holdfast.records.fingerprints import Fingerprints
from holdfast.records.kernel.fingerprint import COUNT
from holdfast.spark.reconcile import Group

HERE_ROWS_MAX: Final = 400_000


def count_wanted(cells: Fingerprints[Group], wanted: Mapping[Group, Sequence[int]]) -> int:
    """How many rows an exact look takes."""
    return sum(int(cells.cells(group)[list(buckets), COUNT].sum()) for group, buckets in wanted.items())


def suspects_here(rows: pa.Table, law: Law) -> list[tuple[bytes, Tally]]:
    """The identities that break the law as far as these rows tell; the missing before all others."""
    counted = rows.filter(pc.less(rows["stage"], UNREADABLE))
    if not counted.num_rows:
        return []
    identities = pa.concat_arrays(counted["identity"].chunks).dictionary_encode()
    places = np.asarray(identities.indices, np.int64) * UNREADABLE + np.asarray(counted["stage"])
    seen = np.bincount(places, minlength=len(identities.dictionary) * UNREADABLE).reshape(-1, UNREADABLE)
    patterns, which = _patterns(seen)
    found: list[tuple[bytes, Tally]] = []
    tallies = [tally_of(dict(enumerate(pattern))) for pattern in patterns.tolist()]
    first = [number for number, each in enumerate(tallies) if Kind.MISSING in kinds_of(each, law)]
    for number in (*first, *sorted(set(range(len(tallies))) - set(first))):
        if not is_conserved(tallies[number], law):
            rows_of_it = pa.array(np.flatnonzero(which == number))
            named = identities.dictionary.take(rows_of_it).to_pylist()
            found += [(identity, tallies[number]) for identity in named]
    return found


def _patterns(seen: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows that are different, and which of them each row is."""
    bases = tuple(int(most) + 1 for most in seen.max(axis=0))
    if math.prod(bases) >= 2**63:
        patterns, which = np.unique(seen, axis=0, return_inverse=True)
        return patterns, which.reshape(-1)
    # As digits of one number: rows themselves take several times as long to sort.
    _, firsts, which = np.unique(
        np.ravel_multi_index(tuple(seen.T), bases), return_index=True, return_inverse=True
    )
    return seen[firsts], which


def noted_here(rows: pa.Table, named_max: int) -> list[dict[str, Any]]:
    """The rows that are named one by one, up to so many."""
    noted: list[dict[str, Any]] = (
        rows.filter(pc.greater_equal(rows["stage"], UNREADABLE)).slice(0, named_max).to_pylist()
    )
    return noted


def tally_of(seen: Mapping[int, int]) -> Tally:
    """Of what was seen by the number of the stage."""
    return Tally(
        ingested=seen[INGESTED],
        audited={state: seen[number_of(Stage.AUDIT, state)] for state in EndState},
        delivered={state: seen[number_of(Stage.DELIVERED, state)] for state in EndState},
    )
