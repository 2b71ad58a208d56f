"""The late EndTxn: a commit that was sent, held up, sent again, and arrives when the next transaction is open."""

from pathlib import Path

from holdfast.client import transactions
from tests.agent import raw
from tests.agent.transactions.driving import TV1, TV2, Desk, Producer, Versions, describe, run

NOT_COORDINATOR, ENDED, FENCED = 16, 48, 90


async def torn_by_a_late_commit(desk: Desk, versions: Versions) -> tuple[int, Producer]:
    """The article's scenario up to the arrival of the late packet; what that is answered, and the producer.

    The first packet is bytes that lie in a network until the test sends them.
    """
    producer = await desk.producer(versions=versions)
    await producer.write(b"first")
    held_up = transactions.end_txn(producer.who, committed=True)
    held_up.API_VERSION = versions.end
    packet, slow = raw.encode(held_up), producer.client
    producer.client = await desk.connect()
    assert await producer.end(commit=True) == 0
    await producer.write(b"second")
    slow.writer.write(packet)
    return (await slow.receive(held_up)).error_code, producer


def test_tv1_is_defended_by_its_connections(tmp_path: Path) -> None:
    """The transaction belongs to the newer connection: it stays open, and an abort takes all of it back."""

    async def scenario(desk: Desk) -> None:
        code, producer = await torn_by_a_late_commit(desk, TV1)
        assert code == NOT_COORDINATOR
        assert (await describe(desk.client)).phase == "Ongoing"
        assert (await desk.read(committed=True)).values == [b"first"]
        await producer.write(b"third")
        assert await producer.end(commit=False) == 0
        assert await desk.read(committed=True) == ([(0, b"first")], 3, 3)

    run(tmp_path, scenario)


def test_tv1_late_abort_is_refused_too(tmp_path: Path) -> None:
    """The same packet with the other outcome would lose records that are then committed."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer()
        await producer.write(b"first")
        old = Producer(producer.client)
        old.who = producer.who
        producer.client = await desk.connect()
        assert await producer.end(commit=False) == 0
        await producer.write(b"second")
        assert await old.end(commit=False) == NOT_COORDINATOR
        assert await old.add(1) == [NOT_COORDINATOR]
        assert await producer.end(commit=True) == 0
        assert (await desk.read(committed=True)).values == [b"second"]

    run(tmp_path, scenario)


def test_tv1_late_end_before_the_next_transaction_is_a_retry(tmp_path: Path) -> None:
    """There is nothing that it could tear: it is answered once more."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer()
        await producer.write(b"first")
        old = Producer(producer.client)
        old.who = producer.who
        producer.client = await desk.connect()
        assert await producer.end(commit=True) == 0
        assert await old.end(commit=True) == 0
        await producer.write(b"second")
        assert await producer.end(commit=False) == 0
        assert (await desk.read(committed=True)).values == [b"first"]

    run(tmp_path, scenario)


def test_tv1_goes_on_over_a_new_connection(tmp_path: Path) -> None:
    """A connection that broke in mid-transaction is no reason to refuse its successor."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer()
        await producer.write(b"first")
        await producer.client.close()
        producer.client = await desk.connect()
        assert await producer.produce(b"second") == (0, 1)
        assert await producer.end(commit=True) == 0
        assert (await desk.read(committed=True)).values == [b"first", b"second"]

    run(tmp_path, scenario)


def test_tv1_cannot_be_defended_on_one_connection(tmp_path: Path) -> None:
    """What `docs/guarantees.md` does not promise: whoever repeats a packet on the newest connection is believed."""

    async def scenario(desk: Desk) -> None:
        producer = await desk.producer()
        await producer.write(b"first")
        assert await producer.end(commit=True) == 0
        await producer.write(b"second")
        repeated_by_a_proxy = producer.end(commit=True)
        assert await repeated_by_a_proxy == 0
        assert await producer.end(commit=False) == ENDED
        assert (await desk.read(committed=True)).values == [b"first", b"second"]

    run(tmp_path, scenario)


def test_tv2_is_immune(tmp_path: Path) -> None:
    """Each transaction has an epoch of its own, whatever connection a packet comes by."""

    async def scenario(desk: Desk) -> None:
        code, producer = await torn_by_a_late_commit(desk, TV2)
        assert code == FENCED
        assert (await describe(desk.client)).phase == "Ongoing"
        same = Producer(producer.client, versions=TV2)
        same.who = producer.who
        await producer.write(b"third")
        assert await producer.end(commit=False) == 0
        assert await desk.read(committed=True) == ([(0, b"first")], 3, 3)
        assert await same.end(commit=True) == ENDED, "the abort has happened"
        assert await producer.write(b"fourth") == 3
        assert await same.end(commit=False) == FENCED

    run(tmp_path, scenario)
