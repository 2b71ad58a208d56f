"""What just happened, in one sentence of plain words."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from holdfast.lab import steps
from holdfast.lab.engines.engine import Engine
from holdfast.lab.scenario import FILLER_KEY, Line
from holdfast.rules.entry import Entry
from holdfast.rules.policy import Fate
from holdfast.rules.transaction import Outcome

_UNITS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second"), (1, "millisecond"))
_TOLD = {
    Fate.SHADOWED: "the outdated {what}",
    Fate.ABORTED: "the aborted {what}",
    Fate.TOMBSTONE: "the delete of {what}",
    Fate.OUTCOME: "the {what}",
    Fate.SETTLED: "",
    Fate.STAMPED: "",
    Fate.EMPTY_BATCH: "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """A line that was run, and the engine right after it."""

    line: Line
    engine: Engine


def sentence(happening: Happening) -> str:
    """One sentence for one line."""
    tell = _TELLERS.get(happening.line.verb)
    assert tell is not None, f"no words for {happening.line.verb}"
    return tell(happening)


def duration(ms: int) -> str:
    """A time in the two largest units that it has."""
    parts: list[str] = []
    for size, unit in _UNITS:
        count, ms = divmod(ms, size)
        if count and len(parts) < 2:
            parts.append(f"{count} {unit}{'s' if count != 1 else ''}")
    return " ".join(parts) or "no time"


def listed(words: Iterable[object]) -> str:
    """`1`, `1 and 2`, `1, 2 and 3`."""
    *rest, last = [str(word) for word in words] or ["nobody"]
    return f"{', '.join(rest)} and {last}" if rest else last


def replicas(numbers: Iterable[int]) -> str:
    """`replica 1`, `replicas 1 and 2`."""
    known = sorted(numbers)
    return f"{'replica' if len(known) == 1 else 'replicas'} {listed(known)}"


def _heard(engine: Engine) -> str:
    """Who has the newest record, and who has not heard of it."""
    assert engine.leader_id is not None
    end = engine.replicas[engine.leader_id].log_end
    have = [n for n, replica in engine.replicas.items() if replica.alive and replica.log_end == end]
    lack = [number for number in engine.replicas if number not in have]
    missed = f"; {replicas(lack)} {'does' if len(lack) == 1 else 'do'} not hear of it" if lack else ""
    return f"{replicas(have)} {'takes' if len(have) == 1 else 'take'} it{missed}"


def _tell_produce(happening: Happening) -> str:
    step = happening.line.steps[0]
    assert isinstance(step, steps.Produce)
    inside = f" in {step.producer}'s transaction" if step.producer else ""
    what = f"{step.key} is deleted" if step.value is None else f"{step.key}={step.value} is written"
    return f"{what}{inside}: {_heard(happening.engine)}."


def _tell_begin(happening: Happening) -> str:
    step = happening.line.steps[0]
    assert isinstance(step, steps.Begin)
    return f"Producer {step.producer} begins a transaction."


def _tell_end(happening: Happening) -> str:
    step = happening.line.steps[0]
    assert isinstance(step, steps.End)
    return (
        f"Producer {step.producer}'s transaction is {step.outcome.value}: "
        f"its outcome is written, and {_heard(happening.engine)}."
    )


def _tell_kill(happening: Happening) -> str:
    number = _replica(happening)
    leader = happening.engine.leader_id
    return f"Replica {number} goes down with its log as it is; " + (
        f"replica {leader} leads." if leader else "nobody is left to lead."
    )


def _tell_return(happening: Happening) -> str:
    number = _replica(happening)
    engine = happening.engine
    back = f"Replica {number} is back with the log that it had"
    if engine.leader_id is None:
        return f"{back}, but nobody who was in sync is up to lead."
    behind = engine.replicas[engine.leader_id].log_end - engine.replicas[number].log_end
    return f"{back}, {behind} offset{'s' if behind != 1 else ''} behind."


def _tell_lag(happening: Happening) -> str:
    number = _replica(happening)
    if happening.engine.replicas[number].alive:
        return f"Replica {number} stalls: it is up and cleans its log, but fetches nothing."
    return f"Replica {number} stalls: its store takes nothing, and nobody reaches it."


def _tell_await_isr(happening: Happening) -> str:
    engine = happening.engine
    stopped = [replica.id for replica in engine.replicas.values() if replica.halted is not None]
    end = f"; {replicas(stopped)} stopped rather than guess" if stopped else ""
    return f"Everybody fetches from its own log end on: {replicas(engine.in_sync)} in sync{end}."


def _tell_fetch(happening: Happening) -> str:
    number = _replica(happening)
    engine = happening.engine
    assert engine.leader_id is not None
    reached, leader = engine.replicas[number].log_end, engine.replicas[engine.leader_id]
    return f"Replica {number} copies from replica {leader.id}, up to offset {reached} of {leader.log_end}."


def _tell_force_leader(happening: Happening) -> str:
    return f"Replica {_replica(happening)} leads now."


def _tell_join(happening: Happening) -> str:
    return f"Replica {_replica(happening)} joins with an empty disk."


def _tell_leave(happening: Happening) -> str:
    return f"Replica {_replica(happening)} leaves for good, and its log is dropped."


def _tell_advance(happening: Happening) -> str:
    step = happening.line.steps[0]
    assert isinstance(step, steps.Advance)
    return f"{duration(step.ms).capitalize()} pass{'es' if duration(step.ms)[:2] == '1 ' else ''}."


def _tell_cleaning(happening: Happening) -> str:
    return f"Cleaners look at their logs: {_effects(happening.engine)}."


def _tell_churn(happening: Happening) -> str:
    passed = sum(step.ms for step in happening.line.steps if isinstance(step, steps.Advance))
    return (
        f"{duration(passed).capitalize()} of other records and cleaner passes: {_effects(happening.engine)}."
    )


def _tell_consume_via(happening: Happening) -> str:
    step = happening.line.steps[0]
    assert isinstance(step, steps.ConsumeVia)
    read = happening.engine.replicas[step.replica].read(step.isolation)
    told = [f"{e.key}={'✗' if e.value is None else e.value}" for e in read if e.key != FILLER_KEY]
    fillers = sum(1 for entry in read if entry.key == FILLER_KEY)
    if fillers:
        told.append(f"{fillers} filler record{'s' if fillers != 1 else ''}")
    got = listed(told) if told else "nothing at all"
    return f"A {step.isolation.value} consumer reads through replica {step.replica} and gets {got}."


def _effects(engine: Engine) -> str:
    """What the passes removed, told once for all replicas that did the same."""
    by_what: dict[str, list[int]] = {}
    for number, done in engine.passes:
        for fate, entry in done.fates:
            if entry.key != FILLER_KEY and _TOLD[fate]:
                by_what.setdefault(_TOLD[fate].format(what=_name(engine, entry)), []).append(number)
    by_who: dict[tuple[int, ...], list[str]] = {}
    for what, numbers in by_what.items():
        by_who.setdefault(tuple(sorted(set(numbers))), []).append(what)
    told = [
        f"{replicas(who)} {'drops' if len(who) == 1 else 'drop'} {listed(dict.fromkeys(what))}"
        for who, what in by_who.items()
    ]
    return "; ".join(told + _waiting(engine)) or "nothing of note is dropped"


def _waiting(engine: Engine) -> list[str]:
    """Under coordination: whom everybody waits for."""
    down = [replica.id for replica in engine.replicas.values() if not replica.alive]
    removable = None if engine.leader_id is None else engine.removable(engine.leader_id)
    if removable is None or not down:
        return []
    return [
        f"deletes from offset {removable.mtro} and outcomes from {removable.mxro} on "
        f"wait for {replicas(down)}"
    ]


def _name(engine: Engine, entry: Entry) -> str:
    if entry.marker is None:
        return f"{entry.key}" if entry.value is None else f"{entry.key}={entry.value}"
    producer = engine.producer_name(entry.producer_id)
    return f"{'COMMIT' if entry.marker is Outcome.COMMITTED else 'ABORT'} of producer {producer}"


def _replica(happening: Happening) -> int:
    step = happening.line.steps[0]
    number = getattr(step, "replica", None)
    assert isinstance(number, int)
    return number


_TELLERS: dict[str, Callable[[Happening], str]] = {
    "produce": _tell_produce,
    "delete": _tell_produce,
    "begin": _tell_begin,
    "commit": _tell_end,
    "abort": _tell_end,
    "kill": _tell_kill,
    "return": _tell_return,
    "lag": _tell_lag,
    "await-isr": _tell_await_isr,
    "fetch": _tell_fetch,
    "force-leader": _tell_force_leader,
    "join": _tell_join,
    "leave": _tell_leave,
    "advance": _tell_advance,
    "clean": _tell_cleaning,
    "settle": _tell_cleaning,
    "churn": _tell_churn,
    "consume-via": _tell_consume_via,
}
