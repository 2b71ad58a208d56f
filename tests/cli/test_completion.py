"""Completion: scripts that shells take, and names from the cluster."""

import os
import shutil
import socket
import subprocess
import sys

import pytest

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition, commit_group_offsets
from tests.cli.commands import SECONDS_MAX


def completed(words: str, bootstrap: str) -> list[str]:
    """What the shell is offered for the last word."""
    environment = {
        **os.environ,
        "_HOLDFAST_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
        "HOLDFAST_BOOTSTRAP": bootstrap,
    }
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.argv[0] = 'holdfast'; from holdfast.cli.main import main; main()",
        ],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert result.stderr == ""
    return [line.removeprefix("plain,") for line in result.stdout.split()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(shell: str) -> None:
    """Each script names the program, and a shell that is here finds no fault with it."""
    script = subprocess.run(
        [sys.executable, "-m", "holdfast", "completion", shell],
        capture_output=True,
        timeout=SECONDS_MAX,
        check=True,
    ).stdout
    assert b"_HOLDFAST_COMPLETE" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, timeout=SECONDS_MAX, check=True)


def test_names(bootstrap: str, topic: str) -> None:
    """Commands and topics are completed; an unreachable cluster is no error."""
    assert completed("holdfast pro", bootstrap) == ["produce"]
    assert completed(f"holdfast topic describe {topic[:-1]}", bootstrap) == [topic]
    assert completed(f"holdfast topic config {topic} max.", bootstrap) == [
        "max.compaction.lag.ms",
        "max.message.bytes",
    ]
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    assert completed("holdfast topic describe x", f"127.0.0.1:{free}") == []


def test_groups(bootstrap: str, cluster: Cluster, topic: str) -> None:
    """Wherever one is named."""
    commit_group_offsets(cluster, "completed-group", {TopicPartition(topic, 0): 0})
    for words in ("group describe", "group reset", f"consume {topic} --group"):
        assert completed(f"holdfast {words} completed-", bootstrap) == ["completed-group"]


def test_unknown_shell() -> None:
    """The choice is told."""
    words = [sys.executable, "-m", "holdfast", "completion", "tcsh"]
    result = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert result.returncode == 2
    assert "'bash', 'zsh', 'fish'" in result.stderr
