"""The account of a run: after every line, what each replica holds and what is seen through it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from holdfast.errors import OutcomeMissing, UsageError
from holdfast.lab import steps
from holdfast.lab.engines.engine import Engine, SeenReplica, StepError
from holdfast.lab.engines.model import Model
from holdfast.lab.narration import Happening, sentence
from holdfast.lab.scenario import FILLER_KEY, Line, Scenario
from holdfast.lab.verdict import Finding, judge
from holdfast.rules.entry import Entry
from holdfast.rules.transaction import Outcome


class Look(Enum):
    """How a batch looks to the replica that holds it."""

    VALUE = "value"
    TOMBSTONE = "tombstone"
    OPEN = "open"
    ABORTED = "aborted"
    COMMIT = "commit"
    ABORT = "abort"
    EMPTY = "empty"
    FILLER = "filler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One batch in a strip."""

    offset: int
    look: Look
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """One replica at one moment."""

    replica: int
    state: str
    cells: tuple[Cell, ...]
    last_stable_offset: int
    high_watermark: int
    log_end: int
    removable: tuple[int, int] | None
    """MTRO and MXRO as far as they have reached this replica, under a policy that has them."""
    seen: dict[str, str]
    """What a read_committed consumer of this replica ends up with, filler left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What is to be told after one line."""

    line: Line
    now_ms: int
    sentence: str
    remark: str
    is_still: bool
    """Nothing that the strips show has changed, and nobody looked."""
    strips: tuple[Strip, ...]
    findings: tuple[Finding, ...]


@dataclass(slots=True, kw_only=True)
class Account:
    """A run from beginning to end."""

    scenario: Scenario
    engine: Engine
    frames: list[Frame] = field(default_factory=list)

    @property
    def policy(self) -> str:
        """Who compacted."""
        return self.engine.policy

    @property
    def findings(self) -> list[Finding]:
        """Each difference once, in the order in which it was first seen."""
        first: dict[tuple[int, str], Finding] = {}
        for frame in self.frames:
            for finding in frame.findings:
                first.setdefault((finding.replica, finding.about), finding)
        return list(first.values())

    @property
    def halted(self) -> list[SeenReplica]:
        """Replicas that stopped themselves rather than guess."""
        return [replica for replica in self.engine.replicas.values() if replica.halted is not None]

    @property
    def variants(self) -> list[str]:
        """The harms that were seen, in the order in which they were."""
        return list(dict.fromkeys(finding.variant for finding in self.findings if finding.variant))

    @property
    def variant(self) -> str | None:
        """The first harm that was seen."""
        return next(iter(self.variants), None)

    @property
    def verdict(self) -> str:
        """The run in a word or two."""
        if self.agreed:
            return "agreed"
        word = "diverged" if self.findings else "halted"
        return f"{word}: {', '.join(self.variants)}" if self.variants else word

    @property
    def agreed(self) -> bool:
        """Whether every replica showed what was written whenever somebody looked."""
        return not self.findings and not self.halted

    def removed(self) -> dict[str, int]:
        """What the cleaners have forgotten in all."""
        replicas = self.engine.replicas.values()
        return {
            "tombstones": sum(replica.tombstones_removed for replica in replicas),
            "outcomes": sum(replica.outcomes_removed for replica in replicas),
        }

    def as_json(self) -> dict[str, Any]:
        """The account's end, for programs."""
        return {
            "scenario": self.scenario.name,
            "engine": self.engine.name,
            "policy": self.policy,
            "diverged": bool(self.findings),
            "halted": bool(self.halted),
            "variant": self.variant,
            "replicas": [_replica_json(replica, strip) for replica, strip in self._last()],
            "evidence": [
                {"replica": finding.replica, "variant": finding.variant, "what": finding.what}
                for finding in self.findings
            ]
            + [{"replica": replica.id, "variant": None, "what": replica.halted} for replica in self.halted],
            "removed": self.removed(),
        }

    def _last(self) -> Iterator[tuple[SeenReplica, Strip]]:
        for strip in self.frames[-1].strips:
            yield self.engine.replicas[strip.replica], strip


def begin(scenario: Scenario, *, policy: str) -> Account:
    """A run on the model that has not taken its first step."""
    return begin_on(Model(policy=policy, replicas=scenario.replicas, config=scenario.config), scenario)


def begin_on(engine: Engine, scenario: Scenario) -> Account:
    """The same on an engine that was made for the scenario."""
    return Account(scenario=scenario, engine=engine)


def advance(account: Account) -> Iterator[Frame]:
    """Run line by line; each frame is also kept in the account."""
    for line in account.scenario.lines:
        frame = _run_line(account, line)
        account.frames.append(frame)
        yield frame


