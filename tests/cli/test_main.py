"""The command line as a whole: help, unknown commands, and errors of one line."""

import os
import subprocess
import sys

import pytest


def holdfast(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_help_lists_the_commands() -> None:
    """Every command has its line."""
    result = holdfast("--help")
    assert result.returncode == 0
    for command in ("log", "up"):
        assert f"\n  {command} " in result.stdout
    assert result.stderr == ""


def test_version_is_one_line() -> None:
    """Name and number."""
    result = holdfast("--version")
    assert result.returncode == 0
    assert result.stdout.startswith("holdfast, version ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["--nonsense"], "No such option"),
        (["up", "--nonsense"], "No such option"),
        (["up", "surplus"], "unexpected extra argument"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(arguments: list[str], said: str) -> None:
    """No traceback, no page of help."""
    result = holdfast(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("holdfast: ")
    assert said in line


@pytest.mark.parametrize("group", ["", "group", "lab", "log", "topic"])
def test_a_group_alone_shows_its_help(group: str) -> None:
    """The help as `--help` prints it, on stdout, but nothing was done: exit code 2."""
    arguments = group.split()
    result = holdfast(*arguments)
    assert (result.returncode, result.stderr) == (2, "")
    assert result.stdout == holdfast(*arguments, "--help").stdout
    assert result.stdout.startswith("Usage: ")


def test_nobody_reads_the_help() -> None:
    """`holdfast lab | true` ends quietly, as every command does."""
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-m", "holdfast", "lab"]
    result = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, timeout=30, check=False)
    os.close(writer)
    assert (result.returncode, result.stderr) == (141, b"")


def test_command_line_starts_without_the_data_libraries() -> None:
    """`holdfast --help` and the agent's modules import neither numba nor Arrow nor Spark."""
    code = (
        "import sys, holdfast.cli.main, holdfast.cli.up, holdfast.agent.server\n"
        "heavy = {'numba', 'numpy', 'pyarrow', 'pandas', 'pyspark', 'py4j'} & set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
