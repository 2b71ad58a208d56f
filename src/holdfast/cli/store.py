"""`holdfast store`: the stores of a running Holdfast, and what to do about one that is in trouble."""

from pathlib import Path

import click

from holdfast.cli import present
from holdfast.cli.admin_option import admin_options, find_admin
from holdfast.cli.data_option import data_option
from holdfast.cli.present import json_option

FENCE_WARNING = (
    "Fence store {store}? It stops counting for good: deletes and outcomes that waited for it are forgotten from now"
    " on, and it can only come back empty, with `holdfast store rebuild {store}`."
)
REBUILD_WARNING = (
    "Rebuild store {store}? All that is in its directory is deleted, and copied anew from the others."
)
REMOVE_WARNING = "Remove store {store}? Its partitions lie on the others only from now on, and it is fenced."


@click.group()
def store() -> None:
    """Stores: list, add, remove, fence, rebuild."""


@store.command("list")
@admin_options
@json_option
def list_(data: Path, admin: str | None, as_json: bool) -> None:
    """Show the stores: which are in sync, what the others lack, and why they are away."""
    from holdfast.client.admin import get_json

    found = get_json(find_admin(data, admin), "/stores")["stores"]
    if as_json:
        present.print_json(found)
        return
    present.print_table(
        ("STORE", "PHASE", "LIFE", "ADDRESS", "PARTITIONS", "BEHIND", "WHY"),
        [
            (
                each["store"],
                each["phase"],
                each["life"],
                each["address"],
                each["partitions"],
                each["behind"],
                each["reason"],
            )
            for each in found
        ],
    )


@store.command()
@data_option("The data directory, of a Holdfast that is not running.")
def add(data: Path) -> None:
    """Add a store, and a node for it, which takes part from the next start on."""
    from holdfast.agent.data_directory import DataDirectory

    directory = DataDirectory(data)
    try:
        number = directory.add_node()
    finally:
        directory.close()
    click.echo(
        f"store {number} is added: start Holdfast again, then give it partitions with `holdfast topic replicas`"
    )


def _care(action: str, number: int, warning: str, yes: bool, address: str) -> None:
    from holdfast.client.admin import post_json

    if not yes:
        click.confirm(warning.format(store=number), abort=True, err=True)
    post_json(address, "/stores", {"action": action, "store": number})


_number = click.argument("number", metavar="STORE", type=click.IntRange(1))
_yes = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


@store.command()
@_number
@_yes
@admin_options
def fence(number: int, yes: bool, data: Path, admin: str | None) -> None:
    """Take a store that will not come back out of the count, so that cleanup goes on without it."""
    _care("fence", number, FENCE_WARNING, yes, find_admin(data, admin))
    click.echo(f"store {number} is fenced")


@store.command()
@_number
@_yes
@admin_options
def rebuild(number: int, yes: bool, data: Path, admin: str | None) -> None:
    """Empty a store that is away or fenced, and have it copied anew from the others."""
    _care("rebuild", number, REBUILD_WARNING, yes, find_admin(data, admin))
    click.echo(f"store {number} begins anew: `holdfast store list` shows how far it is")


@store.command()
@_number
@_yes
@admin_options
def remove(number: int, yes: bool, data: Path, admin: str | None) -> None:
    """Take all partitions off a store and fence it; the others must have all of them."""
    _care("remove", number, REMOVE_WARNING, yes, find_admin(data, admin))
    click.echo(f"store {number} holds nothing any more and is fenced")
