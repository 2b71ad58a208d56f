"""What survives a pass on Holdfast: what decides others' fate stays until every replica has acted on it.

These functions are the whole rule. Time is only ever a grace for consumers on top of what the replicas have
reported (MTRO, MXRO); no clock can make a removal safe.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.errors import OutcomeMissing
from holdfast.rules.entry import Entry
from holdfast.rules.grace import Coverage
from holdfast.rules.policy import CompactionConfig, Fate, LogView, Pass
from holdfast.rules.removal import Removable
from holdfast.rules.transaction import Instances, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgettable:
    """How far one pass may forget: two exclusive bounds."""

    tombstones_end: int
    outcomes_end: int


def forgettable(
    removable: Removable, *, clean: Coverage, covered: Coverage, now_ms: int, delete_retention_ms: int
) -> Forgettable:
    """What a replica may forget now; `clean` and `covered` say since when its MCCO and MTRO cover what.

    A tombstone goes below MTRO only, and its grace counts from the later of "first clean here" and "MTRO
    covered it", so that a slow replica never cuts short the time that consumers have to see the delete. An
    outcome goes below MXRO and needs no grace: consumers never see outcomes, only their effect.
    """
    grace_over = min(clean.expired(now_ms, delete_retention_ms), covered.expired(now_ms, delete_retention_ms))
    return Forgettable(tombstones_end=min(removable.mtro, grace_over), outcomes_end=removable.mxro)


def may_forget(entry: Entry, bounds: Forgettable) -> bool:
    """Whether the tombstone or the outcome may go; other records never go by age."""
    if entry.marker is not None:
        return entry.offset < bounds.outcomes_end
    return entry.value is None and entry.offset < bounds.tombstones_end


def pass_end(log: LogView, *, bounds: Forgettable, config: CompactionConfig) -> int | None:
    """Where a pass ends that is due now: by dirty ratio, by max lag, or because something may be forgotten.

    The last is what brings a clean and idle log to rest: without it, its tombstones would stay for ever.
    """
    end = _cleanable_end(log, config)
    clean = sum(1 for entry in log.entries if entry.offset < log.first_dirty)
    dirty = [entry for entry in log.entries if log.first_dirty <= entry.offset < end]
    if dirty and is_due(
        clean=clean,
        dirty=len(dirty),
        oldest_dirty_ms=dirty[0].timestamp_ms,
        now_ms=log.now_ms,
        config=config,
    ):
        return end
    return end if anything_forgettable(log.entries, bounds) else None


def is_due(*, clean: int, dirty: int, oldest_dirty_ms: int, now_ms: int, config: CompactionConfig) -> bool:
    """Whether there is enough to clean, or it has waited long enough; sizes in one unit, whichever it is.

    `oldest_dirty_ms` is the time of the first dirty record. One without a time (-1) is never overdue, as in Kafka.
    """
    overdue = oldest_dirty_ms >= 0 and now_ms - oldest_dirty_ms > config.max_compaction_lag_ms
    return overdue or dirty / (dirty + clean) > config.min_cleanable_dirty_ratio


def clean(log: LogView, end: int, *, instances: Instances, bounds: Forgettable) -> Pass:
    """One pass over [0, end), up to the LSO at most: settle, keep each key's newest, forget what may go."""
    done = settle(log.entries, end, instances=instances)
    newest = {entry.key: entry.offset for entry in done.entries if entry.marker is None}
    survivors = []
    for entry in done.entries:
        if entry.marker is None and entry.offset < newest[entry.key]:
            done.fates.append((Fate.SHADOWED, entry))
        elif may_forget(entry, bounds):
            done.fates.append((Fate.TOMBSTONE if entry.marker is None else Fate.OUTCOME, entry))
        else:
            survivors.append(entry)
    done.entries = survivors
    return done


def settle(entries: Sequence[Entry], end: int, *, instances: Instances) -> Pass:
    """Apply outcomes below `end`: aborted batches go, committed ones become plain data, markers stay."""
    done = Pass()
    for entry in entries:
        if entry.offset >= end:
            break
        if not entry.transactional or entry.marker is not None:
            done.entries.append(entry)
            continue
        outcome = instances.outcome(entry.instance)
        if outcome is Outcome.COMMITTED:
            plain = replace(entry, transactional=False)
            done.entries.append(plain)
            done.fates.append((Fate.SETTLED, plain))
        elif outcome is Outcome.ABORTED:
            done.fates.append((Fate.ABORTED, entry))
        else:
            raise OutcomeMissing(f"offset {entry.offset} is below the end of the pass and not decided")
    return done


def anything_forgettable(entries: Sequence[Entry], bounds: Forgettable) -> bool:
    """Whether a pass would find a tombstone or an outcome that may go."""
    last = max(bounds.tombstones_end, bounds.outcomes_end)
    for entry in entries:
        if entry.offset >= last:
            return False
        if may_forget(entry, bounds):
            return True
    return False


def _cleanable_end(log: LogView, config: CompactionConfig) -> int:
    end = log.last_stable_offset
    for entry in log.entries:
        if log.first_dirty <= entry.offset < end and is_young(entry.timestamp_ms, log.now_ms, config):
            return entry.offset
    return max(end, log.first_dirty)


def is_young(timestamp_ms: int, now_ms: int, config: CompactionConfig) -> bool:
    """Whether a record has to wait until min.compaction.lag.ms has passed, and all that follows with it."""
    return config.min_compaction_lag_ms > 0 and timestamp_ms > now_ms - config.min_compaction_lag_ms
