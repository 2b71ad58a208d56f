"""Random frames, fitting and not, for both control planes: the same refusals, the same answers to every verb."""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.store.footer import (
    GroupOffsetStaged,
    TransactionalIdSet,
    TransactionBegun,
)
from tests.control.drafts import DRAFT, HELD_BY, STORE, Draft, plan
from tests.control.pair import Pair

LOST: st.SearchStrategy[list[int]] = st.sampled_from([[], [], [], [], [], [], [1], [2], [3]])

TRANSACTIONAL = (
    TransactionBegun.kind,
    "extent of an instance",
    GroupOffsetStaged.kind,
    "commit",
    "abort",
    TransactionalIdSet.kind,
)
ACCEPTED_MIN = 50
"""So many of each are in frames that were not refused."""


class Frame(NamedTuple):
    """Changes that were planned together, the stores that took them, and one that did not."""

    drafts: list[Draft]
    stores: list[int]
    lost: list[int]


class Step(NamedTuple):
    """What else happens, as a method of `Pair` and what to call it with."""

    name: str
    arguments: tuple[object, ...]


FRAME = st.builds(Frame, st.lists(DRAFT, min_size=1, max_size=5), HELD_BY, LOST)
STEPS: list[st.SearchStrategy[Frame] | st.SearchStrategy[Step]] = [
    *[FRAME] * 12,
    st.builds(Step, st.just("trim"), st.tuples(st.integers(1, 9))),
    st.builds(Step, st.just("replay_from_too_early"), st.tuples(st.integers(1, 3), LOST)),
    st.builds(Step, st.just("add_store"), st.tuples(st.sampled_from([1, 2]))),
    st.builds(Step, st.just("drop_stores"), st.tuples(st.lists(STORE, max_size=2))),
    st.builds(Step, st.just("restart"), st.just(())),
]


@pytest.mark.timeout(600)
def test_both_planes_agree_on_everything() -> None:
    """After every step; and of each kind enough was accepted for that to mean something."""
    accepted: Counter[str] = Counter()

    @settings(max_examples=60)
    @given(st.lists(st.sampled_from(STEPS).flatmap(lambda step: step), min_size=20, max_size=30))
    def run(steps: list[Frame | Step]) -> None:
        with TemporaryDirectory() as folder:
            pair = Pair(Path(folder) / "control.db")
            try:
                for step in steps:
                    if isinstance(step, Frame):
                        pair.apply(plan(pair.plane, step.drafts), step.stores, step.lost)
                    else:
                        getattr(pair, step.name)(*step.arguments)
                pair.finish()
            finally:
                pair.close()
            accepted.update(pair.accepted)

    run()
    assert not [kind for kind in TRANSACTIONAL if accepted[kind] < ACCEPTED_MIN], accepted
