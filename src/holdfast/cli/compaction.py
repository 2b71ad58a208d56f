"""`holdfast compaction`: how far replicas are clean, who waits for whom, and whether all was forgotten by right."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import click

from holdfast.cli import present
from holdfast.cli.admin_option import admin_options, find_admin
from holdfast.cli.compaction_check import check
from holdfast.cli.duration import told
from holdfast.cli.present import json_option
from holdfast.cli.topic_lead import complete_served_topic
from holdfast.errors import ConnectionFailed, NobodyToAsk

WATCH_SECONDS = 1.0


@click.group()
def compaction() -> None:
    """See who waits for whom, and check that nothing was forgotten too early."""


compaction.add_command(check)


@compaction.command()
@click.argument("topic", required=False, shell_complete=complete_served_topic)
@click.option("--watch", is_flag=True, help="Again every second, until ^C.")
@admin_options
@json_option
def status(topic: str | None, watch: bool, data: Path, admin: str | None, as_json: bool) -> None:
    """Show how far each replica is clean, how far the group may forget, and who holds it back.

    Without TOPIC: the partitions of compacted topics, those with a replica that is not in sync, and those in which a
    transaction is open. Exit code 3 if no Holdfast answers.
    """
    with suppress(KeyboardInterrupt):
        while True:
            found = _ask(topic, data, admin)
            if watch and sys.stdout.isatty():
                click.clear()
            if as_json and watch:
                click.echo(json.dumps(found, ensure_ascii=False))
            elif as_json:
                present.print_json(found)
            else:
                _show(found)
            if not watch:
                return
            time.sleep(WATCH_SECONDS)
            if not as_json and not sys.stdout.isatty():
                click.echo()


def _ask(topic: str | None, data: Path, admin: str | None) -> dict[str, Any]:
    from holdfast.client.admin import get_json

    query = "" if topic is None else "?" + urlencode({"topic": topic})
    try:
        found: dict[str, Any] = get_json(find_admin(data, admin), f"/compaction{query}")
    except ConnectionFailed as failure:
        raise NobodyToAsk(str(failure)) from failure
    return found


def _show(found: dict[str, Any]) -> None:
    partitions = found["partitions"]
    if not partitions:
        click.echo("no compacted topic, no open transaction, every replica in sync", err=True)
        return
    present.print_table(
        ("PARTITION", "STABLE TO", "MTRO", "MXRO", "STORE", "PHASE", "HELD TO", "SETTLED TO", "MXFO", "MCCO"),
        [row for each in partitions for row in _replicas(each)],
    )
    waiting = [row for each in partitions for row in _waiting(each)]
    if waiting:
        present.print_title("Waiting")
        present.print_table(("PARTITION", "WHAT", "AT", "BYTES", "FOR AT LEAST", "WAITS FOR"), waiting)
    if found["omitted"]:
        left_out = present.count(found["omitted"], "partition")
        click.echo(f"{left_out} more: name a topic to see its own", err=True)


def _replicas(each: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    for replica in each["replicas"]:
        yield (
            f"{each['topic']}:{each['partition']}",
            each["last_stable"],
            each["mtro"] if each["compacted"] else None,
            each["mxro"],
            replica["store"],
            replica["phase"],
            replica["held_to"],
            replica["settled_to"],
            replica["mxfo"],
            replica["mcco"] if each["compacted"] else None,
        )


def _waiting(each: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    """One line for all stores that wait for the same at the same offset."""
    for (track, at, reason), alike in groupby(each["waiting"], key=itemgetter("track", "at", "reason")):
        found = list(alike)
        stores = [waiting["store"] for waiting in found]
        yield (
            f"{each['topic']}:{each['partition']}",
            "tombstones" if reason == "grace" else track,
            at,
            each["waiting_bytes"][track],
            told(max(waiting["for_ms"] for waiting in found)),
            _WORDS[reason](f"store{'s' * (len(stores) > 1)} {', '.join(map(str, stores))}", found[0]),
        )


def _transaction(stores: str, waiting: dict[str, Any]) -> str:
    found = waiting["transaction"]
    if found is None:
        return "a transaction that has just ended"
    who = f"producer {found['producer_id']}"
    if found["transactional_id"] is not None:
        who = f"{found['transactional_id']} ({who})"
    return f"the open transaction of {who}, from offset {found['first_offset']} on"


def _ratio(stores: str, waiting: dict[str, Any]) -> str:
    dirty, clean = waiting["dirty_bytes"], waiting["clean_bytes"]
    percent = 100 * dirty / max(1, dirty + clean)
    return f"min.cleanable.dirty.ratio: {percent:.0f} % is dirty on {stores}"


_WORDS: dict[str, Callable[[str, dict[str, Any]], str]] = {
    "away": lambda stores, _: f"{stores}: away",
    "joining": lambda stores, _: f"{stores}: catching up",
    "unreported": lambda stores, _: f"{stores}: never reported",
    "behind": lambda stores, _: f"{stores}: behind the others, a rewrite is due",
    "due": lambda stores, _: f"the keeper: a rewrite is due on {stores}",
    "open-transaction": _transaction,
    "lag": lambda _, waiting: f"min.compaction.lag.ms, {told(waiting['remaining_ms'])} more",
    "dirty-ratio": _ratio,
    "small": lambda stores, _: f"more to settle on {stores}, or more time",
    "grace": lambda _, waiting: f"delete.retention.ms, {told(waiting['remaining_ms'])} more",
}
"""What the last column says, given the stores in words and the first of those that are alike."""
