"""The adapter article's story, run: the same day in each delivery mode, with the same things broken, then reconciled.

Run with `make story`; `STORY_MESSAGES=20000 make story` for a glance. `dual` has to end OPEN, with mismatches that
reconciliation names exactly, and `repair` to close it; `adapter` and `transaction` have to end CLOSED. Writes
build/story/story.json and build/story/report.html; the exit code is 1 if anything is not so.
"""

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from bench.story.audit import Audited, Auditor, Closing, check
from bench.story.day import Ran, StoryDay
from bench.story.failure import StoryFailed
from bench.story.page import FINDINGS, render
from bench.story.truth import fates
from holdfast.client.cluster import Cluster
from holdfast.pipelines.config import Mode
from holdfast.pipelines.recon.law import Kind
from holdfast.pipelines.recon.telling import tell_json
from holdfast.spark.session import spark_session
from tests.process import HoldfastProcess

MESSAGES: Final = 400_000
MODES: Final = (Mode.DUAL, Mode.ADAPTER, Mode.TRANSACTION)
OUTPUT: Final = Path(__file__).parents[2] / "build" / "story"
PER_SECOND_MIN: Final = 500
STARTS_S: Final = 1_200.0
"""For Spark to start, several times, on a machine that has other things to do."""


@click.command()
@click.option(
    "--messages",
    type=click.IntRange(1_000),
    default=lambda: int(os.environ.get("STORY_MESSAGES", MESSAGES)),
    show_default=f"{MESSAGES:,}, or STORY_MESSAGES",
)
@click.option(
    "--mode",
    "chosen",
    type=click.Choice([mode.value for mode in MODES]),
    multiple=True,
    help="One mode, or several; all unless told otherwise.",
)
@click.option("--output", type=click.Path(path_type=Path), default=OUTPUT, show_default=True)
def main(messages: int, chosen: tuple[str, ...], output: Path) -> None:
    """Run the story in each mode, reconcile, and say whether it ended as it has to."""
    began = time.monotonic()
    modes = [mode for mode in MODES if mode.value in chosen or not chosen]
    # Whoever ends the story ends what it has started, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))

    def tell(what: str) -> None:
        click.echo(f"{time.monotonic() - began:6.1f} s  {what}")

    logs = output / "logs"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="holdfast-story-") as name:
        directory = Path(name)
        with HoldfastProcess(directory / "data", log=logs / "holdfast.log") as holdfast:
            try:
                ran = {mode: _run(holdfast, directory, mode, messages, logs, tell) for mode in modes}
                audited = _audit(holdfast.bootstrap, ran, messages, tell)
            except StoryFailed as failure:
                raise click.ClickException(str(failure)) from failure
    told: dict[str, Any] = {"messages": messages, "seconds": round(time.monotonic() - began, 1)}
    told |= {mode.value: _tell_mode(messages, ran[mode], audited[mode]) for mode in modes}
    (output / "story.json").write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    (output / FINDINGS).write_text(json.dumps(_tell_findings(audited), indent=1) + "\n", encoding="utf-8")
    (output / "report.html").write_text(render(messages, ran, audited), encoding="utf-8")
    tell(f"{output / 'story.json'} and {output / 'report.html'}")
    try:
        check(audited)
    except StoryFailed as failure:
        raise click.ClickException(str(failure)) from failure
    tell("as it has to be: two sends OPEN until repaired, all else CLOSED, everything wrong named exactly")


def _run(holdfast: HoldfastProcess, directory: Path, mode: Mode, messages: int, logs: Path, tell: Any) -> Ran:
    day = StoryDay(holdfast, directory, mode, messages, logs=logs, tell=tell)
    return day.run(STARTS_S + messages / PER_SECOND_MIN)


def _audit(bootstrap: str, ran: Mapping[Mode, Ran], messages: int, tell: Any) -> dict[Mode, Audited]:
    tell("the day is over; reconciliation is asked")
    expected = fates(messages)
    session = spark_session("holdfast story", master="local[2]")
    try:
        with Cluster(bootstrap) as cluster:
            auditor = Auditor(session, cluster, expected, tell=tell)
            return {mode: auditor.audit(day.pipeline) for mode, day in ran.items()}
    finally:
        session.stop()


def _tell_findings(audited: Mapping[Mode, Audited]) -> dict[str, Any]:
    """By mode and tenant, everything that is wrong before anything was repaired."""
    return {
        mode.value: {tenant: tell_json(verdict) for tenant, verdict in found.closing.verdicts.items()}
        for mode, found in audited.items()
    }


def _tell_mode(messages: int, ran: Ran, audited: Audited) -> dict[str, Any]:
    told = _tell_closing(audited.closing) | {
        "messages_per_s": round(messages / ran.seconds, 1),
        "messages_per_s_undisturbed": round(ran.undisturbed_per_s, 1),
        "seconds": round(ran.seconds, 1),
        "restarts": ran.restarts,
        "sends_given_up": ran.given_up,
        "faults": [{"at_s": round(seconds, 1), "what": what} for seconds, what in ran.faults],
    }
    if audited.repair is not None:
        told["repair"] = {
            "forwarded": audited.repair.forwarded,
            "ended_anew": audited.repair.ended_anew,
            **_tell_closing(audited.repair.closing),
        }
    return told


def _tell_closing(closing: Closing) -> dict[str, Any]:
    return {
        "state": closing.state.value,
        **{kind.value: closing.count(kind) for kind in Kind},
        "named_exactly": closing.is_exact,
        "closing_s": round(closing.seconds, 1),
        "tenants": {
            tenant: {"state": verdict.state.value, "ingested": verdict.total.ingested}
            for tenant, verdict in closing.verdicts.items()
        },
    }


if __name__ == "__main__":
    sys.exit(main())
