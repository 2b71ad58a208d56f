"""Counting."""

from holdfast.agent.counters import Histogram


def test_histogram() -> None:
    """A value counts at the first bound that it does not pass, the last count is for what passes all."""
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        histogram.observe(value)
    assert histogram.counts == [2, 2, 1]
    assert histogram.total == 7.5
