"""Taking turns: every round runs a load on each endpoint, so that a busy machine disturbs all of them."""

import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Rates = dict[str, list[float]]
"""Rates by the endpoint's name, one for each round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Medians of both sides, and the median of the rounds' own ratios."""

    value: float
    baseline: float
    ratio: float


def take_turns(works: Mapping[str, Callable[[], float]], *, rounds: int, warm_up_rounds: int = 1) -> Rates:
    """An unmeasured round first: JVMs get warm, caches fill. Dirty pages of others are written before each."""
    rates: Rates = {name: [] for name in works}
    for number in range(warm_up_rounds + rounds):
        for name, work in works.items():
            os.sync()
            rate = work()
            if number >= warm_up_rounds:
                rates[name].append(rate)
    return rates


def ratio(subject: Sequence[float], baseline: Sequence[float]) -> Ratio:
    """How many times as good the subject is; both in the order of the rounds."""
    return Ratio(
        value=statistics.median(subject),
        baseline=statistics.median(baseline),
        ratio=statistics.median(ours / theirs for ours, theirs in zip(subject, baseline, strict=True)),
    )
