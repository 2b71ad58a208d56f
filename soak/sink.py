"""Kill driver, worker and Holdfast at every step of micro-batches, of sinks and of pipelines: part of `make soak`.

`python -m soak.sink` goes through the whole matrix; `--only NAME` plays one case again.
"""

import logging
import sys
import tempfile
import time
from pathlib import Path

import click

from holdfast.spark.session import spark_session
from tests.pipelines import kills as of_pipelines
from tests.process import HoldfastProcess
from tests.spark import kills as of_sinks
from tests.spark.streams import SHORT_LIVED


@click.command()
@click.option("--only", metavar="NAME", help="One case, by its name.")
def main(only: str | None) -> None:
    """Exit code 1 and the name of the case if a row is lost or there twice."""
    matrix = dict.fromkeys(of_sinks.matrix(), of_sinks.strike)
    matrix |= dict.fromkeys(of_sinks.matrix(of_pipelines.MODES), of_pipelines.strike)
    cases = {case: strike for case, strike in matrix.items() if only is None or str(case) == only}
    if not cases:
        raise click.UsageError(f"there is no case {only!r}; there are {', '.join(map(str, matrix))}")
    # Every kill is told of by the sink; here they are meant.
    logging.getLogger("holdfast.spark.sink").setLevel(logging.ERROR)
    spark = spark_session("soak", master="local[2]", config=SHORT_LIVED)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with HoldfastProcess(directory / "holdfast" / "data", log=directory / "stderr") as holdfast:
            for number, (case, strike) in enumerate(cases.items(), 1):
                begun = time.monotonic()
                (directory / str(case)).mkdir()
                try:
                    strike(case, spark, holdfast, directory / str(case))
                except AssertionError as failure:
                    click.echo(f"{number}/{len(cases)} {failure}")
                    click.echo(f"again with: python -m soak.sink --only {case}")
                    sys.exit(1)
                click.echo(f"{number}/{len(cases)} {case}: {time.monotonic() - begun:.1f} s")
    spark.stop()
    click.echo(f"{len(cases)} kills in the middle of micro-batches: every row is there, once")


if __name__ == "__main__":
    main()
