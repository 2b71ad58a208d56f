"""Lines as they arrive, and where records go."""

import io
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli import record_input
from holdfast.cli.record_input import STICKY_BYTES, RecordForm, Spread, read_lines, read_records
from holdfast.client.cluster import Partition, Topic
from holdfast.errors import UnknownTopicOrPartition, UsageError


class Chunks:
    """A stream that gives out what it was told to, one chunk to a read."""

    def __init__(self, *chunks: bytes) -> None:
        self._chunks: Iterator[bytes] = iter(chunks)

    def read1(self, size: int, /) -> bytes:
        """The next chunk."""
        return next(self._chunks, b"")


def topic(partitions: int) -> Topic:
    return Topic(
        name="t",
        partitions={
            number: Partition(index=number, leader=1, replicas=(1,), in_sync=(1,))
            for number in range(partitions)
        },
    )


@given(st.lists(st.binary(min_size=1, max_size=6).map(lambda part: part.replace(b"\x00", b"\n"))))
def test_lines_do_not_depend_on_chunks(chunks: list[bytes]) -> None:
    """However the input is cut, the lines are those of the whole, and a whole line never waits for the next."""
    whole = b"".join(chunks)
    expected = whole.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    assert [line for lines in read_lines(Chunks(*chunks)) for line in lines] == expected


def test_a_line_is_there_when_it_is_whole() -> None:
    """The first lines are given out before the rest is read."""
    stream = read_lines(Chunks(b"a\nb\nc", b"d\n"))
    assert next(stream) == [b"a", b"b"]
    assert next(stream) == [b"cd"]


def test_endless_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Input without line ends does not fill the memory."""
    monkeypatch.setattr(record_input, "LINE_BYTES_MAX", 10)
    with pytest.raises(UsageError, match="longer than 10 bytes"):
        list(read_lines(Chunks(*[b"xxxx"] * 5)))


def test_what_stands_before_a_wrong_line_is_given_out() -> None:
    """The number of the wrong line counts from the start of the input."""
    form = RecordForm(separator=b":")
    stream = read_records(io.BufferedReader(io.BytesIO(b"a:1\nb:2\nwrong\n")), form.from_line)
    assert [given.record.key for given in next(stream)] == [b"a", b"b"]
    with pytest.raises(UsageError, match="line 3: "):
        next(stream)


def test_spread() -> None:
    """Records without a key stay together for a while, then the next partition has its turn."""
    spread = Spread(topic(3))
    form = RecordForm()
    value = bytes(STICKY_BYTES // 2)
    places = [next(iter(spread.assign([form.from_value(value)]))) for _ in range(6)]
    first = places[0]
    assert [(place - first) % 3 for place in places] == [0, 0, 1, 1, 2, 2]


def test_spread_by_key_and_by_wish() -> None:
    """A key has one place, a wish comes before it, and a wish that cannot be is refused."""
    spread = Spread(topic(10))
    by_key = spread.assign([RecordForm(key=b"k").from_value(b"%d" % number) for number in range(5)])
    assert len(by_key) == 1
    assert list(spread.assign([RecordForm(key=b"k", partition=7).from_value(b"")])) == [7]
    with pytest.raises(UnknownTopicOrPartition):
        spread.assign([RecordForm(partition=10).from_value(b"")])
