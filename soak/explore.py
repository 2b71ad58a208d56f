"""`holdfast lab explore` with fresh seeds, a few thousand at a time, until the time is over: part of `make soak`."""

import secrets
import subprocess
import sys
import time

import click

SEEDS_AT_A_TIME = 2_000
FIRST_SEED_MAX = 10**9


@click.command()
@click.option("--seconds", type=click.IntRange(1), default=60, show_default=True, help="How long.")
def main(seconds: int) -> None:
    """Exit code 1 and a short schedule, with the command that plays it again, if an invariant breaks."""
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        first = secrets.randbelow(FIRST_SEED_MAX)
        click.echo(f"holdfast lab explore --first-seed {first} --seeds {SEEDS_AT_A_TIME}")
        command = [sys.executable, "-m", "holdfast", "lab", "explore"]
        done = subprocess.run(
            [*command, "--first-seed", str(first), "--seeds", str(SEEDS_AT_A_TIME)], check=False
        )
        if done.returncode:
            sys.exit(done.returncode)


if __name__ == "__main__":
    main()
