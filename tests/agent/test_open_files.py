"""The limit on open files: raised where that is allowed, and no reason not to start where it is not."""

import resource
import subprocess
import sys

import pytest

from holdfast.agent.open_files import raise_open_files_max

RAISE = """
import resource
from holdfast.agent.open_files import raise_open_files_max
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 700))
print(raise_open_files_max(), resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_raised_to_what_the_user_may_have() -> None:
    """The soft limit becomes the hard one, which stays."""
    done = subprocess.run([sys.executable, "-c", RAISE], capture_output=True, text=True, check=True)
    assert done.stdout == "700 (700, 700)\n"


def test_a_system_that_does_not_grant_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The limit stays, and the log says so."""

    def refuse(which: int, limits: tuple[int, int]) -> None:
        raise ValueError("current limit exceeds maximum limit")

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert raise_open_files_max() == soft
    assert f"open files stay limited to {soft}" in caplog.text
