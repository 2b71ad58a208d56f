"""The scenario's days as a real cluster's seconds: one scale for the story's time and for every timer."""

from dataclasses import dataclass

from holdfast.lab import steps
from holdfast.lab.scenario import Scenario
from holdfast.rules.policy import NEVER_MS, CompactionConfig

RETENTION_MS = 2_000
"""What delete.retention.ms is in reality unless more time is given: as fast as brokers follow without luck."""
SEGMENT_MS_MIN = 100
CLEANER_PAUSE_MS = 200
EXPIRY_PAUSE_MS = 500

SESSION_MS = 4_000
LAG_MS = 5_000
"""A broker that is gone, or stalls, leaves the ISR within these, however fast the story runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long a time of the story takes."""

    scale: float
    """Real milliseconds for one of the story."""

    def real_ms(self, story_ms: int, *, least_ms: int = 1) -> int:
        """A setting or a wait in reality; what never ends never does."""
        if story_ms == NEVER_MS:
            return NEVER_MS
        return max(least_ms, round(story_ms * self.scale))

    def story_ms(self, real_s: float) -> int:
        """What a stretch of reality is in the story."""
        return round(real_s * 1000 / self.scale)

    def topic_configs(self, config: CompactionConfig) -> dict[str, str]:
        """The scenario's settings for its topic; it goes on with one replica, as the model does."""
        configs = {
            "cleanup.policy": "compact",
            "min.insync.replicas": "1",
            "delete.retention.ms": str(self.real_ms(config.delete_retention_ms)),
            "segment.ms": str(self.real_ms(config.segment_ms, least_ms=SEGMENT_MS_MIN)),
            "min.cleanable.dirty.ratio": str(config.min_cleanable_dirty_ratio),
            "min.compaction.lag.ms": str(self.real_ms(config.min_compaction_lag_ms, least_ms=0)),
        }
        if config.max_compaction_lag_ms != NEVER_MS:
            configs["max.compaction.lag.ms"] = str(self.real_ms(config.max_compaction_lag_ms))
        return configs

    def broker_properties(self, config: CompactionConfig) -> dict[str, str]:
        """Timers of the brokers: the scenario's producer ids, and cleaners that look all the time."""
        return {
            "log.cleaner.backoff.ms": str(CLEANER_PAUSE_MS),
            "producer.id.expiration.ms": str(min(self.real_ms(config.producer_id_expiration_ms), 2**31 - 1)),
            "producer.id.expiration.check.interval.ms": str(EXPIRY_PAUSE_MS),
            "broker.session.timeout.ms": str(SESSION_MS),
            "broker.heartbeat.interval.ms": str(SESSION_MS // 8),
            "replica.lag.time.max.ms": str(LAG_MS),
            "auto.leader.rebalance.enable": "false",
        }


def timing_of(scenario: Scenario, within_ms: int | None) -> Timing:
    """The time that passes in the story in `within_ms`; else delete.retention.ms as fast as it goes."""
    story_ms = sum(
        step.ms for line in scenario.lines for step in line.steps if isinstance(step, steps.Advance)
    )
    if within_ms is None or not story_ms:
        return Timing(scale=RETENTION_MS / min(scenario.config.delete_retention_ms, NEVER_MS))
    return Timing(scale=within_ms / story_ms)
