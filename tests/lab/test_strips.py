"""The account in the terminal and as a page: aligned, complete, and self-contained."""

import io
import re
from html.parser import HTMLParser

import pytest
from rich.console import Console

from holdfast.lab import library, page, strips, sweep_view
from holdfast.lab.account import Account, run
from holdfast.lab.layout import clock, rows
from holdfast.lab.narration import duration
from holdfast.lab.sweep import OUTAGES_MS, RETENTIONS_MS, SweepCell


@pytest.fixture(scope="module")
def harmed() -> Account:
    """A run with a tombstone lost."""
    return run(library.load("tombstone"), policy="kafka")


def drawn(account: Account, number: int) -> str:
    screen = Console(file=io.StringIO(), width=120, color_system=None)
    screen.print(strips.frame(number, account, account.frames[number - 1]))
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


def test_strips_align_by_offset(harmed: Account) -> None:
    """What the replicas hold at one offset stands in one column."""
    lines = drawn(harmed, 3).splitlines()
    ones, twos, threes = (next(line for line in lines if line.startswith(f"   {n} ")) for n in (1, 2, 3))
    assert ones.index("K=V") == twos.index("K=V") == threes.index("K=V")
    assert ones.index("K=✗") == twos.index("K=✗")
    assert "K=✗" not in threes


def test_a_hole_differs_from_what_was_never_fetched(harmed: Account) -> None:
    """Compacted away is drawn, not yet there is blank."""
    frame = next(frame for frame in harmed.frames if frame.line.verb == "churn")
    _, (one, _, three) = rows(frame)
    assert [square.look for square in one.squares] == ["hole", "filler"]
    assert [square.look for square in three.squares] == ["value", "absent"]


def test_every_step_has_one_sentence_of_plain_words() -> None:
    """In every scenario, under both policies, a capital letter begins and a full stop ends it."""
    for name in library.names():
        for policy in ("kafka", "coordinated"):
            for frame in run(library.load(name), policy=policy).frames:
                assert re.fullmatch(r"\S.*\.", frame.sentence), frame.sentence
                assert "None" not in frame.sentence


def test_a_step_that_changes_nothing_draws_no_strips() -> None:
    """`begin` shows its sentence alone."""
    account = run(library.load("committed-to-aborted"), policy="kafka")
    number = next(n for n, frame in enumerate(account.frames, 1) if frame.line.verb == "begin")
    assert "LSO/end" not in drawn(account, number)
    assert "LSO/end" in drawn(account, number + 1)


def test_the_verdict_names_the_harm(harmed: Account) -> None:
    """Diverged, with the variant and the evidence; agreed under coordination."""
    screen = Console(file=io.StringIO(), width=120, color_system=None)
    screen.print(strips.closing(harmed))
    screen.print(strips.closing(run(library.load("tombstone"), policy="coordinated")))
    assert isinstance(screen.file, io.StringIO)
    text = screen.file.getvalue()
    assert "DIVERGED: tombstone" in text
    assert "Replica 3: K reads V, but was deleted at offset 1" in text
    assert "AGREED" in text


class Page(HTMLParser):
    """Collects what a page refers to, and whether its tags close."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "rect", "line", "polyline"):
            self.open.append(tag)
        self.references += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        if tag in ("rect", "line", "polyline"):
            return
        assert self.open.pop() == tag


def checked(html: str) -> None:
    parser = Page()
    parser.feed(html)
    assert parser.open == []
    assert parser.references == []
    assert "<script" not in html
    assert "url(" not in html


def test_the_page_is_self_contained_and_whole(harmed: Account) -> None:
    """Every tag closes and nothing is fetched from elsewhere; each step is there."""
    html = page.account_page(harmed)
    checked(html)
    assert html.count("<li ") == len(harmed.scenario.lines)
    assert "Diverged: tombstone" in html


def test_the_sweep_page_is_self_contained_and_whole() -> None:
    """Table and plot, one line per retention."""
    cells = [
        SweepCell(
            policy=policy, outage_ms=outage, retention_ms=retention, runs=2, diverged=int(outage > retention)
        )
        for policy in ("kafka", "coordinated")
        for retention in RETENTIONS_MS
        for outage in OUTAGES_MS
    ]
    html = sweep_view.sweep_page(cells)
    checked(html)
    assert html.count("<polyline") == len(RETENTIONS_MS)


def test_times_read_well() -> None:
    """Durations in two units at most, virtual time as day and clock."""
    assert duration(90 * 60_000) == "1 hour 30 minutes"
    assert duration(3 * 86_400_000) == "3 days"
    assert duration(0) == "no time"
    assert clock(26 * 3_600_000 + 60_000) == "day 1, 02:01"
