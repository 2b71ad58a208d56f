"""`holdfast lab explore`: search random schedules for one that goes wrong."""

import time
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.present import json_option, print_json
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.lab.explore import Found, Part, Search


@click.command()
@click.option("--seeds", type=int, default=1_000, show_default=True, help="How many schedules to play.")
@click.option("--first-seed", type=int, default=0, show_default=True, help="The seed of the first one.")
@click.option(
    "--policy", default="coordinated", show_default=True, help="Who compacts: kafka or coordinated."
)
@click.option(
    "--replicas", type=int, help="How many replicas to begin with; drawn from the seed if left out."
)
@click.option("--jobs", type=int, help="How many processes; one per core if left out.")
@click.option(
    "--without",
    multiple=True,
    metavar="GUARD",
    help="Take a guard out and see what happens; `list` lists them. Repeatable.",
)
@click.option("--readers-only", is_flag=True, help="Check only what readers of the replicas meet.")
@json_option
@click.pass_context
def explore(
    ctx: click.Context,
    seeds: int,
    first_seed: int,
    policy: str,
    replicas: int | None,
    jobs: int | None,
    without: tuple[str, ...],
    readers_only: bool,
    as_json: bool,
) -> None:
    """Play random schedules and check them against a log that is never compacted.

    One seed is one schedule, always the same. What fails is shrunk before it is shown. Exit code 0: nothing
    was found; 1: something was.
    """
    from holdfast.lab.explore import Search
    from holdfast.lab.guards import GUARDS

    if "list" in without:
        width = max(map(len, GUARDS))
        for name, guard in GUARDS.items():
            click.echo(f"{name:<{width}}  {guard.holds}")
        return
    search = Search(
        policy=policy,
        first_seed=first_seed,
        seeds=seeds,
        replicas=replicas,
        without=without,
        readers_only=readers_only,
    )
    _refuse_nonsense(search, jobs)
    started = time.perf_counter()
    whole = _search(search, jobs)
    took_s = time.perf_counter() - started
    shortest = _shrunk(search, whole)
    if as_json:
        print_json(_document(search, whole, shortest, took_s))
    else:
        _print(search, whole, shortest, took_s)
    ctx.exit(1 if shortest else 0)


def _refuse_nonsense(search: "Search", jobs: int | None) -> None:
    from holdfast.lab.engines.engine import POLICIES, REPLICAS_MAX
    from holdfast.lab.guards import GUARDS

    if search.seeds < 1:
        raise UsageError(f"--seeds takes a number from 1 on, not {search.seeds}")
    if search.first_seed < 0:
        raise UsageError(f"--first-seed takes a number from 0 on, not {search.first_seed}")
    if search.policy not in POLICIES:
        raise UsageError(f"unknown policy '{search.policy}'; known are: {', '.join(POLICIES)}")
    if search.replicas is not None and not 1 <= search.replicas <= REPLICAS_MAX - 2:
        raise UsageError(f"--replicas takes a number from 1 to {REPLICAS_MAX - 2}, not {search.replicas}")
    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs takes a number from 1 on, not {jobs}")
    for name in search.without:
        if name not in GUARDS:
            raise UsageError(f"unknown guard '{name}'; known are: {', '.join(GUARDS)}")
    if search.without and search.policy == "kafka":
        raise UsageError("Kafka's policy has no guards to take out")


def _search(search: "Search", jobs: int | None) -> "Part":
    """Play all seeds behind a progress bar with rate and time left; quiet if nobody is looking."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from holdfast.lab.explore import Part, cores
    from holdfast.lab.explore import explore as search_parts

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:.0f}/s"),
        TimeRemainingColumn(),
    )
    whole = Part()
    started = time.perf_counter()
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task("exploring", total=search.seeds, rate=0.0)
        for part in search_parts(search, jobs=jobs or cores()):
            whole = whole.plus(part)
            rate = whole.seeds / (time.perf_counter() - started)
            progress.update(task, completed=whole.seeds, rate=rate)
    return whole


def _shrunk(search: "Search", whole: "Part") -> list["Found"]:
    from holdfast.lab.guards import without
    from holdfast.lab.shrink import shrink

    with without(search.without):
        return [shrink(found) for found in sorted(whole.first.values(), key=lambda found: found.seed)]


def _document(search: "Search", whole: "Part", shortest: list["Found"], took_s: float) -> dict[str, Any]:
    from holdfast.lab import transcript

    return {
        "policy": search.policy,
        "replicas": search.replicas,
        "first_seed": search.first_seed,
        "seeds": search.seeds,
        "without": list(search.without),
        "readers_only": search.readers_only,
        "clean": not shortest,
        "variants": sorted({found.violation.variant for found in shortest if found.violation.variant}),
        "found": [
            {
                "seed": found.seed,
                "invariant": found.violation.invariant,
                "variant": found.violation.variant,
                "what": found.violation.what,
                "seeds": whole.counts[found.kind],
                "schedule": transcript.lines(found),
            }
            for found in shortest
        ],
        "seconds": round(took_s, 3),
        "schedules_per_second": round(search.seeds / took_s, 1),
    }


def _print(search: "Search", whole: "Part", shortest: list["Found"], took_s: float) -> None:
    from holdfast.lab import transcript

    failed = whole.counts.total()
    outcome = f"{failed} broke an invariant" if failed else "none broke an invariant"
    click.echo(
        f"{whole.seeds} schedule{'s' if whole.seeds != 1 else ''} under {search.policy}: {outcome} "
        f"({took_s:.1f} s, {whole.seeds / took_s:.0f}/s)"
    )
    for found in shortest:
        violation = found.violation
        click.echo("")
        click.echo(
            f"{violation.variant or violation.invariant}: {whole.counts[found.kind]} of {whole.seeds}, first at "
            f"seed {found.seed}, shrunk to {len(found.steps)} steps"
        )
        for told in transcript.lines(found):
            click.echo(f"    {told}")
        click.echo(f"  {violation.what}")
        click.echo(f"  again: holdfast lab explore {_options(search)} --first-seed {found.seed} --seeds 1")


def _options(search: "Search") -> str:
    words = [f"--policy {search.policy}"]
    if search.replicas is not None:
        words.append(f"--replicas {search.replicas}")
    words += [f"--without {name}" for name in search.without]
    if search.readers_only:
        words.append("--readers-only")
    return " ".join(words)
