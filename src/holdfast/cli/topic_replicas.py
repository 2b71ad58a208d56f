"""`holdfast topic replicas`: on which stores a partition lies."""

from pathlib import Path

import click

from holdfast.cli.admin_option import admin_options, find_admin
from holdfast.cli.topic_lead import parse_place
from holdfast.errors import UsageError


@click.command()
@click.argument("place", metavar="TOPIC:P")
@click.argument("stores", metavar="STORE,STORE…")
@admin_options
def replicas(place: str, stores: str, data: Path, admin: str | None) -> None:
    """Let partition P of TOPIC lie on these stores, the preferred leader first. New ones copy it before they count."""
    from holdfast.client.admin import post_json

    topic, partition = parse_place(place)
    numbers = stores.split(",")
    if partition is None or not all(number.isascii() and number.isdecimal() for number in numbers):
        raise UsageError(f"{place} {stores}: name a partition and stores, such as orders:0 1,2,3")
    wanted = {"topic": topic, "partition": partition, "replicas": list(map(int, numbers))}
    post_json(find_admin(data, admin), "/replicas", wanted)
    click.echo(f"{place} lies on stores {', '.join(numbers)}")
