"""`holdfast doctor repair`: rebuild a replica that has diverged."""

import re
from typing import TYPE_CHECKING

import click

from holdfast.cli import present
from holdfast.cli.endpoint import bootstrap_option, client_options, connect, reach
from holdfast.cli.present import json_option
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.client.cluster import Cluster
    from holdfast.client.groups import TopicPartition
    from holdfast.client.security import Security
    from holdfast.doctor.examine import Examination
    from holdfast.doctor.repair import Plan

WAIT_SECONDS_MAX = 60.0
_TARGET = re.compile(r"(?P<topic>[A-Za-z0-9._-]+):(?P<partition>[0-9]{1,9}):(?P<replica>[0-9]{1,9})")


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="TOPIC:PARTITION:REPLICA...")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@bootstrap_option
@client_options
@json_option
@click.pass_context
def repair(
    ctx: click.Context,
    targets: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    bootstrap: str,
    as_json: bool,
    security: "Security",
) -> None:
    """Rebuild replicas that the doctor has named, one after the other; after asking.

    Each is taken out of the assignment and, when its broker has deleted the copy, added again, so that it is made
    anew from the leader. It needs the right Alter on the cluster. Refused where fewer than
    min.insync.replicas would stay in sync. Exit code 0: rebuilt, and the doctor finds nothing more; 1 if not; 3 if
    the cluster cannot be asked, or a right is missing.
    """
    from holdfast.doctor.repair import find_plan, rebuild

    wanted = [_parse(target) for target in targets]
    reports: list[tuple[Plan, Examination | None]] = []
    with connect(bootstrap, security=security) as cluster:
        reach(cluster)
        for index, (place, replica) in enumerate(wanted, start=1):
            not_yet = frozenset(each for other, each in wanted[index:] if other == place)
            plan = find_plan(cluster, place, replica, not_yet)
            examined = None
            if not dry_run:
                _confirm(plan, yes)
                rebuild(cluster, plan, tell=lambda step: click.echo(step, err=True))
                examined = _examine(cluster, place)
            elif not as_json:
                click.echo("\n".join(plan.steps))
            reports.append((plan, examined))
    if as_json:
        present.print_json([_report(plan, examined) for plan, examined in reports])
    left = [finding for _, examined in reports if examined for finding in examined.findings]
    for finding in left if not as_json else ():
        click.echo(f"replica {finding.replica} still differs: {present.printable(finding.what)}")
    ctx.exit(1 if left else 0)


def _parse(target: str) -> "tuple[TopicPartition, int]":
    from holdfast.client.groups import TopicPartition

    found = _TARGET.fullmatch(target)
    if found is None:
        raise UsageError(
            f"{target!r} does not name a replica: write TOPIC:PARTITION:REPLICA, such as orders:0:3"
        )
    return TopicPartition(found["topic"], int(found["partition"])), int(found["replica"])


def _confirm(plan: "Plan", yes: bool) -> None:
    if not yes:
        click.echo("\n".join(plan.steps), err=True)
        click.confirm("go on?", abort=True, err=True)


def _examine(cluster: "Cluster", place: "TopicPartition") -> "Examination":
    from holdfast.doctor.cluster import Chosen, examine_topics
    from holdfast.doctor.live import Meter

    chosen = Chosen(topics=(cluster.topic(place.topic),), not_compacted=())
    examined = examine_topics(cluster, chosen, meter=Meter(), wait_s_max=WAIT_SECONDS_MAX)
    return next(each for each in examined if each.place == place)


def _report(plan: "Plan", examined: "Examination | None") -> dict[str, object]:
    return {
        "topic": plan.place.topic,
        "partition": plan.place.partition,
        "replica": plan.replica,
        "steps": plan.steps,
        "done": examined is not None,
        "findings_left": None if examined is None else [each.as_json() for each in examined.findings],
    }
