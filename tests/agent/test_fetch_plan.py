"""Reading for a fetch: whole batches, limits, and where the next read goes on."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.agent import fetch_plan
from holdfast.agent.committer import Committer
from holdfast.agent.fetch_plan import PartitionData, PartitionReader
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.store_set import StoreSet
from holdfast.agent.writes import AppendBatch, CreateTopic
from holdfast.control.sqlite import SqliteControlPlane
from holdfast.errors import OffsetOutOfRange
from holdfast.records.walk import walk_valid
from holdfast.store.footer import TopicCreated
from holdfast.store.local import LocalStore
from holdfast.store.store import Place
from tests.agent.batches import NOW_MS, batch, view
from tests.agent.faults import CLUSTER

KEY = PartitionKey(UUID(int=1), 0)
BATCH_BYTES = len(batch(b"0" * 100, b"1" * 100))
BATCHES = 12
"""In frames of three: each batch holds two records, so frame n holds offsets 6n to 6n + 5."""
EVERYTHING = 1 << 30


class CountingStore(LocalStore):
    """Knows how many bytes were read from it."""

    read_bytes = 0

    def read(self, place: Place, length: int) -> bytes:
        """Count and read."""
        self.read_bytes += length
        return super().read(place, length)


class Log:
    """Twelve batches of two records in four frames, and a reader over them."""

    def __init__(self, directory: Path) -> None:
        self.plane = SqliteControlPlane(directory / "control.db")
        self.store = CountingStore(directory, store=1, cluster_id=CLUSTER)
        self.committer = Committer(
            plane=self.plane, stores=StoreSet([self.store], append_seconds_max=10), now_ms=lambda: NOW_MS
        )
        self.committer.recover()
        self.committer.commit([CreateTopic(TopicCreated("t", KEY.topic_id, [[1]], {}))])
        self.reader = PartitionReader(self.plane, self.store)

    def fill(self) -> None:
        for _ in range(BATCHES // 3):
            self.append(*[batch(b"0" * 100, b"1" * 100)] * 3)

    def append(self, *batches: bytes) -> None:
        self.committer.commit([AppendBatch(KEY, view(one), 1) for one in batches])

    def read(self, offset: int, bytes_max: int = EVERYTHING, *, at_least_one: bool = True) -> PartitionData:
        return self.reader.read(KEY, offset, bytes_max=bytes_max, at_least_one=at_least_one)

    def close(self) -> None:
        self.store.close()
        self.plane.close()


@pytest.fixture(scope="module")
def full_log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    log = Log(tmp_path_factory.mktemp("log"))
    log.fill()
    yield log
    log.close()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path)
    yield log
    log.close()


def bases(data: PartitionData) -> list[int]:
    return [one.base_offset for one in walk_valid(b"".join(data.chunks))]


def test_everything_from_the_start(full_log: Log) -> None:
    """All batches in order over all frames, with the log's bounds."""
    data = full_log.read(0)
    assert bases(data) == list(range(0, 24, 2))
    assert (data.bounds.start, data.bounds.end) == (0, 24)


@pytest.mark.parametrize("offset", [7, 9, 11, 23])
def test_offset_in_the_middle_of_a_batch_gets_the_whole_batch(full_log: Log, offset: int) -> None:
    """Kafka never cuts a batch: the client skips what it did not ask for."""
    assert bases(full_log.read(offset))[0] == offset - 1


@settings(max_examples=200)
@given(st.integers(0, 23), st.integers(0, BATCH_BYTES * (BATCHES + 1)), st.booleans())
def test_limit_counts_whole_batches(full_log: Log, offset: int, bytes_max: int, at_least_one: bool) -> None:
    """No more batches than fit, or one if at least one is due: from any offset, with any limit.

    From the first offset of a frame on exactly as many as fit; from its middle on it may end with the frame.
    """
    first = offset // 2
    fitting = max(bytes_max // BATCH_BYTES, 1 if at_least_one else 0)
    expected = [2 * number for number in range(first, min(first + fitting, BATCHES))]
    found = bases(full_log.read(offset, bytes_max, at_least_one=at_least_one))
    assert found == expected[: len(found)]
    assert bool(found) == bool(expected)
    assert found == expected or first % 3 != 0


def test_empty_at_the_end_with_bounds(full_log: Log, log: Log) -> None:
    """The end of a log and an empty log have no data and no error, and say where they end."""
    assert full_log.read(24).chunks == []
    assert full_log.read(24).bounds.end == 24
    assert log.read(0).chunks == []


@pytest.mark.parametrize("offset", [-1, 25, 2**62])
def test_outside_of_the_log_is_out_of_range(full_log: Log, offset: int) -> None:
    """One past the end is legal, anything further is not."""
    with pytest.raises(OffsetOutOfRange):
        full_log.read(offset)


def test_reading_on_does_not_search_again(log: Log) -> None:
    """A consumer that follows its own reads pays for the bytes it gets, not for those before them."""
    log.append(*[batch(bytes(1000)) for _ in range(1000)])
    offset = 0
    log.store.read_bytes = 0
    while offset < 1000:
        found = bases(log.read(offset, 20_000))
        assert found == list(range(offset, offset + len(found)))
        offset = found[-1] + 1
    assert log.store.read_bytes < 1.2 * 1000 * len(batch(bytes(1000)))


def test_forgotten_resume_points_are_searched_for(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of reads is a bounded cache: without it every batch is still found."""
    monkeypatch.setattr(fetch_plan, "RESUME_POINTS_MAX", 0)
    monkeypatch.setattr(fetch_plan, "SEARCH_BYTES", 5 * BATCH_BYTES // 2)
    log.append(*[batch(b"0" * 100, b"1" * 100)] * 9)
    for offset in range(18):
        assert bases(log.read(offset, BATCH_BYTES)) == [offset - offset % 2]


def test_batches_of_different_sizes(log: Log) -> None:
    """A batch over the limit is passed when it is first, and ends the read when it is not."""
    log.append(batch(bytes(10)), batch(bytes(9000)), batch(bytes(10)))
    assert bases(log.read(0, 1000)) == [0]
    assert bases(log.read(1, 1000)) == [1]
    assert bases(log.read(2, 1000)) == [2]
    assert bases(log.read(1, 1000, at_least_one=False)) == []


def test_search_reads_headers_and_steps_over_the_rest(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last of many large batches in a frame is found without reading the ones before it."""
    monkeypatch.setattr(fetch_plan, "SEARCH_BYTES", 100)
    size = len(batch(bytes(10_000)))
    log.append(*[batch(bytes(10_000)) for _ in range(20)])
    log.store.read_bytes = 0
    assert bases(log.read(19)) == [19]
    assert log.store.read_bytes <= size + 20 * 100
