"""`holdfast pipeline`: check one before it runs, run it, see how it is, stop it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli import present
from holdfast.cli.duration import DurationType
from holdfast.cli.endpoint import connect
from holdfast.cli.pipeline_file import PipelineFile, file_argument, pipeline_argument
from holdfast.cli.present import json_option
from holdfast.errors import PipelineRefused, UsageError

if TYPE_CHECKING:
    from holdfast.pipelines.check import Finding
    from holdfast.pipelines.config import Pipeline
    from holdfast.records.record import Record

STOP_MS_MAX = 120_000
POLL_S = 0.1
TRIED_MAX = 100
"""Messages on which `check` tries the transform."""

master_option = click.option(
    "--master", metavar="URL", default="local[*]", show_default=True, help="Spark master."
)
conf_option = click.option(
    "--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be repeated."
)


@click.group()
def pipeline() -> None:
    """Pipelines on Spark: messages from a topic to their end states, each one accounted for."""


@pipeline.command()
@pipeline_argument
@master_option
@conf_option
@json_option
def check(file: PipelineFile, master: str, conf: tuple[str, ...], as_json: bool) -> None:
    """Say whether the pipeline in FILE can run: its topics, their retention, its messages' ids, its transform."""
    found = file.load()
    findings, messages = _ask_cluster(found)
    findings.append(_try_spark(found, messages, master, _settings(conf)))
    if as_json:
        present.print_json(
            [{"good": each.is_good, "where": each.where, "what": each.what} for each in findings]
        )
    else:
        for each in findings:
            click.echo(f"{'ok' if each.is_good else 'NO'}  {present.printable(str(each))}")
    if not all(each.is_good for each in findings):
        raise click.exceptions.Exit(1)


@pipeline.command()
@pipeline_argument
@click.option(
    "--only", type=click.Choice(["service", "adapter"]), help="One part; the other has a process of its own."
)
@click.option("--once", is_flag=True, help="Take what is there now, then leave.")
@click.option(
    "--fingerprints/--no-fingerprints",
    default=False,
    show_default=True,
    help="Keep fingerprints for reconciliation beside the service.",
)
@master_option
@conf_option
def run(
    file: PipelineFile,
    only: str | None,
    once: bool,
    fingerprints: bool,
    master: str,
    conf: tuple[str, ...],
) -> None:
    """Run the pipeline in FILE until ^C, SIGTERM or `holdfast pipeline stop`.

    With `delivery: adapter` the adapter runs in a process of its own beside the service, or by itself with --only.
    """
    from holdfast.cli.pipeline_run import run_parts
    from holdfast.pipelines.run import RunOptions

    options = RunOptions(
        master=master,
        config=_settings(conf),
        is_once=once,
        keeps_fingerprints=fingerprints,
    )
    run_parts(file.load(), only, options)


@pipeline.command()
@pipeline_argument
@json_option
def status(file: PipelineFile, as_json: bool) -> None:
    """Show how the pipeline in FILE is, from outside. Exit code 1 if a part of it does not run.

    Messages are counted under the end states that they were to be sent with; what was GIVEN UP for a topic, in delivery
    mode dual, is among them.
    """
    from holdfast.cli.pipeline_view import print_status
    from holdfast.pipelines.status import look_at

    found = file.load()
    with connect(found.endpoint) as cluster:
        parts = look_at(found, cluster)
    print_status(found, parts, as_json=as_json)
    if not all(part.is_running for part in parts):
        raise click.exceptions.Exit(1)


@pipeline.command()
@file_argument
@click.option("--only", type=click.Choice(["service", "adapter"]), help="One part; the other goes on.")
@click.option(
    "--wait", "wait_ms", type=DurationType(), default=STOP_MS_MAX, metavar="DURATION", help="[default: 120s]"
)
def stop(file: Path, only: str | None, wait_ms: int) -> None:
    """Ask the pipeline in FILE to leave when the batch at hand is done, and wait until it has left."""
    import time

    from holdfast.pipelines.loading import load_pipeline
    from holdfast.pipelines.state import PartFiles
    from holdfast.pipelines.status import parts_of

    found = load_pipeline(file)
    parts = [PartFiles(found.checkpoint, part) for part in parts_of(found) if only in {None, part}]
    running = [part for part in parts if part.is_running()]
    if not running:
        raise PipelineRefused(f"nothing of {found.name!r} is running on {found.checkpoint}")
    for part in running:
        part.ask_to_stop()
    deadline = time.monotonic() + wait_ms / 1000
    for part in running:
        while part.is_running():
            if time.monotonic() > deadline:
                raise PipelineRefused(f"the {part.part} has not left yet; it was asked to, and will")
            time.sleep(POLL_S)
        click.echo(f"the {part.part} has left")


def _ask_cluster(found: "Pipeline") -> "tuple[list[Finding], list[tuple[int, Record]]]":
    """What it tells, and some messages to try the transform on."""
    from holdfast.pipelines.check import check_cluster, sample

    with connect(found.endpoint) as cluster:
        findings = list(check_cluster(found, cluster))
        topic = cluster.metadata([found.ingest]).topics.get(found.ingest)
        messages = [] if topic is None else list(sample(cluster, topic, records_max=TRIED_MAX))
    return findings, messages


def _try_spark(
    found: "Pipeline", messages: "list[tuple[int, Record]]", master: str, settings: dict[str, str]
) -> "Finding":
    """The transform, and the source that is read through, in a session, if the function can be imported at all."""
    from holdfast.pipelines.check import Finding
    from holdfast.pipelines.transform import find_transform

    try:
        transform = find_transform(found)
        from holdfast.pipelines.rehearsal import rehearse
        from holdfast.pipelines.streams import StreamSpec, columns_of, open_stream
        from holdfast.spark.session import spark_session

        if sys.stderr.isatty():
            click.echo("starting Spark to look at the transform …", err=True)
        session = spark_session("holdfast pipeline check", master=master, config=settings)
        try:
            rehearse(session, found, transform, messages)
            spec = StreamSpec(
                endpoint=found.endpoint,
                topic=found.ingest,
                group=found.service_group,
                starting=found.starting,
                records_max=found.trigger.records_max,
                columns=columns_of(found),
            )
            open_stream(session, found, spec)
        finally:
            session.stop()
    except UsageError as failure:
        key = "reader" if str(failure).startswith(f"{found.at('reader')}: reader") else "transform"
        what = str(failure).removeprefix(f"{found.at(key)}: ")
        return Finding(is_good=False, where=found.at(key), what=what)
    what = f"{found.transform} gives back the columns that are wanted; there are no messages yet to try it on"
    if messages:
        what = f"{found.transform} has given each of {present.count(len(messages), 'message')} a row with its end state"
    return Finding(is_good=True, where=found.at("transform"), what=what)


def _settings(conf: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for each in conf:
        key, equals, value = each.partition("=")
        if not key or not equals:
            raise UsageError(f"--conf takes KEY=VALUE, not {each!r}")
        settings[key] = value
    return settings
