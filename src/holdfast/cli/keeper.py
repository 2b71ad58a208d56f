"""`holdfast keeper`: upkeep by hand, and the process that `holdfast up` starts for it."""

from pathlib import Path

import click

from holdfast.cli import logs
from holdfast.cli.data_option import data_option
from holdfast.cli.spark_option import master_option


@click.group()
def keeper() -> None:
    """Settle and compact the stores, let what was away catch up, give space back."""


@keeper.command()
@data_option("The directory of the stores; beside a running `holdfast up` or alone.")
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Settings in TOML, where no `holdfast up` runs that has its own.",
)
@click.option("--once", is_flag=True, help="One round over all stores, then leave.")
@click.option("--idle-seconds", type=float, hidden=True, help="Leave when nothing was due for so long.")
@master_option(default=None)
@click.option("--log-format", type=click.Choice(logs.FORMATS), default="text", show_default=True)
def run(
    data: Path,
    config: Path | None,
    once: bool,
    idle_seconds: float | None,
    master: str | None,
    log_format: str,
) -> None:
    """Run rounds of upkeep. Safe beside another keeper: a store has one at a time, and this one waits.

    Large rounds run on Spark, where --master or the setting spark_master says; its executors must reach the stores.
    """
    from holdfast.agent import config_file
    from holdfast.agent.settings import Settings
    from holdfast.cli.keeper_run import KeeperRun

    logs.set_up(log_format)
    from_file = config_file.load(config) if config is not None else {}
    settings = Settings(data=data, **from_file)
    KeeperRun(settings, once=once, idle_seconds=idle_seconds, master=master).run()
