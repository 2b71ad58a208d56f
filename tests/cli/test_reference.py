"""The page on the command line."""

from pathlib import Path

from holdfast.cli.reference import reference

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_page_is_current() -> None:
    """docs/cli.md is what the commands say of themselves; else run `python -m holdfast.cli.reference > docs/cli.md`."""
    assert PAGE.read_text() == reference()
