"""Identity by columns: of every batch the same as of its records one by one."""

from datetime import UTC, datetime

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.pipelines.identity import Identity, Location, Part, identify, parse_location, parse_time_ms
from holdfast.pipelines.recon.columns import (
    find_text,
    find_times,
    identities,
    needed_columns,
    parse_times,
    split_identity,
)
from holdfast.records.arrow import decode
from holdfast.records.build import build_batch
from holdfast.records.record import Record
from tests.pipelines.values import NO_JSON, NO_TEXT, SOUND

TEXTS = st.one_of(
    st.sampled_from([b"", b"a", b"acme", b"\xff", b"\xc3\xa9", b"12", b"x" * 40, b"a\x1fb"]), st.none()
)
TIMES = st.sampled_from(
    [
        b"0", b"-5", b"1769860800123", b"1" * 16, b"noon", b"2026-02-01T00:00:00Z", b"2026-02-01 00:00:00.5+01:00",
        b"2026-02-30T00:00:00Z", b"1969-12-31T23:59:59.9999Z", b"2026-02-01T00:00:00.123456789Z", b"2026-02-01",
        b"0000-01-01T00:00:00Z", b"2026-02-01T00:00:00+18:00", b"2026-02-01T00:00:00-18:01", "\u0661\u0662".encode(),
    ]
)  # fmt: skip
HEADERS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["ce_id", "ce_source", "tenant", "other"]), TEXTS),
        st.tuples(st.just("ce_time"), TIMES),
    ),
    max_size=6,
)
VALUES = st.sampled_from([None, *SOUND, *NO_JSON, *NO_TEXT])
RECORDS = st.lists(
    st.builds(Record, key=TEXTS, value=VALUES, headers=HEADERS, timestamp_ms=st.integers(0, 10**12)),
    min_size=1,
    max_size=8,
)
IDENTITIES = st.sampled_from(
    [
        Identity(),
        Identity(id=parse_location("key"), source=None),
        Identity(id=parse_location("value:$.id"), time=Location(part=Part.TIMESTAMP)),
    ]
)


@settings(max_examples=60)
@given(records=RECORDS, identity=IDENTITIES)
def test_columns_say_what_identify_says(records: list[Record], identity: Identity) -> None:
    batch = decode(build_batch(records), columns=needed_columns(identity)).combine_chunks().to_batches()[0]
    expected = [identify(record, identity) for record in records]
    tenants = [identify(record, Identity(tenant=identity.id)).tenant for record in records]
    assert find_text(batch, identity.id).to_pylist() == tenants
    assert find_text(batch, identity.tenant).to_pylist() == [each.tenant for each in expected]
    times = [
        record.timestamp_ms if each.time_ms is None else each.time_ms
        for record, each in zip(records, expected, strict=True)
    ]
    assert find_times(batch, identity.time).to_pylist() == times
    named, nameless = identities(batch, identity, lambda rows: [f"at-{row}" for row in rows.to_pylist()])
    assert nameless.to_pylist() == [each.id is None for each in expected]
    for row, (found, each) in enumerate(zip(named.to_pylist(), expected, strict=True)):
        source = None if identity.source is None else each.source
        assert split_identity(found) == ((None, f"at-{row}") if each.id is None else (source, each.id))


@settings(max_examples=40)
@given(texts=st.lists(st.one_of(st.none(), TIMES.map(bytes.decode)), max_size=6))
def test_times_of_one_kind_or_mixed_are_read_alike(texts: list[str | None]) -> None:
    found = parse_times(pa.array(texts, pa.string())).to_pylist()
    assert found == [None if text is None else parse_time_ms(text) for text in texts]


def test_a_day_of_instants_is_read_as_a_column() -> None:
    texts = [datetime.fromtimestamp(number * 777.123, UTC).isoformat() for number in range(100)]
    assert parse_times(pa.array(texts)).to_pylist() == [parse_time_ms(text) for text in texts]


def test_no_two_messages_are_one_because_of_what_they_say() -> None:
    """Whatever stands in ids and sources: as many identities as there are messages, and none is that of a place."""
    sources = [b"s", b"s\x1fb", b"s\x1f", b"\x1f", b"\xff", b"\xfe", b"", b"at-1"]
    ids = [b"c", b"b\x1fc", b"\x1fc", b"at-1", b"\x1fat-1", b"\x1f\x1fat-1"]
    records = [
        Record(headers=[("ce_source", source), ("ce_id", single)]) for source in sources for single in ids
    ]
    by_id_alone = len(sources) * sum(b"\x1f" in single for single in ids) + sum(
        b"\x1f" not in single for single in ids
    )
    for identity, count in (Identity(), len(records)), (Identity(source=None), by_id_alone):
        batch = (
            decode(build_batch(records), columns=needed_columns(identity)).combine_chunks().to_batches()[0]
        )
        named, nameless = identities(batch, identity, lambda rows: [f"at-{row}" for row in rows.to_pylist()])
        assert len(set(named.to_pylist())) == count
        assert nameless.to_pylist() == [identify(record, identity).id is None for record in records]
