"""The loop of consume, with a share that changes under it."""

from collections.abc import Collection, Mapping

import pytest

from holdfast.cli.position import Kind, Position
from holdfast.cli.reading import Reading, Source
from holdfast.client.cluster import Cluster
from holdfast.client.offsets import Isolation
from holdfast.records.build import build_batch
from holdfast.records.record import Record
from tests.client.fake_cluster import fake_cluster


class ScriptedShare:
    """Gives out partition 0, or nothing, or no answer yet, turn by turn."""

    def __init__(self, *turns: frozenset[int] | None) -> None:
        self.turns = list(turns)
        self.committed: dict[int, int] = {}
        self.refusals = 0

    def partitions(self, *, idle: bool) -> frozenset[int] | None:
        """The next turn; the last one stays."""
        return self.turns.pop(0) if len(self.turns) > 1 else self.turns[0]

    def begin(self, partitions: Collection[int]) -> dict[int, int]:
        """From what was committed."""
        return {each: self.committed.get(each, 0) for each in partitions}

    def commit(self, positions: Mapping[int, int]) -> bool:
        """Keep it, unless this one is to fail."""
        if self.refusals:
            self.refusals -= 1
            return False
        self.committed |= positions
        return True


MINE = frozenset({0})


def log(*values: bytes) -> bytes:
    return b"".join(
        build_batch([Record(value=value, timestamp_ms=0)], base_offset=offset)
        for offset, value in enumerate(values)
    )


def reading(client: Cluster, share: ScriptedShare, *, end: int | None, count: int | None = None) -> Reading:
    source = Source(
        cluster=client, topic="orders", start=Position(Kind.BEGINNING), isolation=Isolation.READ_COMMITTED
    )
    return Reading(source=source, share=share, ends=None if end is None else {0: end}, count=count)


def values(found: Reading) -> list[bytes | None]:
    return [record.value for portion in found.portions() for _, record in portion]


def test_waits_while_a_group_decides() -> None:
    """No answer yet is not the end: the share may come, be taken and come back."""
    with fake_cluster() as (brokers, client):
        brokers.log = log(b"a", b"b", b"c")
        share = ScriptedShare(None, None, MINE, None, MINE)
        assert values(reading(client, share, end=3)) == [b"a", b"b", b"c"]
        assert share.committed == {0: 3}


def test_an_empty_share_ends_a_reading_with_an_end() -> None:
    """A member that gets nothing has nothing to wait for."""
    with fake_cluster() as (_, client):
        assert values(reading(client, ScriptedShare(frozenset()), end=3)) == []


def test_commits_what_is_written_out() -> None:
    """A portion counts when the next one is asked for, not before."""
    with fake_cluster() as (brokers, client):
        brokers.log = log(b"a", b"b")
        share = ScriptedShare(MINE)
        portions = reading(client, share, end=2).portions()
        next(portions)
        assert share.committed == {}
        assert list(portions) == []
        assert share.committed == {0: 2}


def test_stops_at_the_end_as_it_was() -> None:
    """What was appended after the start is neither shown nor committed."""
    with fake_cluster() as (brokers, client):
        brokers.log = log(b"a", b"b", b"late")
        share = ScriptedShare(MINE)
        assert values(reading(client, share, end=2)) == [b"a", b"b"]
        assert share.committed == {0: 2}


def test_a_commit_that_fails_is_made_up_for() -> None:
    """What could not be noted while the group was busy is noted when the next chance comes."""
    with fake_cluster() as (brokers, client):
        brokers.log = log(b"a", b"b")
        share = ScriptedShare(MINE)
        share.refusals = 1
        assert values(reading(client, share, end=2)) == [b"a", b"b"]
        assert share.committed == {0: 2}


def test_a_last_commit_that_fails_is_made_up_for() -> None:
    """Nobody comes by later who could."""
    with fake_cluster() as (brokers, client):
        brokers.log = log(b"a", b"b")
        for end, count in ((None, 2), (2, None)):
            share = ScriptedShare(MINE, MINE, None, MINE)
            share.refusals = 3
            assert values(reading(client, share, end=end, count=count)) == [b"a", b"b"]
            assert share.committed == {0: 2}


def test_what_was_written_out_before_an_interrupt_is_settled() -> None:
    """^C comes while the group gives out partitions anew, and waits for that; not for what is others' now."""
    with fake_cluster() as (brokers, client):
        brokers.log = log(b"a", b"b")
        for turns, noted in (((MINE, None, MINE), {0: 2}), ((MINE, None, frozenset[int]()), {})):
            share = ScriptedShare(*turns)
            share.refusals = 3
            found = reading(client, share, end=None)
            portions = found.portions()
            next(portions)

            def interrupt(*_: object) -> bool:
                raise KeyboardInterrupt

            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(share, "commit", interrupt)
                with pytest.raises(KeyboardInterrupt):
                    next(portions)
            found.settle()
            assert share.committed == noted


def test_notes_where_it_begins() -> None:
    """A group that starts at the end goes on from there next time, though there was nothing to read."""
    with fake_cluster() as (brokers, client):
        brokers.log = log(b"a", b"b")
        share = ScriptedShare(MINE)
        share.begin = lambda partitions: dict.fromkeys(partitions, 2)  # type: ignore[method-assign]
        assert values(reading(client, share, end=2)) == []
        assert share.committed == {0: 2}


def test_stops_at_the_count() -> None:
    """In the middle of what was fetched, and the rest stays unread for the group."""
    with fake_cluster() as (brokers, client):
        brokers.log = log(b"a", b"b", b"c")
        share = ScriptedShare(MINE)
        assert values(reading(client, share, end=None, count=2)) == [b"a", b"b"]
        assert share.committed == {0: 2}
