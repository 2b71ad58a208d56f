"""`holdfast`: the group that all commands belong to; here errors become lines and exit codes."""

import os
import sys
from importlib import import_module
from importlib.metadata import version

import click

from holdfast.errors import HoldfastError, UsageError

# Command → module that holds it, imported only when it is called: `holdfast up` must start fast.
COMMANDS = {
    "compaction": "Compaction: who waits for whom, and was everything forgotten by right.",
    "completion": "Print the completion script of a shell.",
    "consume": "Read records of a topic.",
    "doctor": "Do the replicas of a Kafka cluster show the same?",
    "group": "Consumer groups: list, describe, reset.",
    "guard": "No cleanup on a Kafka cluster while a replica is away.",
    "keeper": "Upkeep of the stores: settle, compact, catch up.",
    "lab": "See Kafka's harm and the cure, step by step.",
    "log": "Look into log files, compare replicas.",
    "pipeline": "Pipelines on Spark: check, run, status, stop.",
    "produce": "Send records to a topic.",
    "recon": "Reconciliation: is a tenant's day complete, and what is missing.",
    "recover": "Make the control plane anew from the stores.",
    "sql": "Ask topics as if they were tables.",
    "status": "Show how a running Holdfast is.",
    "store": "Stores: list, add, remove, fence, rebuild.",
    "topic": "Topics: list, create, describe, delete, configure, lead, replicas, export.",
    "txn": "Transactions: list, describe, abort, find hanging ones.",
    "up": "Serve the Kafka protocol from this machine.",
    "watch": "Watch a pipeline from outside: is it stuck, and who has to be told.",
}


class _ReaderLeft(Exception):
    """Whoever read our output has closed it. Not an OSError: click would make exit code 1 of that."""


class Commands(click.Group):
    """Finds a command in the module of its name."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command that was chosen."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ReaderLeft from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, by name."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command."""
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(f"holdfast.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in `holdfast --help`, without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("holdfast"), prog_name="holdfast")
def holdfast() -> None:
    """A Kafka-compatible log that never forgets a delete or a rollback while a replica still needs it."""


def main() -> None:
    """Run the command line; every expected failure is one line on stderr and an exit code."""
    try:
        code = _run()
    except (BrokenPipeError, _ReaderLeft):
        # There is nobody to tell, and flushing at exit would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    sys.exit(code)


def _run() -> int:
    try:
        code = holdfast.main(standalone_mode=False)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.Abort:
        return 130
    except click.exceptions.NoArgsIsHelpError as unfinished:
        # A group without a command: its message is the whole help.
        click.echo(unfinished.format_message())
        return UsageError.exit_code
    except click.ClickException as failure:
        return _complain(failure.format_message(), UsageError.exit_code)
    except HoldfastError as failure:
        return _complain(str(failure), failure.exit_code)
    return code if isinstance(code, int) else 0


def _complain(message: str, code: int) -> int:
    click.echo(f"holdfast: {message}", err=True)
    return code
