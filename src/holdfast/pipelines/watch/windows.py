"""What is known of tenants' windows, whoever counted them → which do not balance, and what a day has cost so far."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from holdfast.pipelines.config import DAY_MS
from holdfast.pipelines.watch.world import Mismatch, Spending

KEPT_DAYS: Final = 2
"""Yesterday tells how much a day is."""
SHARE_MIN: Final = 1 / 24
"""From less of a day nobody can tell how much the whole will be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One tenant's messages of a window."""

    end_ms: int
    ingested: int
    ended: int
    failed: int
    is_balanced: bool


Windows = Mapping[tuple[str, int], Window]
"""By tenant and start."""


def oldest_ms(now_ms: int) -> int:
    """The start of the first window that matters."""
    return now_ms - now_ms % DAY_MS - (KEPT_DAYS - 1) * DAY_MS


def find_mismatches(windows: Windows, *, sealed_ms: int) -> tuple[Mismatch, ...]:
    """The windows that ended by then and do not balance."""
    return tuple(
        Mismatch(tenant=tenant, window_ms=start_ms, ingested=window.ingested, ended=window.ended)
        for (tenant, start_ms), window in windows.items()
        if window.end_ms <= sealed_ms and not window.is_balanced
    )


def find_spendings(windows: Windows, now_ms: int) -> tuple[Spending, ...]:
    """What each tenant's day has cost; a day is as large as yesterday, or as today promises to be."""
    today_ms = now_ms - now_ms % DAY_MS
    ingested: dict[tuple[str, bool], int] = defaultdict(int)
    failed: dict[str, int] = defaultdict(int)
    for (tenant, start_ms), window in windows.items():
        is_today = start_ms >= today_ms
        ingested[tenant, is_today] += window.ingested
        failed[tenant] += window.failed if is_today else 0
    share = max(SHARE_MIN, (now_ms - today_ms) / DAY_MS)
    everything = max(1, sum(ingested.values()))
    return tuple(
        Spending(
            tenant=tenant,
            expected=max(int(ingested[tenant, True] / share), ingested[tenant, False]),
            failed=failed[tenant],
            share_of_waiting=(ingested[tenant, True] + ingested[tenant, False]) / everything,
        )
        for tenant in _tenants(windows)
    )


def _tenants(windows: Iterable[tuple[str, int]]) -> list[str]:
    return sorted({tenant for tenant, _ in windows})
