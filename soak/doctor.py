"""Doctor and guard beside a healthy Apache Kafka cluster that is never at rest: part of `make soak`.

`python -m soak.doctor --seconds 600` restarts brokers, moves leaders and writes transactions all the time; `--seed` has
the same written again.
"""

import secrets
import sys

import click

from holdfast.lab.kafka_broker import DEFAULT_VERSION
from soak.brokers import three_brokers
from tests.kafka.healthy import Healthy

SEED_MAX = 10**9
PROPERTIES = {"log.cleaner.backoff.ms": "200", "auto.leader.rebalance.enable": "false"}


@click.command()
@click.option("--seconds", type=click.IntRange(1), default=600, show_default=True, help="How long.")
@click.option(
    "--kafka", "version", default=DEFAULT_VERSION, show_default=True, help="A release of `make kafka`."
)
@click.option("--seed", type=int, help="Of what is written and who restarts.")
def main(seconds: int, version: str, seed: int | None) -> None:
    """Exit code 1 if the doctor confirms a difference or cannot look at who is there, or if a pause does not end."""
    seed = secrets.randbelow(SEED_MAX) if seed is None else seed
    click.echo(f"python -m soak.doctor --kafka {version} --seconds {seconds} --seed {seed}")
    with three_brokers(version, PROPERTIES) as (brokers, directory):
        healthy = Healthy(brokers, directory, seed)
        try:
            healthy.live(seconds)
        except AssertionError as failure:
            click.echo(failure)
            sys.exit(1)
        finally:
            click.echo(
                f"{healthy.looks} looks at all replicas, {healthy.restarts} restarts, {healthy.moves} leader moves,"
                f" {healthy.transactions} transactions, {healthy.pauses} pauses"
            )


if __name__ == "__main__":
    main()
