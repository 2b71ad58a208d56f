"""Real clients read compacted topics to their end, wherever they begin: there are gaps in them, large and small.

Kafka compacts when it likes to and leaves other gaps, so only Holdfast is asked.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from holdfast.client.cluster import Cluster
from holdfast.client.producer import Producer
from holdfast.client.topics import create_topic
from holdfast.records.build import Record
from tests.agent.end_readers import END_READERS, EndReader, Row
from tests.agent.keeping import run_keeper, server_without_keeper

pytestmark = pytest.mark.holdfast_only

T0 = 1_700_000_000_000
STEP_MS = 1000
"""Between records."""
CONFIGS = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "0"}
Batch = Sequence[tuple[str, str | None]]
"""Keys and values."""

ISOLATIONS = ("read_committed", "read_uncommitted")


@dataclass
class Table:
    """A topic as it was produced, batch by batch, and what compaction leaves of it in the end."""

    name: str
    rows: list[Row] = field(default_factory=list)

    def produce(self, cluster: Cluster, *batches: Batch) -> None:
        """One batch after the other; times rise with offsets."""
        producer = Producer(cluster, self.name)
        for batch in batches:
            records = []
            for key, value in batch:
                row = (len(self.rows), key.encode(), None if value is None else value.encode())
                self.rows.append(row)
                records.append(Record(key=row[1], value=row[2], timestamp_ms=time_of(row[0])))
            producer.send({0: records})

    def left(self, *, below: int | None = None) -> list[Row]:
        """Each key's newest record below an offset, if it is no tombstone, and everything above."""
        below = len(self.rows) if below is None else below
        newest = {key: offset for offset, key, _ in self.rows[:below]}
        kept = [row for row in self.rows[:below] if newest[row[1]] == row[0] and row[2] is not None]
        return kept + self.rows[below:]


def time_of(offset: int) -> int:
    return T0 + STEP_MS * offset


def named(letter: str, count: int, value: str | None) -> list[tuple[str, str | None]]:
    return [(f"{letter}{number}", value) for number in range(count)]


@dataclass
class Gaps:
    """A server, and topics that have been compacted until nothing more could go."""

    bootstrap: str
    thin: Table
    """Gaps at the start, between batches, inside of batches, and at the end."""
    gone: Table
    """Nothing is left."""
    grown: Table
    """The same gaps, and records that were produced since."""
    grown_at: int


@pytest.fixture(scope="module")
def gaps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gaps]:
    """All tests here only read."""
    directory = tmp_path_factory.mktemp("gaps")
    with server_without_keeper(directory) as process, Cluster(process.bootstrap) as cluster:
        thin, gone, grown = Table("thin"), Table("gone"), Table("grown")
        for table in (thin, gone, grown):
            create_topic(cluster, table.name, partitions=1, configs=CONFIGS)
        batches: list[Batch] = [
            named("x", 3, "old"),
            named("a", 10, "old"),
            named("a", 5, "new"),
            named("b", 10, "old"),
            named("c", 5, "old"),
            [*named("b", 10, None), *named("x", 3, None)],
            [("c0", "new"), *named("d", 3, "old")],
            [("d1", None), ("d2", None)],
        ]
        thin.produce(cluster, *batches)
        grown.produce(cluster, *batches)
        gone.produce(cluster, named("x", 5, "old"), named("x", 5, None))
        run_keeper(process, rounds=2)
        grown_at = len(grown.rows)
        grown.produce(cluster, named("a", 2, "newest"), [("c0", None)])
        yield Gaps(process.bootstrap, thin, gone, grown, grown_at)


@pytest.fixture(params=END_READERS)
def client(request: pytest.FixtureRequest) -> str:
    """Each client in turn."""
    return str(request.param)


@pytest.fixture(params=ISOLATIONS)
def reader(request: pytest.FixtureRequest, gaps: Gaps, client: str) -> EndReader:
    """At both isolation levels."""
    return END_READERS[client](gaps.bootstrap, request.param)


def test_from_anywhere_to_the_end(gaps: Gaps, reader: EndReader) -> None:
    """Whether a record is there, or is gone with others before and behind it."""
    end = len(gaps.thin.rows)
    left = gaps.thin.left()
    assert [row[0] for row in left] == [8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 29, 30, 31, 32, 46, 47]
    starts = [0, 2, 3, 7, 8, 13, 17, 18, 27, 28, 29, 33, 40, 45, 46, 48, 49, 50, end]
    expected = [[row for row in left if row[0] >= start] for start in starts]
    assert reader.read(gaps.thin.name, starts, end) == expected


def test_a_topic_of_which_nothing_is_left(gaps: Gaps, reader: EndReader) -> None:
    """Every reader gets to its end, and waits there."""
    end = len(gaps.gone.rows)
    assert reader.read(gaps.gone.name, [0, 4, 9, end], end) == [[]] * 4


def test_from_segments_into_the_journal(gaps: Gaps, reader: EndReader) -> None:
    """What was produced since follows after the last gap."""
    end = len(gaps.grown.rows)
    left = gaps.grown.left(below=gaps.grown_at)
    starts = [0, 4, 20, 33, 44, gaps.grown_at - 1, gaps.grown_at, end]
    expected = [[row for row in left if row[0] >= start] for start in starts]
    assert reader.read(gaps.grown.name, starts, end) == expected


def test_by_time(gaps: Gaps, client: str) -> None:
    """The first record that is left of that time or later, in gaps too; none after the last."""
    reader = END_READERS[client](gaps.bootstrap, "read_uncommitted")
    for table, left in (
        (gaps.thin, gaps.thin.left()),
        (gaps.gone, []),
        (gaps.grown, gaps.grown.left(below=gaps.grown_at)),
    ):
        asked = [
            time_of(offset) - shift for offset in (0, 5, 8, 12, 20, 31, 33, 46, 47, 49) for shift in (0, 1)
        ]
        expected = [next((row[0] for row in left if time_of(row[0]) >= one), None) for one in asked]
        assert reader.find(table.name, asked) == expected
