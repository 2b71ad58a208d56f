"""`holdfast doctor repair`: rebuild a replica that has diverged, or abort a transaction that hangs."""

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from holdfast.cli import present
from holdfast.cli.endpoint import connect, endpoint_options, reach
from holdfast.cli.present import json_option
from holdfast.client.endpoint import Endpoint
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.client.cluster import Cluster
    from holdfast.client.groups import TopicPartition
    from holdfast.doctor.examine import Examination
    from holdfast.doctor.repair import AbortPlan, Plan

WAIT_SECONDS_MAX = 60.0
_TARGET = re.compile(
    r"(?P<topic>[A-Za-z0-9._-]+):(?P<partition>[0-9]{1,9}):(?:producer=(?P<producer>[0-9]{1,19})|(?P<replica>[0-9]{1,9}))"
)


@dataclass(frozen=True, slots=True)
class _Target:
    """A replica that is to be rebuilt, or a producer whose transaction is to be aborted."""

    place: "TopicPartition"
    replica: int | None
    producer_id: int | None


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="FINDING...")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@endpoint_options
@json_option
@click.pass_context
def repair(
    ctx: click.Context,
    targets: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    endpoint: Endpoint,
    as_json: bool,
) -> None:
    """Repair what the doctor has named, one after the other; after asking.

    TOPIC:PARTITION:REPLICA is a replica that is rebuilt: taken out of the assignment and, when its broker has deleted
    the copy, added again, so that it is made anew from the leader. Refused where fewer than min.insync.replicas would
    stay in sync. TOPIC:PARTITION:producer=ID is a transaction that hangs on the leader; it is aborted, as `holdfast txn
    abort` does. A rebuild needs the right Alter on the cluster; an abort needs Describe and Write on the transactional
    id, and Alter on the cluster only where no coordinator tells of the transaction. Exit code 0: done, and the doctor
    finds nothing more; 1 if not; 3 if the cluster cannot be asked, or a right is missing.
    """
    wanted = [_parse(target) for target in targets]
    reports: list[tuple[Plan | AbortPlan, Examination | None]] = []
    with connect(endpoint) as cluster:
        reach(cluster)
        for index, target in enumerate(wanted, start=1):
            plan = _plan(cluster, target, wanted[index:])
            examined = None
            if not dry_run:
                _confirm(plan, yes)
                _carry_out(cluster, plan)
                examined = _examine(cluster, target.place)
            elif not as_json:
                _tell(plan.steps, err=False)
            reports.append((plan, examined))
    if as_json:
        present.print_json([_report(plan, examined) for plan, examined in reports])
    left = [finding for _, examined in reports if examined for finding in examined.findings]
    for finding in left if not as_json else ():
        click.echo(f"replica {finding.replica} still differs: {present.printable(finding.what)}")
    ctx.exit(1 if left else 0)


def _parse(target: str) -> _Target:
    from holdfast.client.groups import TopicPartition

    found = _TARGET.fullmatch(target)
    if found is None:
        raise UsageError(
            f"{target!r} names nothing to repair: write TOPIC:PARTITION:REPLICA, such as orders:0:3, or"
            " TOPIC:PARTITION:producer=ID"
        )
    place = TopicPartition(found["topic"], int(found["partition"]))
    replica, producer = found["replica"], found["producer"]
    return _Target(
        place, None if replica is None else int(replica), None if producer is None else int(producer)
    )


def _plan(cluster: "Cluster", target: _Target, later: list[_Target]) -> "Plan | AbortPlan":
    from holdfast.doctor.repair import find_abort_plan, find_plan

    if target.producer_id is not None:
        now_ms = time.time_ns() // 1_000_000
        return find_abort_plan(cluster, target.place, target.producer_id, now_ms=now_ms)
    assert target.replica is not None
    not_yet = {each.replica for each in later if each.place == target.place and each.replica is not None}
    return find_plan(cluster, target.place, target.replica, frozenset(not_yet))


def _carry_out(cluster: "Cluster", plan: "Plan | AbortPlan") -> None:
    from holdfast.doctor.repair import Plan, abort, rebuild

    if isinstance(plan, Plan):
        rebuild(cluster, plan, tell=lambda step: _tell([step]))
    else:
        abort(cluster, plan, tell=lambda step: _tell([step]))


def _tell(steps: list[str], *, err: bool = True) -> None:
    for step in steps:
        click.echo(present.printable(step), err=err)


def _confirm(plan: "Plan | AbortPlan", yes: bool) -> None:
    if not yes:
        _tell(plan.steps)
        click.confirm("go on?", abort=True, err=True)


def _examine(cluster: "Cluster", place: "TopicPartition") -> "Examination":
    from holdfast.doctor.cluster import Chosen, examine_topics
    from holdfast.doctor.live import Meter

    chosen = Chosen(topics=(cluster.topic(place.topic),), not_compacted=())
    examined = examine_topics(cluster, chosen, meter=Meter(), wait_s_max=WAIT_SECONDS_MAX)
    return next(each for each in examined if each.place == place)


def _report(plan: "Plan | AbortPlan", examined: "Examination | None") -> dict[str, object]:
    return {
        "topic": plan.place.topic,
        "partition": plan.place.partition,
        **plan.subject,
        "steps": plan.steps,
        "done": examined is not None,
        "findings_left": None if examined is None else [each.as_json() for each in examined.findings],
    }
