"""Which transactional ids are held to what they have announced."""

from pathlib import Path

import pytest

from holdfast.agent.transactions import known_ids
from holdfast.agent.transactions.known_ids import KnownIds
from tests.agent.transactions.driving import TV1, Desk, run

ENDED = 48


def test_the_latest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever was seen again is young again."""
    monkeypatch.setattr(known_ids, "IDS_MAX", 3)
    known = KnownIds()
    for name in "abcad":
        known.add(name)
    assert [known.has(name) for name in "abcd"] == [True, False, True, True]


def test_an_id_that_is_no_longer_known_is_forgiven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a restart: what it writes without a word belongs to its transaction."""
    monkeypatch.setattr(known_ids, "IDS_MAX", 1)

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer(versions=TV1)
        await producer.write(b"announced")
        assert (await producer.produce(b"not announced", partition=1))[0] == ENDED
        await desk.producer("other", TV1)
        assert (await producer.produce(b"forgiven", partition=1))[0] == 0
        assert await producer.end(commit=True) == 0
        assert (await producer.produce(b"not announced", partition=1))[0] == ENDED

    run(tmp_path, scenario)
