"""Every guard of the removal protocol and of the coordinated policy, and how to take it out.

A guard that can be taken out without `holdfast lab explore` noticing is either superfluous or beyond the
reach of its schedules; both are faults. Production code has no switch for any of this: a guard is a function
or a property that the rules look up by name, and `without` puts another in its place for a while.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from holdfast.errors import UsageError
from holdfast.lab.engines.replica import Replica
from holdfast.rules import fencing, removal, removal_leader, survival
from holdfast.rules.entry import Entry
from holdfast.rules.grace import Coverage
from holdfast.rules.lineage import LineageHistory
from holdfast.rules.log_transactions import LogTransactions
from holdfast.rules.membership import ReplicaId
from holdfast.rules.removal import UNREPORTED, Removable, Unreported
from holdfast.rules.removal_replica import ReplicaState
from holdfast.rules.survival import Forgettable
from holdfast.rules.transaction import Instances, Outcome

NOWHERE = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What holds, and what stands in its place when it is taken out: (owner, name, replacement)."""

    holds: str
    removal: tuple[tuple[Any, str, Any], ...]


def _never(*_: object) -> bool:
    return False


def _always(*_: object, **__: object) -> bool:
    return True


def _minimum_of_those_heard(
    reports: Mapping[ReplicaId, int | Unreported], members: Iterable[ReplicaId]
) -> int | Unreported:
    heard = [reports.get(member, UNREPORTED) for member in members]
    return min((value for value in heard if not isinstance(value, Unreported)), default=UNREPORTED)


def _latest(current: int, computed: int | Unreported) -> int:
    return current if isinstance(computed, Unreported) else computed


def _unguarded(**ends: int) -> Any:
    """`survival.forgettable` with some of its bounds replaced."""
    whole = survival.forgettable

    def forgettable(removable: Removable, **more: Any) -> Forgettable:
        bounds = whole(removable, **more)
        return replace(bounds, **ends)

    return forgettable


def _grace_from_local_clean(
    removable: Removable, *, clean: Coverage, covered: Coverage, now_ms: int, delete_retention_ms: int
) -> Forgettable:
    end = min(removable.mtro, clean.expired(now_ms, delete_retention_ms))
    return Forgettable(tombstones_end=end, outcomes_end=removable.mxro)


def _tombstones_by_time(
    removable: Removable, *, clean: Coverage, covered: Coverage, now_ms: int, delete_retention_ms: int
) -> Forgettable:
    end = clean.expired(now_ms, delete_retention_ms)
    return Forgettable(tombstones_end=end, outcomes_end=removable.mxro)


def _append_with_guesses(transactions: LogTransactions, entry: Entry) -> None:
    """As in Kafka: the next outcome of a producer also decides what it left open before."""
    open_instance = transactions._open_by_producer.get(entry.producer_id)
    if entry.transactional and open_instance not in (None, entry.instance):
        entry = replace(entry, instance=open_instance)
    _append(transactions, entry)


def _guess(instances: Instances, instance: int) -> Outcome:
    return instances._outcomes.get(instance, Outcome.COMMITTED)


_append = LogTransactions.append

GUARDS: dict[str, Guard] = {
    "lineage": Guard(
        holds="what was said before a truncation is refused after it",
        removal=((fencing, "stale_lineage", _never),),
    ),
    "term": Guard(
        holds="a deposed leader is refused and steps down",
        removal=((fencing, "stale_term", _never),),
    ),
    "membership": Guard(
        holds="a leader that lacks a member cannot collect from who knows of it",
        removal=((fencing, "stale_membership", _never),),
    ),
    "incarnation": Guard(
        holds="an earlier life's word and disk do not count for the next",
        removal=((fencing, "other_replica", _never),),
    ),
    "generation": Guard(
        holds="a disk that was put back to an older state gets no lease",
        removal=((fencing, "stale_generation", _never),),
    ),
    "all-members": Guard(
        holds="the minimum is over all members, silent ones too",
        removal=((removal, "removal_offset", _minimum_of_those_heard),),
    ),
    "never-backward": Guard(
        holds="within a lineage a removal offset never goes back",
        removal=((removal, "risen", _latest),),
    ),
    "hear-from-all": Guard(
        holds="only a leader that heard from all gives a joining replica its start",
        removal=((removal_leader, "may_give_start", _always),),
    ),
    "start": Guard(
        holds="a joining replica copies nothing before it has its start",
        removal=((ReplicaState, "may_copy", property(_always)),),
    ),
    "rebuild": Guard(
        holds="a log that lacks records for the sake of some that were cut off is rebuilt",
        removal=((LineageHistory, "may_follow", _always),),
    ),
    "thinned-copy": Guard(
        holds="a log copied from a compacted one is known to lack records",
        removal=((ReplicaState, "copied_from", lambda self, source: self),),
    ),
    "epochs": Guard(
        holds="a copied log has its source's epoch history, not what is left of it in the batches",
        removal=((Replica, "follow_epochs", lambda self, source: None),),
    ),
    "grace": Guard(
        holds="consumers' grace runs from when every replica was clean, not from the local clean",
        removal=((survival, "forgettable", _grace_from_local_clean),),
    ),
    "mtro": Guard(
        holds="a tombstone goes only below MTRO",
        removal=((survival, "forgettable", _tombstones_by_time),),
    ),
    "mxro": Guard(
        holds="an outcome goes only below MXRO",
        removal=((survival, "forgettable", _unguarded(outcomes_end=NOWHERE)),),
    ),
    "deadline": Guard(
        holds="a clean and idle log is visited again when something may be forgotten",
        removal=((survival, "anything_forgettable", _never),),
    ),
    "absence": Guard(
        holds="no outcome is ever guessed: a missing one stops the replica (takes effect with `mxro` only)",
        removal=(
            (LogTransactions, "append", _append_with_guesses),
            (LogTransactions, "require_decided", lambda self, end: None),
            (Instances, "outcome", _guess),
        ),
    ),
}


@contextmanager
def without(names: Iterable[str]) -> Iterator[None]:
    """Take guards out for as long as the context lasts, in this process."""
    with ExitStack() as stack:
        for name in names:
            if name not in GUARDS:
                raise UsageError(f"unknown guard '{name}'; known are: {', '.join(GUARDS)}")
            for owner, attribute, replacement in GUARDS[name].removal:
                stack.enter_context(patch.object(owner, attribute, replacement))
        yield
