"""Every command that an alarm names is one that there is, whatever groups and tenants are called."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from holdfast.cli.main import holdfast
from holdfast.pipelines.config import FILE, Alarms, Budget, Mode, Trigger
from holdfast.pipelines.watch.evaluator import Alarm, AlarmKind
from holdfast.pipelines.watch.journal import Journal
from holdfast.pipelines.watch.profile import derive
from holdfast.pipelines.watch.world import Canary, Forwarding, Mismatch, OpenTransaction, Spending, World

NOW_MS = 1_794_614_400_000
DAY_MS = 86_400_000
WAITING = Forwarding(
    group="audit of 'a'",
    topic="q",
    partition=0,
    log_start=0,
    stable_end=9,
    log_end=12,
    committed=1,
    oldest_ms=NOW_MS - DAY_MS,
    retention_ms=DAY_MS,
    transaction=OpenTransaction(
        producer_id=7, transactional_id="a; b", opened_ms=NOW_MS - DAY_MS, first_offset=9
    ),
)
NAMELESS = OpenTransaction(producer_id=8, transactional_id=None, opened_ms=NOW_MS - DAY_MS, first_offset=9)
WRONG = World(
    now_ms=NOW_MS,
    forwardings=(
        WAITING,
        replace(WAITING, partition=1, committed=None),
        replace(WAITING, partition=2, transaction=NAMELESS),
    ),
    canaries=(Canary(topic="q", partition=0, offset=5, sent_ms=NOW_MS - DAY_MS, seen_ms=None),),
    mismatches=(Mismatch(tenant="O'Hara & co", window_ms=NOW_MS, ingested=2, ended=1),),
    spendings=(Spending(tenant="a b", expected=10, failed=9),),
    silent="service",
    progressed_ms=NOW_MS - DAY_MS,
)


def all_alarms(file: Path) -> list[Alarm]:
    journal = Journal(
        "payments", derive(Trigger(), Alarms(), Budget(), Mode.ADAPTER), interval_ms=5_000, file=file
    )
    journal.note(WRONG)
    journal.note(replace(WRONG, now_ms=NOW_MS + DAY_MS))
    found = journal.alarms
    journal.note(replace(WRONG, now_ms=NOW_MS + 2 * DAY_MS, forwardings=()))
    found += journal.alarms
    journal.fail(NOW_MS + 2 * DAY_MS, "nobody answers")
    journal.fail(NOW_MS + 3 * DAY_MS, "nobody answers")
    return [*found, *journal.alarms]


def parse(line: str) -> dict[str, Any]:
    """What the real command line makes of it; click.UsageError if that is nothing."""
    name, *words = shlex.split(line)
    command: click.Command = holdfast
    context = click.Context(holdfast, info_name=name)
    while isinstance(command, click.Group):
        name = words.pop(0)
        found = command.get_command(context, name)
        assert found is not None, line
        command, context = found, click.Context(found, info_name=name, parent=context)
    return command.make_context(name, words, parent=context.parent).params


@pytest.mark.parametrize("file", [FILE, Path("my pipelines/a.yaml")], ids=str)
def test_what_an_alarm_says_to_run_can_be_run(file: Path) -> None:
    alarms = all_alarms(file)
    assert {alarm.kind for alarm in alarms} == set(AlarmKind)
    parsed = [(alarm, parse(alarm.run)) for alarm in alarms]
    names = {params[name] for _, params in parsed for name in ("name", "tenant") if name in params}
    assert {"audit of 'a'", "a; b", "O'Hara & co", "a b", "q"} <= names
    assert {params["file"] for _, params in parsed if "file" in params} == {file}
    changes = {params["changes"] for alarm, params in parsed if alarm.kind is AlarmKind.RUNWAY}
    assert changes == {("retention.ms=-1",)}
