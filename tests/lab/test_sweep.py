"""No finite delete.retention.ms is enough under Kafka's rules; none is needed under coordination."""

from holdfast.lab.sweep import diverges
from holdfast.rules.policy import DAY_MS, HOUR_MS

RUNS = 8


def share(policy: str, outage_ms: int, retention_ms: int) -> float:
    return sum(diverges(policy, outage_ms, retention_ms, seed) for seed in range(RUNS)) / RUNS


def test_an_outage_within_the_retention_does_no_harm() -> None:
    """Time protects as long as there is enough of it."""
    assert share("kafka", 12 * HOUR_MS, DAY_MS) == 0


def test_for_every_retention_there_is_an_outage_that_is_too_long() -> None:
    """Ten times the retention harms most runs, from an hour to thirty days."""
    for retention_ms in (HOUR_MS, DAY_MS, 30 * DAY_MS):
        assert share("kafka", 10 * retention_ms, retention_ms) > 0.5


def test_coordination_needs_no_retention() -> None:
    """The same runs agree, however short the retention is."""
    for retention_ms in (1, HOUR_MS):
        assert share("coordinated", 90 * DAY_MS, retention_ms) == 0


def test_a_run_is_repeatable() -> None:
    """The same place in the sweep gives the same answer."""
    runs = [[diverges("kafka", 4 * DAY_MS, 3 * DAY_MS, seed) for seed in range(12)] for _ in range(2)]
    assert runs[0] == runs[1]
    assert 0 < sum(runs[0]) < 12