def run(scenario: Scenario, *, policy: str) -> Account:
    """The whole run."""
    account = begin(scenario, policy=policy)
    for _ in advance(account):
        pass
    return account


def _run_line(account: Account, line: Line) -> Frame:
    engine = account.engine
    engine.passes.clear()
    stopped = None
    for step in line.steps:
        try:
            engine.apply(step)
        except StepError as refused:
            if isinstance(step, steps.Clean | steps.Settle):
                continue  # "all cleaners" means those of replicas that are up
            stopped = _stopped(engine, step)
            if stopped is not None:
                break  # it was told already; the story goes on without that replica
            raise UsageError(
                f"scenario {account.scenario.name}, line {line.number} ({line.text}): {refused}"
            ) from None
    engine.apply(steps.Exchange())
    last = line is account.scenario.lines[-1]
    looks = last or isinstance(line.steps[-1], steps.ConsumeVia)
    strips = tuple(_strip(engine, replica) for _, replica in sorted(engine.replicas.items()))
    return Frame(
        line=line,
        now_ms=engine.now_ms,
        sentence=sentence(Happening(line=line, engine=engine))
        if stopped is None
        else f"Replica {stopped} stopped itself before, so this cannot be done.",
        remark=line.remarks.get(account.policy, line.remarks.get("", "")),
        is_still=not looks and bool(account.frames) and strips == account.frames[-1].strips,
        strips=strips,
        findings=tuple(judge(engine)) if looks else (),
    )


def _stopped(engine: Engine, step: steps.Step) -> int | None:
    """The replica that a step is about, if it has stopped itself."""
    replica = engine.replicas.get(getattr(step, "replica", 0))
    return replica.id if replica is not None and replica.halted is not None else None


def _strip(engine: Engine, replica: SeenReplica) -> Strip:
    removable = engine.removable(replica.id)
    return Strip(
        replica=replica.id,
        state=_state(engine, replica),
        cells=tuple(_cell(replica, entry) for entry in replica.entries),
        last_stable_offset=replica.last_stable_offset,
        high_watermark=replica.high_watermark,
        log_end=replica.log_end,
        removable=(removable.mtro, removable.mxro) if removable else None,
        seen={k: e.value for k, e in replica.table().items() if k != FILLER_KEY and e.value is not None},
    )


def _state(engine: Engine, replica: SeenReplica) -> str:
    if replica.halted is not None:
        return "stopped"
    if not replica.alive:
        return "down"
    if engine.leader_id == replica.id:
        return "leader"
    return "in sync" if replica.id in engine.in_sync else "behind"


def _cell(replica: SeenReplica, entry: Entry) -> Cell:
    if entry.empty:
        return Cell(offset=entry.offset, look=Look.EMPTY, label="∅")
    if entry.marker is not None:
        commit = entry.marker is Outcome.COMMITTED
        return Cell(
            offset=entry.offset,
            look=Look.COMMIT if commit else Look.ABORT,
            label="COMMIT" if commit else "ABORT",
        )
    if entry.key == FILLER_KEY:
        return Cell(offset=entry.offset, look=Look.FILLER, label="·")
    label = f"{entry.key}=✗" if entry.value is None else f"{entry.key}={entry.value}"
    look = _look(replica, entry)
    if look is Look.OPEN:
        label = f"{label}?"
    elif look is Look.ABORTED:
        label = f"⊘{label}"
    return Cell(offset=entry.offset, look=look, label=label)


def _look(replica: SeenReplica, entry: Entry) -> Look:
    try:
        outcome = replica.outcome(entry)
    except OutcomeMissing:
        return Look.OPEN
    if outcome is Outcome.OPEN:
        return Look.OPEN
    if outcome is Outcome.ABORTED:
        return Look.ABORTED
    return Look.TOMBSTONE if entry.value is None else Look.VALUE


def _entry_json(entry: Entry, cell: Cell) -> dict[str, Any]:
    look = "value" if cell.look is Look.FILLER else cell.look.value
    return {"offset": entry.offset, "look": look, "key": entry.key, "value": entry.value}


def _replica_json(replica: SeenReplica, strip: Strip) -> dict[str, Any]:
    return {
        "id": strip.replica,
        "state": strip.state,
        "log": [_entry_json(entry, cell) for entry, cell in zip(replica.entries, strip.cells, strict=True)],
        "last_stable_offset": strip.last_stable_offset,
        "high_watermark": strip.high_watermark,
        "log_end": strip.log_end,
        "mtro": strip.removable[0] if strip.removable else None,
        "mxro": strip.removable[1] if strip.removable else None,
        "read_committed": strip.seen,
        "halted": replica.halted,
        "removed": {"tombstones": replica.tombstones_removed, "outcomes": replica.outcomes_removed},
    }
