"""A schedule as text, in the scenario language as far as that reaches."""

from collections.abc import Callable, Iterator
from typing import Any

from holdfast.lab import steps
from holdfast.lab.explore import Found
from holdfast.rules.transaction import Outcome


def lines(found: Found) -> list[str]:
    """The setting, a line for every step, and how everybody was brought back if that is when it showed."""
    return [*_header(found), *map(line, found.steps), *map(line, found.rest)]


def _header(found: Found) -> Iterator[str]:
    config = found.setting.config
    yield f"replicas {found.setting.replicas}"
    if {step.version for step in found.steps if isinstance(step, steps.Begin)} == {2}:
        yield "set transaction.version 2"
    yield f"set delete.retention.ms {config.delete_retention_ms}ms"
    yield f"set producer.id.expiration.ms {config.producer_id_expiration_ms}ms"
    yield f"set segment.batches {config.segment_batches}"
    yield "set min.cleanable.dirty.ratio 0"
    if config.min_compaction_lag_ms:
        yield f"set min.compaction.lag.ms {config.min_compaction_lag_ms}ms"


def line(step: steps.Step) -> str:
    """One step as one line."""
    return _LINES[type(step)](step)


def _produce(step: steps.Produce) -> str:
    what = f"delete {step.key}" if step.value is None else f"produce {step.key}={step.value}"
    inside = f" by {step.producer}" if step.producer else ""
    return f"{what}{inside}{'' if step.acknowledged else '  -- not acknowledged'}"


def _end(step: steps.End) -> str:
    return f"{'commit' if step.outcome is Outcome.COMMITTED else 'abort'} {step.producer}"


_LINES: dict[type, Callable[[Any], str]] = {
    steps.Produce: _produce,
    steps.Begin: lambda step: f"begin {step.producer}  -- transaction.version {step.version}",
    steps.End: _end,
    steps.Fetch: lambda step: f"fetch {step.replica}{'' if step.batches is None else f' {step.batches}'}",
    steps.AwaitIsr: lambda step: "await-isr",
    steps.Kill: lambda step: f"kill {step.replica}",
    steps.Return: lambda step: f"return {step.replica}",
    steps.Lag: lambda step: f"lag {step.replica}",
    steps.Advance: lambda step: f"advance {step.ms}ms",
    steps.Clean: lambda step: f"clean {step.replica}",
    steps.Settle: lambda step: f"settle {step.replica}",
    steps.ForceLeader: lambda step: f"force-leader {step.replica}",
    steps.Join: lambda step: f"join {step.replica}",
    steps.Leave: lambda step: f"leave {step.replica}",
    steps.Truncate: lambda step: f"truncate {step.offset}",
    steps.ConsumeVia: lambda step: f"consume-via {step.replica} {step.isolation.value}",
    steps.Exchange: lambda step: "exchange",
    steps.Collect: lambda step: f"collect {step.replica}",
    steps.ReadMembership: lambda step: f"read-membership {step.replica}",
    steps.Deliver: lambda step: f"deliver {step.message}",
    steps.Lose: lambda step: f"lose {step.message}",
    steps.Repeat: lambda step: f"repeat {step.message}",
    steps.Talk: lambda step: f"talk {step.one} {step.other}",
    steps.BackUp: lambda step: f"back-up {step.replica}",
    steps.PutBack: lambda step: f"put-back {step.replica}",
}
