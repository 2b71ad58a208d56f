"""Tally records followed on a real log: windows that do not balance, and what a day has cost."""

from holdfast.client.cluster import Cluster
from holdfast.client.producer import Producer
from holdfast.client.topics import create_topic
from holdfast.pipelines.recon.day import LATENESS_MS
from holdfast.pipelines.tally import Sums, TallyRecord, encode_tally
from holdfast.pipelines.watch.books import Books
from holdfast.records.build import Record

DAY_MS, WINDOW_MS = 86_400_000, 600_000
TODAY = 1_794_614_400_000


def tally(tenant: str, start_ms: int, *, ingested: int, failed: int, wrong_id: bool = False) -> TallyRecord:
    ended = Sums(count=ingested - failed, hash_sum=(ingested - failed) * 7 + wrong_id)
    return TallyRecord(
        pipeline="p",
        tenant=tenant,
        window_start_ms=start_ms,
        window_end_ms=start_ms + WINDOW_MS,
        batch_id=1,
        stages={
            "ingested": Sums(count=ingested, hash_sum=ingested * 7),
            "qualified": ended,
            "failed": Sums(count=failed, hash_sum=failed * 7),
        },
    )


def test_books_are_followed_from_record_to_record(cluster: Cluster) -> None:
    create_topic(cluster, "books.tally", partitions=1, configs={"retention.ms": "-1"})
    producer = Producer(cluster, "books.tally")

    def write(record: TallyRecord) -> None:
        producer.send({0: [Record(value=encode_tally(record), timestamp_ms=record.window_start_ms)]})

    books = Books(cluster, "books.tally")
    noon = TODAY + DAY_MS // 2
    assert books.look(noon) == ((), ())
    write(tally("acme", TODAY - DAY_MS, ingested=2_000, failed=9))
    write(tally("acme", TODAY, ingested=300, failed=2))
    write(tally("birch", TODAY, ingested=100, failed=0, wrong_id=True))
    [mismatch], [acme, birch] = books.look(noon)
    assert (mismatch.tenant, mismatch.ingested, mismatch.ended) == ("birch", 100, 100)
    assert (acme.expected, acme.failed, birch.expected) == (2_000, 2, 200)
    assert acme.share_of_waiting > 0.9
    write(tally("acme", TODAY, ingested=900, failed=3))
    _, [acme, _] = books.look(noon)
    assert (acme.expected, acme.failed) == (2_400, 5)


def test_a_window_is_judged_when_it_is_sealed_and_forgotten_when_it_is_old(cluster: Cluster) -> None:
    create_topic(cluster, "books.sealed", partitions=1)
    books = Books(cluster, "books.sealed")
    books.add(tally("acme", TODAY, ingested=5, failed=1, wrong_id=True))
    seal_ms = TODAY + WINDOW_MS + LATENESS_MS
    assert books.look(seal_ms - 1)[0] == ()
    assert len(books.look(seal_ms)[0]) == 1
    assert books.look(TODAY + 2 * DAY_MS) == ((), ())
