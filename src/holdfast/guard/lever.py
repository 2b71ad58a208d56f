"""The lever: two settings of a topic that, together, let no cleaner begin a pass, and say who has pulled it.

With min.compaction.lag.ms at the greatest number no segment is ever old enough; max.compaction.lag.ms goes with it,
because the controller refuses a smaller one. A little less than the greatest does the same, so how much less is
the mark of the guard that pulled it: set in the same request, seen by every other guard.
"""

from dataclasses import dataclass
from typing import Final

MIN_LAG: Final = "min.compaction.lag.ms"
MAX_LAG: Final = "max.compaction.lag.ms"

LONG_MAX: Final = 2**63 - 1
MARKS_MAX: Final = 2**31 - 1
"""Milliseconds of a month: what is that close to the end of time was set by a guard."""


@dataclass(frozen=True, slots=True)
class Lags:
    """Both settings as a topic has them of its own; None where it has none."""

    min_ms: str | None = None
    max_ms: str | None = None

    def changes_to(self, wanted: "Lags") -> "Change":
        """What has to be asked for, so that these become `wanted`."""
        put, unset = {}, []
        pairs = ((MIN_LAG, self.min_ms, wanted.min_ms), (MAX_LAG, self.max_ms, wanted.max_ms))
        for name, now, then in pairs:
            if then is None and now is not None:
                unset.append(name)
            elif then is not None and then != now:
                put[name] = then
        return Change(put=put, unset=tuple(unset))


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One request: settings that get a value, and settings that a topic shall no longer have of its own."""

    put: dict[str, str]
    unset: tuple[str, ...]


def pulled(mark: int) -> Lags:
    """The settings of a topic that the guard of this mark has paused."""
    assert 0 < mark <= MARKS_MAX
    return Lags(str(LONG_MAX - mark), str(LONG_MAX))


def mark_of(lags: Lags) -> int | None:
    """Whose mark a topic bears, if any."""
    if lags.min_ms is None or not lags.min_ms.isdecimal():
        return None
    mark = LONG_MAX - int(lags.min_ms)
    return mark if 0 < mark <= MARKS_MAX else None


def given_back(now: Lags, owner: Lags, mark: int) -> Lags:
    """What a topic is to have after a pause: what is still the guard's as its owner had it, all else as it is now."""
    ours = pulled(mark)
    return Lags(
        owner.min_ms if now.min_ms == ours.min_ms else now.min_ms,
        owner.max_ms if now.max_ms == ours.max_ms else now.max_ms,
    )
