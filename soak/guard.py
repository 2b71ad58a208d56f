"""The guard beside real brokers: part of `make soak`.

`python -m soak.guard` runs the four scenarios with a guard, none of which may diverge, and then an outage for each step
of a guard, which is killed there and started again: no topic stays paused, and none gets its settings back too early.
"""

import sys
import time

import click

from holdfast.lab.engines.kafka_options import CLIENTS, KafkaOptions
from holdfast.lab.kafka_broker import DEFAULT_VERSION
from soak.brokers import three_brokers
from tests.kafka.guarded import live_guarded
from tests.kafka.outages import PROPERTIES, Outages

SCENARIOS = ("tombstone", "aborted-to-committed", "committed-to-aborted", "stuck")


@click.command()
@click.option(
    "--kafka", "version", default=DEFAULT_VERSION, show_default=True, help="A release of `make kafka`."
)
@click.option("--client", type=click.Choice(CLIENTS), default=CLIENTS[0], show_default=True)
@click.option("--scenario", "scenarios", multiple=True, help="Instead of all four.")
@click.option("--stories/--no-stories", default=True, help="Whether to run the scenarios.")
@click.option("--steps/--no-steps", default=True, help="Whether to kill the guard at each of its steps, too.")
@click.option("--first", type=click.IntRange(0), default=0, help="Begin with that step.")
def main(
    version: str, client: str, scenarios: tuple[str, ...], stories: bool, steps: bool, first: int
) -> None:
    """Exit code 1 if the guard does not keep what it promises."""
    try:
        for name in (scenarios or SCENARIOS) if stories else ():
            began = time.monotonic()
            live_guarded(name, KafkaOptions(version=version, client=client, guard=True))
            click.echo(f"{name} on Apache Kafka {version}, guarded: {time.monotonic() - began:.0f} s")
        if steps:
            _die_at_each_step(version, first)
    except AssertionError as failure:
        click.echo(f"{failure}")
        sys.exit(1)


def _die_at_each_step(version: str, first: int) -> None:
    with three_brokers(version, PROPERTIES) as (brokers, directory):
        outages = Outages(brokers, directory)
        outages.at_each_step(click.echo, first)
        click.echo(f"killed at {len(outages.deaths)} steps on Apache Kafka {version}")


if __name__ == "__main__":
    main()
