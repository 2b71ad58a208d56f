"""Is there a delete.retention.ms that is long enough? Outage length by retention, share of runs that diverge.

Every run is a small random workload with one replica away for the length of the outage, seeded by its place
in the sweep: the same sweep twice gives the same figures.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.lab import steps
from holdfast.lab.engines.engine import POLICIES
from holdfast.lab.engines.model import Model
from holdfast.lab.verdict import judge
from holdfast.rules.policy import DAY_MS, HOUR_MS, CompactionConfig
from holdfast.rules.transaction import Outcome

RETENTIONS_MS = (HOUR_MS, 6 * HOUR_MS, DAY_MS, 3 * DAY_MS, 7 * DAY_MS, 30 * DAY_MS)
OUTAGES_MS = tuple(hours * HOUR_MS for hours in (1, 4, 12, 24, 48, 96, 192, 480, 960, 2160))
RUNS = 20
TICKS = 24
"""How often, during an outage, something is written and the cleaners look."""

REPLICAS = 3
LATE = 3
KEYS = "abcd"
PRODUCER = "p"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepCell:
    """One outage length under one retention and one policy."""

    policy: str
    outage_ms: int
    retention_ms: int
    runs: int
    diverged: int

    @property
    def share(self) -> float:
        """How many of the runs went wrong."""
        return self.diverged / self.runs

    def as_json(self) -> dict[str, Any]:
        """The cell for programs."""
        return {
            "policy": self.policy,
            "outage_ms": self.outage_ms,
            "delete_retention_ms": self.retention_ms,
            "runs": self.runs,
            "diverged": self.diverged,
            "share": self.share,
        }


def cells_count() -> int:
    """How many cells a sweep has."""
    return len(POLICIES) * len(RETENTIONS_MS) * len(OUTAGES_MS)


def sweep(runs: int = RUNS) -> Iterator[SweepCell]:
    """All cells, Kafka's first."""
    for policy in POLICIES:
        for retention_ms in RETENTIONS_MS:
            for outage_ms in OUTAGES_MS:
                yield SweepCell(
                    policy=policy,
                    outage_ms=outage_ms,
                    retention_ms=retention_ms,
                    runs=runs,
                    diverged=sum(diverges(policy, outage_ms, retention_ms, seed) for seed in range(runs)),
                )


def diverges(policy: str, outage_ms: int, retention_ms: int, seed: int) -> bool:
    """One run: does any replica show something else than what was written, once all are back?"""
    rng = random.Random(f"{outage_ms} {retention_ms} {seed}")
    config = CompactionConfig(
        delete_retention_ms=retention_ms,
        producer_id_expiration_ms=DAY_MS,
        min_cleanable_dirty_ratio=0.0,
        segment_ms=0,
    )
    model = Model(policy=policy, replicas=REPLICAS, config=config)
    for key in KEYS:
        model.apply(steps.Produce(key, "before"))
    model.apply(steps.Begin(PRODUCER))
    model.apply(steps.Produce(rng.choice(KEYS), "in doubt", PRODUCER))
    model.apply(steps.Kill(LATE))
    model.apply(steps.End(PRODUCER, rng.choice((Outcome.COMMITTED, Outcome.ABORTED))))
    for pause_ms in _pauses(rng, outage_ms):
        model.apply(steps.Advance(pause_ms))
        model.apply(_write(rng))
        for number in range(1, REPLICAS):
            model.apply(steps.Clean(number))
        model.apply(steps.Exchange())
    model.apply(steps.Return(LATE))
    model.apply(steps.AwaitIsr())
    return bool(judge(model))


def _pauses(rng: random.Random, outage_ms: int) -> list[int]:
    """The outage, cut into ticks of random length."""
    cuts = sorted(rng.randrange(outage_ms) for _ in range(TICKS - 1))
    return [end - start for start, end in zip([0, *cuts], [*cuts, outage_ms], strict=True)]


def _write(rng: random.Random) -> steps.Produce:
    """Mostly a record that matters to nobody; now and then a delete."""
    if rng.random() < 1 / 6:
        return steps.Produce(rng.choice(KEYS), None)
    return steps.Produce("filler", "x")
