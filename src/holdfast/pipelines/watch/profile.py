"""How long what may take: from the trigger that a pipeline declares, so that its own rhythm raises no alarm.

A micro-batch begins every trigger and may last as long as one: what it takes is committed at its end. So a healthy
group may stand still for two triggers, and its oldest message have waited as long. Alarms begin a trigger later. In the
topic of an end state messages keep the time at which they were ingested: they bear the triggers of the service already.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from holdfast.pipelines.config import Alarms, Budget, Mode, Pipeline, Trigger

HEALTHY_TRIGGERS: Final = 2
ALARMING_TRIGGERS: Final = HEALTHY_TRIGGERS + 1
PAGING_TRIGGERS: Final = HEALTHY_TRIGGERS + 3
BLIND_MS: Final = 30_000
"""A group that was there is not gone for so long by accident."""
BLOCKED_MS: Final = 60_000
NO_PROGRESS_MS: Final = 60_000


class Age(NamedTuple):
    """How old a message may be that was ingested and is not forwarded."""

    warn_ms: int
    page_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The thresholds of one pipeline."""

    stall_ms: int
    ages: tuple[Age, ...]
    """By step: of what waits for the service, then, if there are adapters, of what waits for these."""
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


def derive(trigger: Trigger, alarms: Alarms, budget: Budget, mode: Mode) -> Profile:
    """The pipeline's own settings, stretched where its trigger is slower than they are."""
    healthy, alarming = HEALTHY_TRIGGERS * trigger.interval_ms, ALARMING_TRIGGERS * trigger.interval_ms
    return Profile(
        stall_ms=max(alarms.stall_ms, alarming),
        ages=tuple(
            Age(
                warn_ms=max(alarms.age_warn_ms, before * healthy + alarming),
                page_ms=max(alarms.age_page_ms, before * healthy + PAGING_TRIGGERS * trigger.interval_ms),
            )
            for before in range(steps_of(mode))
        ),
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
    return steps_of(pipeline.mode) * HEALTHY_TRIGGERS * pipeline.trigger.interval_ms


def steps_of(mode: Mode) -> int:
    """Through so many micro-batches, one after the other, a message goes to audit."""
    return 2 if mode is Mode.ADAPTER else 1
