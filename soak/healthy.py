"""A pipeline on Spark whose micro-batches are minutes apart, and whose watcher must have nothing to tell: `make soak`.

`python -m soak.healthy --seconds 3600` is an hour of five minutes each, with the default thresholds. Less time is the
same hour made shorter: the trigger, and how long what may take.
"""

import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import click

from soak.watched import POLL_S, Watched, await_health, running
from tests.process import HoldfastProcess

HOUR_S: Final = 3_600
TRIGGER_S: Final = 300
ALARMS: Final = "alarms:\n  stall: {stall}s\n  age: {{warn: {warn}s, page: {page}s}}\n"
STALL_S, WARN_S, PAGE_S = 60, 120, 300


@click.command()
@click.option("--seconds", type=click.IntRange(min=360), default=HOUR_S, show_default=True)
def main(seconds: int) -> None:
    """Exit code 1 if anything is told of that is none, or nothing is forwarded."""
    stall, warn, page = (max(1, each * seconds // HOUR_S) for each in (STALL_S, WARN_S, PAGE_S))
    settings = {
        "interval: 1s": f"interval: {TRIGGER_S * seconds // HOUR_S}s",
        "alarms:\n  stall: 60s\n": ALARMS.format(stall=stall, warn=warn, page=page),
    }
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        holdfast = stack.enter_context(HoldfastProcess(Path(name) / "data"))
        watched = stack.enter_context(running(Path(name), holdfast.bootstrap, settings))
        await_health(watched)
        before = _batches(watched)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            alarms = watched.alarms()
            if alarms:
                click.echo("\n".join(f"{each['kind']}: {each['what']}" for each in alarms))
                sys.exit(1)
            time.sleep(POLL_S)
        forwarded = [after - number for number, after in zip(before, _batches(watched), strict=True)]
    click.echo(
        f"quiet for {seconds} s: {' and '.join(map(str, forwarded))} micro-batches of service and adapter"
    )
    sys.exit(0 if min(forwarded) >= HOUR_S // TRIGGER_S // 2 else 1)


def _batches(watched: Watched) -> list[int]:
    """The number of the last one, of each part."""
    states = [part.state for part in watched.look()]
    return [state.queries[0].batch_id for state in states if state is not None]


if __name__ == "__main__":
    main()
