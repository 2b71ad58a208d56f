"""Kill the process at random moments under load, again and again: `make soak`.

Every round has a fresh seed, which alone says what happens in it; the moment of a kill is as exact as the
machine lets it be. Exit code 1 and the seed if a history does not fit the log.
"""

import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click

from soak import plan, play
from soak.workloads.transfers import TransfersSpec
from soak.workloads.transform import TransformSpec

KEPT = Path(__file__).parents[1] / "build" / "soak"
SEED_MAX = 10**9
SHOWN_MAX = 10


@click.command()
@click.option("--rounds", type=click.IntRange(1), help="How many rounds; 300 if nothing is said.")
@click.option("--seconds", type=click.IntRange(1), help="No round begins later than this.")
@click.option("--seed", type=int, help="Play this one round again.")
@click.option(
    "--repeat", type=click.IntRange(1), default=1, show_default=True, help="How often to play --seed."
)
def main(rounds: int | None, seconds: int | None, seed: int | None, repeat: int) -> None:
    """Rounds until one fails or enough have passed."""
    begun = time.monotonic()
    total = repeat if seed is not None else rounds or (None if seconds else 300)
    played = acknowledged = kills = 0
    for number, each in enumerate(_seeds(seed), 1):
        if (total and number > total) or (seconds and time.monotonic() - begun > seconds):
            break
        report = _play(each)
        click.echo(_line(number, total, report))
        if report.violations:
            _tell(report)
            sys.exit(1)
        played += 1
        acknowledged += report.acknowledged
        kills += len(report.plan.kills)
    took = time.monotonic() - begun
    click.echo(
        f"{played} rounds, {kills} kills, {acknowledged:,} acknowledged in {took:.0f} s: all there, once, "
        "in order, at their offsets"
    )


def _seeds(seed: int | None) -> Iterator[int]:
    while True:
        yield secrets.randbelow(SEED_MAX) if seed is None else seed


def _play(seed: int) -> play.Report:
    directory = KEPT / f"seed-{seed}"
    shutil.rmtree(directory, ignore_errors=True)
    report = play.run(plan.draw(seed), directory)
    if not report.violations:
        shutil.rmtree(directory)
    return report


def _line(number: int, total: int | None, report: play.Report) -> str:
    setting, kills = report.plan.setting, report.plan.kills
    faults = sorted({type(fault).__name__ for kill in kills for fault in kill.faults})
    pipelines = [spec.name for spec in report.plan.specs if isinstance(spec, TransformSpec | TransfersSpec)]
    what = [*pipelines, *(["upkeep"] if report.plan.has_upkeep else [])]
    return (
        f"{number}{f'/{total}' if total else ''}  seed {report.plan.seed}  {setting.nodes}n {setting.partitions}p  "
        f"{len(kills)} kills{' ' if faults else ''}{' '.join(faults)}  "
        f"{' '.join(what)}{'  ' if what else ''}{report.acknowledged:,} acknowledged  "
        f"{report.seconds:.1f} s  {'FAILED' if report.violations else 'ok'}"
    )


def _tell(report: play.Report) -> None:
    for line in report.plan.lines():
        click.echo(f"  {line}")
    for violation in report.violations[:SHOWN_MAX]:
        click.echo(f"  {violation}")
    if len(report.violations) > SHOWN_MAX:
        click.echo(f"  and {len(report.violations) - SHOWN_MAX} more")
    click.echo(f"  again: make soak SEED={report.plan.seed}")
    click.echo(f"  files: {KEPT / f'seed-{report.plan.seed}'}")


if __name__ == "__main__":
    main()
