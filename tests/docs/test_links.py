"""The pages link to files that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(<?([^)>\s]+)|^\[[^\]]+\]:\s+(\S+)", re.MULTILINE)
"""Inline links and images, and the targets of reference links."""

ELSEWHERE = re.compile(r"[a-z]+:|#")


def links(page: Path) -> list[str]:
    """The targets that are relative to the page, without the place in it."""
    targets = [inline or reference for inline, reference in LINK.findall(page.read_text(encoding="utf-8"))]
    return [target.partition("#")[0] for target in targets if not ELSEWHERE.match(target)]


def test_there_are_links() -> None:
    """A pattern that finds none would prove the next test vacuously."""
    assert sum(len(links(page)) for page in PAGES) > 20


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_resolves(page: Path) -> None:
    """Each leads to a file or directory of this repository."""
    missing = [link for link in links(page) if not (page.parent / link).exists()]
    assert missing == []
