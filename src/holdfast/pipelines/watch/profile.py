"""How long what may take: from the trigger that a pipeline declares, so that its own rhythm raises no alarm.

A micro-batch begins every trigger and may last as long as one: what it takes is committed at its end. So a healthy
group may stand still for two triggers, and its oldest message be as old. Alarms begin at three.
"""

from dataclasses import dataclass
from typing import Final

from holdfast.pipelines.config import Alarms, Budget, Mode, Pipeline, Trigger

HEALTHY_TRIGGERS: Final = 2
ALARMING_TRIGGERS: Final = 3
PAGING_TRIGGERS: Final = 5
BLIND_MS: Final = 30_000
"""A group that was there is not gone for so long by accident."""
BLOCKED_MS: Final = 60_000
NO_PROGRESS_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The thresholds of one pipeline."""

    stall_ms: int
    age_warn_ms: int
    age_page_ms: int
    canary_every_ms: int
    canary_wait_ms: int
    blocked_ms: int
    no_progress_ms: int
    blind_ms: int
    never_seen_ms: int
    runway_warn_ms: int
    runway_page_ms: int
    in_doubt_ms: int
    """What waits for longer than this is in doubt, and counts as spent."""
    budget: float


def derive(trigger: Trigger, alarms: Alarms, budget: Budget) -> Profile:
    """The pipeline's own settings, stretched where its trigger is slower than they are."""
    healthy, alarming = HEALTHY_TRIGGERS * trigger.interval_ms, ALARMING_TRIGGERS * trigger.interval_ms
    return Profile(
        stall_ms=max(alarms.stall_ms, alarming),
        age_warn_ms=max(alarms.age_warn_ms, alarming),
        age_page_ms=max(alarms.age_page_ms, PAGING_TRIGGERS * trigger.interval_ms),
        canary_every_ms=alarms.canary_ms,
        canary_wait_ms=max(alarms.canary_ms * 3 // 2, alarming),
        blocked_ms=max(BLOCKED_MS, alarming),
        no_progress_ms=max(NO_PROGRESS_MS, alarming),
        blind_ms=BLIND_MS,
        never_seen_ms=max(BLIND_MS, alarming),
        runway_warn_ms=alarms.runway_warn_ms,
        runway_page_ms=alarms.runway_page_ms,
        in_doubt_ms=max(alarms.stall_ms, healthy),
        budget=budget.failed,
    )


def passing_ms(pipeline: Pipeline) -> int:
    """How long a message may be on its way from ingest to audit: through a service, and an adapter if there is one."""
    steps = 2 if pipeline.mode is Mode.ADAPTER else 1
    return steps * HEALTHY_TRIGGERS * pipeline.trigger.interval_ms
