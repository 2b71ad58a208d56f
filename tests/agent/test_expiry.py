"""Expiry: the decision alone, against a slow and plain one; and the task over a real log."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.agent.cluster import wall_clock_ms
from holdfast.agent.expiry import find_log_start
from holdfast.agent.partition_key import PartitionKey
from tests.agent import requests
from tests.agent.batches import batch
from tests.agent.serving import AsyncRawClient, serving

NOW = 1_000_000


class Piece(NamedTuple):
    """An extent as the decision sees it."""

    last: int
    length_bytes: int
    max_timestamp: int

    @property
    def end(self) -> int:
        """The offset after its last."""
        return self.last + 1


def decide(
    pieces: list[Piece], *, retention_ms: int | None = None, retention_bytes: int | None = None
) -> int:
    return find_log_start(
        iter(pieces),
        start=0,
        size_bytes=sum(piece.length_bytes for piece in pieces),
        now_ms=NOW,
        retention_ms=retention_ms,
        retention_bytes=retention_bytes,
    )


OLD, NEW = NOW - 101, NOW - 100


@pytest.mark.parametrize(
    ("times", "start"),
    [
        ([], 0),
        ([NEW], 0),
        ([OLD], 10),
        ([OLD, OLD, NEW], 20),
        ([NEW, OLD], 0),
        ([OLD, NEW, OLD], 10),
        ([-1], 0),
        ([-1, OLD], 20),
        ([-1, NEW], 0),
        ([OLD, -1, -1], 10),
        ([NOW + 500, OLD], 0),
    ],
)
def test_age(times: list[int], start: int) -> None:
    """Extents go from the first on while their newest record is past its time; one without times goes with the next."""
    pieces = [Piece(10 * (i + 1) - 1, 1, time) for i, time in enumerate(times)]
    assert decide(pieces, retention_ms=100) == start


@pytest.mark.parametrize(
    ("limit", "start"), [(60, 0), (59, 0), (50, 10), (31, 10), (30, 20), (29, 20), (0, 30)]
)
def test_size(limit: int, start: int) -> None:
    """As many bytes as the limit stay, at least: an extent goes only if the rest still has them."""
    pieces = [Piece(9, 10, NOW), Piece(19, 20, NOW), Piece(29, 30, NOW)]
    assert decide(pieces, retention_bytes=limit) == start


def test_no_limit() -> None:
    """Nothing goes, and nothing is read to find that out but the first extent."""

    def pieces() -> Iterator[Piece]:
        yield Piece(9, 1, 0)
        raise AssertionError("read on")

    found = find_log_start(
        pieces(), start=0, size_bytes=1, now_ms=NOW, retention_ms=None, retention_bytes=None
    )
    assert found == 0


@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(0, 20)), max_size=8),
    st.none() | st.integers(0, 20),
    st.none() | st.integers(0, 40),
)
def test_decision_is_the_plain_one(
    shapes: list[tuple[int, int, int]], age: int | None, size: int | None
) -> None:
    """The start is the greatest cut that either limit alone, or both in turn, allow; never past the end."""
    pieces: list[Piece] = []
    for count, length, behind in shapes:
        last = (pieces[-1].last if pieces else -1) + count
        pieces.append(Piece(last, length, NOW - behind))
    cut = 0
    while cut < len(pieces):
        rest = sum(piece.length_bytes for piece in pieces[cut + 1 :])
        if not (age is not None and NOW - pieces[cut].max_timestamp > age) and not (
            size is not None and rest >= size
        ):
            break
        cut += 1
    found = decide(pieces, retention_ms=age, retention_bytes=size)
    assert found == (pieces[cut - 1].last + 1 if cut else 0)
    assert found <= (pieces[-1].last + 1 if pieces else 0)


def answered(answer: Any) -> Any:
    return answer.responses[0].partitions[0]


def test_old_records_go_and_the_rest_stays(tmp_path: Path) -> None:
    """A round moves the log start durably, by age and by size, and trims; readers are told where the log begins."""

    async def main() -> None:
        now = wall_clock_ms()
        async with serving(tmp_path, expire_seconds=1000) as (agent, port):
            client = await AsyncRawClient.connect(port)
            limits = {
                "aged": {"retention.ms": "60000"},
                "large": {"retention.bytes": "150", "retention.ms": "-1"},
            }
            limits["aged-and-compacted"] = limits["aged"] | {"cleanup.policy": "compact,delete"}
            kept = {
                "kept": {"retention.ms": "60000", "cleanup.policy": ""},
                "compacted": {"retention.ms": "60000", "cleanup.policy": "compact"},
            }
            for name, configs in (limits | kept).items():
                await client.call(requests.create_topic(name, configs=configs))
                for age_ms in (100_000, 90_000, 0, 95_000):
                    key = b"k" if "compacted" in name else None
                    data = batch(b"x", b"y", key=key, timestamp_ms=now - age_ms)
                    await client.call(requests.produce(name, {0: data}))
            await agent.cluster.expiry.expire()
            for name, start in (dict.fromkeys(limits, 4) | dict.fromkeys(kept, 0)).items():
                place = PartitionKey(agent.catalog.get(name).topic_id, 0)
                bounds, extents = agent.plane.find_extents(*place, start, 1 << 30)
                assert (bounds.start, bounds.end, extents[0].first) == (start, 8, start), name
                listed = await client.call(requests.list_offsets(name, {0: -2}))
                assert listed.topics[0].partitions[0].offset == start
                if start:
                    below = answered(await client.call(requests.fetch(name, {0: start - 1})))
                    assert below.error_code == 1
                assert answered(await client.call(requests.fetch(name, {0: start}))).log_start_offset == start
            assert agent.plane.trim(1000) == 0, "the round has trimmed already"
            await client.close()
        async with serving(tmp_path) as (agent, _):
            assert agent.plane.find_bounds(agent.catalog.get("aged").topic_id, 0).start == 4

    asyncio.run(main())


def test_rounds_come_by_themselves(tmp_path: Path) -> None:
    """The task runs while the agent does, and its stop does not wait for the next round."""

    async def main() -> None:
        async with serving(tmp_path, expire_seconds=0.01) as (agent, port):
            client = await AsyncRawClient.connect(port)
            await client.call(requests.create_topic("t", configs={"retention.ms": "1000"}))
            await client.call(requests.produce("t", {0: batch(b"x", timestamp_ms=1)}))
            key = PartitionKey(agent.catalog.get("t").topic_id, 0)
            async with asyncio.timeout(20):
                while agent.plane.find_bounds(*key).start == 0:
                    await asyncio.sleep(0.01)
            await client.close()
        async with serving(tmp_path, expire_seconds=1000):
            pass

    asyncio.run(asyncio.wait_for(main(), 30))
