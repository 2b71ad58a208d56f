"""Every command that an alarm names is one that there is and means the same, whatever groups and tenants are called."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from holdfast.cli.endpoint import parse_client_options
from holdfast.cli.main import holdfast
from holdfast.cli.pipeline_file import PipelineFile
from holdfast.cli.watch import name_again
from holdfast.client import BOOTSTRAP_DEFAULT
from holdfast.client.endpoint import Endpoint
from holdfast.pipelines.config import FILE, Alarms, Budget, Mode, Trigger
from holdfast.pipelines.watch.commands import Commands
from holdfast.pipelines.watch.evaluator import Alarm, AlarmKind
from holdfast.pipelines.watch.journal import Journal
from holdfast.pipelines.watch.profile import derive
from holdfast.pipelines.watch.world import Canary, Forwarding, Mismatch, OpenTransaction, Spending, World
from tests.pipelines.files import write_pipeline

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


def all_alarms(commands: Commands) -> list[Alarm]:
    profile = derive(Trigger(), Alarms(), Budget(), Mode.ADAPTER)
    journal = Journal("payments", profile, commands, interval_ms=5_000)
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


def meant(params: dict[str, Any]) -> Endpoint:
    """The cluster that a command with these would ask."""
    if "file" in params:
        named = {name: params[name] for name in ("bootstrap", "properties", "client_config")}
        return PipelineFile(path=params["file"], **named).load().endpoint
    security = parse_client_options(params["properties"], params["client_config"])
    return Endpoint(params["bootstrap"], security)


@pytest.mark.parametrize("bootstrap", [BOOTSTRAP_DEFAULT, "127.0.0.1:19392"])
@pytest.mark.parametrize("file", [FILE, Path("my pipelines/a.yaml")], ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bootstrap": "other:1"},
        {"client_config": Path("other.properties")},
        {"bootstrap": "other:1", "properties": ("ssl.endpoint.identification.algorithm=none",)},
    ],
    ids=str,
)
def test_what_an_alarm_says_to_run_can_be_run_and_means_the_same(
    bootstrap: str, file: Path, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the cluster that is watched, with what is said of its security."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_BOOTSTRAP", raising=False)
    monkeypatch.delenv("HOLDFAST_CLIENT_CONFIG", raising=False)
    write_pipeline(file.parent, mode="adapter", prefix="p", bootstrap=bootstrap).rename(file)
    file.write_text(file.read_text() + "client_config: own.properties\n")
    (file.parent / "own.properties").write_text("security.protocol=ssl\n")
    Path("other.properties").write_text("security.protocol=ssl\nenable.ssl.certificate.verification=false\n")
    given = PipelineFile(
        **{"path": file, "bootstrap": None, "properties": (), "client_config": None} | options
    )
    loaded = given.load()
    alarms = all_alarms(name_again(given, loaded))
    assert {alarm.kind for alarm in alarms} == set(AlarmKind)
    parsed = [(alarm, parse(alarm.run)) for alarm in alarms]
    names = {params[name] for _, params in parsed for name in ("name", "tenant") if name in params}
    assert {"audit of 'a'", "a; b", "O'Hara & co", "a b", "q"} <= names
    assert {params["file"] for _, params in parsed if "file" in params} == {file}
    for alarm, params in parsed:
        assert meant(params) == loaded.endpoint, alarm.run
    changes = {params["changes"] for alarm, params in parsed if alarm.kind is AlarmKind.RUNWAY}
    assert changes == {("retention.ms=-1",)}
