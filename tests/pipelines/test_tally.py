"""The books: their format, and what adding them up shows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import CorruptData
from holdfast.pipelines.tally import INGESTED, Sums, TallyRecord, decode_tally, encode_tally, merge


def sums(*hashes: int) -> Sums:
    """Of messages with these hashes."""
    total = Sums()
    for each in hashes:
        total += Sums(
            count=1, hash_sum=each, hash_xor=each, value_bytes=10, time_ms_min=each, time_ms_max=each
        )
    return total


def record(batch_id: int = 0, tenant: str = "acme", start_ms: int = 0, **stages: Sums) -> TallyRecord:
    """The books of one micro-batch."""
    return TallyRecord(
        pipeline="payments",
        tenant=tenant,
        window_start_ms=start_ms,
        window_end_ms=start_ms + 600_000,
        batch_id=batch_id,
        stages=stages,
    )


def test_format() -> None:
    """As docs/formats.md has it."""
    made = record(7, "Börse", 1_200_000, ingested=sums(2**63 - 1, -5), failed=Sums())
    assert encode_tally(made).decode() == (
        '{"format":1,"pipeline":"payments","tenant":"Börse","window_start_ms":1200000,"window_end_ms":1800000,'
        '"batch_id":7,"stages":{"ingested":{"count":2,"hash_sum":"9223372036854775802",'
        '"hash_xor":"-9223372036854775804","value_bytes":20,"time_ms_min":-5,"time_ms_max":9223372036854775807},'
        '"failed":{"count":0,"hash_sum":"0","hash_xor":"0","value_bytes":0,"time_ms_min":null,"time_ms_max":null}}}'
    )
    assert decode_tally(encode_tally(made)) == made


@pytest.mark.parametrize(
    "value", [None, b"", b"[]", b"{}", b'{"format":2}', b'{"format":1}', b'{"format":1,"stages":3}']
)
def test_not_a_tally(value: bytes | None) -> None:
    """Books that cannot be read are said to be so, never taken for empty."""
    with pytest.raises(CorruptData, match="tally"):
        decode_tally(value)


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5), min_size=1, max_size=5), st.randoms())
def test_order_does_not_matter(batches: list[list[int]], chance: object) -> None:
    """However messages are spread over batches, and in whatever order books are added up."""
    records = [record(number, ingested=sums(*batch)) for number, batch in enumerate(batches)]
    expected = sums(*(each for batch in batches for each in batch))
    chance.shuffle(records)  # type: ignore[attr-defined]
    (merged,) = merge(records).values()
    assert merged.stages[INGESTED] == expected
    assert merged.batch_id == len(batches) - 1


def test_balance() -> None:
    """One missing and another one twice: the count agrees, the fingerprint does not."""
    assert record(ingested=sums(1, 2, 3), qualified=sums(1, 3), failed=sums(2)).is_balanced
    assert not record(ingested=sums(1, 2, 3), qualified=sums(1, 3)).is_balanced
    assert not record(ingested=sums(1, 2, 3), qualified=sums(1, 3), failed=sums(3)).is_balanced
    # The sum alone would not tell.
    assert not record(ingested=sums(1, 4), qualified=sums(2, 3)).is_balanced


def test_tenants_and_windows_stay_apart() -> None:
    """Books are added up within a tenant's window alone."""
    merged = merge([record(0, "a"), record(1, "b"), record(2, "a", 600_000), record(3, "a")])
    assert sorted(merged) == [("a", 0), ("a", 600_000), ("b", 0)]
