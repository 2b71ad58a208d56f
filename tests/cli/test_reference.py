"""The page on the command line."""

import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_page_is_current() -> None:
    """docs/cli.md is what the commands say of themselves; else run `python -m holdfast.cli.reference > docs/cli.md`."""
    # In a process of its own: click remembers the help option of a command as it was first asked for.
    written = subprocess.run(
        [sys.executable, "-m", "holdfast.cli.reference"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert PAGE.read_text() == written.stdout
