"""What a random schedule begins with, drawn from its seed."""

from dataclasses import dataclass
from random import Random

from holdfast.rules.policy import CompactionConfig

RETENTION_MS = 1_000
STEPS = {"kafka": (60, 160), "coordinated": (30, 70)}
"""How long a schedule is; under Kafka's policy a step costs less, and harm needs more passes of the cleaner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a schedule begins with."""

    policy: str
    replicas: int
    config: CompactionConfig
    length: int
    readers_only: bool = False


def setting_of(rng: Random, policy: str, replicas: int | None, *, readers_only: bool = False) -> Setting:
    """The partition that a seed plays with."""
    drawn = rng.choice((1, 2, 3, 3, 3, 3, 4, 5))
    config = CompactionConfig(
        delete_retention_ms=RETENTION_MS,
        min_compaction_lag_ms=rng.choice((0, 0, 0, 0, 0, 0, 0, 50)),
        min_cleanable_dirty_ratio=0.0,
        producer_id_expiration_ms=rng.choice((RETENTION_MS, 100 * RETENTION_MS)),
        segment_batches=rng.choice((1, 1, 2)),
    )
    return Setting(
        policy=policy,
        replicas=replicas or drawn,
        config=config,
        length=rng.randint(*STEPS[policy]),
        readers_only=readers_only,
    )
