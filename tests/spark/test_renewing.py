"""How often a process asks for its files to be held on."""

import pytest

from holdfast.errors import ConnectionFailed
from holdfast.spark import held
from holdfast.spark.held import HOLDS_MAX, RENEW_PARTS, Hold, Holding

SECONDS = 60.0
PART_S = SECONDS / RENEW_PARTS


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that were renewed; the agent is not there, which is no harm."""
    names: list[str] = []

    def renew(address: str, name: str, seconds: float) -> None:
        names.append(name)
        raise ConnectionFailed("nobody")

    monkeypatch.setattr(held, "renew_reading", renew)
    monkeypatch.setattr(held, "_RENEWED_S", {})
    return names


def hold(name: str) -> Hold:
    """One of sixty seconds."""
    return Hold(address="127.0.0.1:1", name=name, seconds=SECONDS)


def test_ranges_of_a_reading_renew_it_together(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, and however short: as often as its time asks for, and each reading by itself."""
    now = [0.0]
    monkeypatch.setattr("holdfast.spark.held.time.monotonic", lambda: now[0])
    for now_s, renewed in ((0.0, 1), (PART_S - 1, 1), (PART_S, 2), (PART_S + 1, 2), (10 * PART_S, 3)):
        now[0] = now_s
        for _ in range(3):
            Holding(hold("a")).renew()
        assert asked == ["a"] * renewed
    Holding(hold("b")).renew()
    assert asked[-1] == "b"
    Holding(None).renew()
    assert len(asked) == 4


def test_what_is_remembered_is_bounded(asked: list[str]) -> None:
    """A process that lives long forgets readings that are over."""
    for number in range(3 * HOLDS_MAX):
        Holding(hold(str(number))).renew()
    assert len(held._RENEWED_S) <= HOLDS_MAX
    assert len(asked) == 3 * HOLDS_MAX
