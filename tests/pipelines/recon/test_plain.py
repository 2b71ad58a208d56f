"""Rows made by the kernel are the rows that columns make of the same records, one by one."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.client.endpoint import Endpoint
from holdfast.client.reader import OffsetRange
from holdfast.pipelines.config import EndState
from holdfast.pipelines.frames import STATE_HEADER
from holdfast.pipelines.identity import Identity, Location, Part, parse_location, parse_time_ms
from holdfast.pipelines.recon.columns import CANARY_HEADER, needed_columns
from holdfast.pipelines.recon.law import Stage
from holdfast.pipelines.recon.plain import find_places, make_bounds, read_plain
from holdfast.pipelines.recon.reading import Piece, Scope, noted, rows_of, to_rows
from holdfast.records.arrow import scan_chunks, to_batch
from holdfast.records.build import build_batch
from holdfast.records.kernel import said as kernel
from holdfast.records.kernel.load import as_octets
from holdfast.records.kernel.scanning import Selection
from holdfast.records.kernel.texts import BAD_TIME, is_name, is_utf8, read_time
from holdfast.records.record import Record

NOON_MS = 1_769_947_200_000
DAY_MS = 86_400_000
TIMESTAMP = Location(part=Part.TIMESTAMP)

TEXTS = st.sampled_from([b"a", b"acme", b"caf\xc3\xa9", b"12", b"x" * 40, b"01234567", b"0123456789abcdef"])
SEPARATED = [
    b"\x1f", b"a\x1fa", b"\x1f\x1f", b"0123456\x1f", b"\x1f01234567", b"01234567\x1fcaf\xc3\xa9", b"caf\xc3\xa9\x1f",
    b"caf\xc3\xa9567\x1f", b"\x1fcaf\xc3\xa9",
]  # fmt: skip
ODD_TEXTS = st.one_of(TEXTS, st.sampled_from([b"", b"\xff", b"\xed\xa0\x80", *SEPARATED]), st.none())
TIMES = st.sampled_from(
    [b"1769947200123", b"-5", b"0", b"2026-02-01T12:00:00Z", b"2026-01-31 23:59:59.5+01:00", b"1769990400000"]
)
ODD_TIMES = st.one_of(
    TIMES, st.sampled_from([b"noon", b"", b"1" * 16, b"2026-02-30T00:00:00Z", b"2026-02-01T00:00:00+18:01"])
)
STATES = st.sampled_from([*(state.value.encode() for state in EndState), b"unheard-of", b"", b"\xff"])
OTHERS = st.sampled_from(
    [("other", b"1"), ("tenants", b"2"), ("ce_ie", b"3"), ("", b"4"), (CANARY_HEADER, None)]
)


def headers(texts: Any, times: Any, *, canary: Any) -> Any:
    """All in any order, some of them several times, or not at all."""
    named = [st.tuples(st.just(name), texts) for name in ("ce_id", "ce_source", "tenant")]
    rest = [st.tuples(st.just("ce_time"), times), st.tuples(st.just(STATE_HEADER), STATES), OTHERS]
    return st.lists(st.one_of(*named, *rest, *canary), max_size=9)


def records(texts: Any, times: Any, *, canary: Any = ()) -> Any:
    made = headers(texts, times, canary=canary)
    return st.builds(
        Record,
        key=texts,
        value=st.sampled_from([None, b"", b"{}"]),
        headers=made,
        timestamp_ms=st.integers(0, 2**41),
    )


PLAIN = records(TEXTS, TIMES, canary=[st.just((CANARY_HEADER, b"1"))]).map(
    lambda made: Record(
        key=made.key,
        value=made.value,
        headers=[*made.headers, ("ce_id", b"last")],
        timestamp_ms=made.timestamp_ms,
    )
)
ODD = records(ODD_TEXTS, ODD_TIMES, canary=[st.just((CANARY_HEADER, b""))])
IDENTITIES = st.sampled_from(
    [
        Identity(),
        Identity(source=None, time=TIMESTAMP),
        Identity(id=parse_location("key"), source=None),
        Identity(tenant=parse_location("key"), source=None, time=TIMESTAMP),
        Identity(id=parse_location("header:tenant")),
    ]
)
SCOPES = st.builds(
    Scope,
    window_ms=st.sampled_from([600_000, 1]),
    tenant=st.sampled_from([None, "acme", "", "café"]),
    start_ms=st.sampled_from([None, NOON_MS - DAY_MS // 2]),
    end_ms=st.sampled_from([None, NOON_MS + DAY_MS // 2]),
    lateness_ms=st.sampled_from([None, 900_000]),
)
STAGES = st.sampled_from([(Stage.INGEST, None), (Stage.AUDIT, None), (Stage.DELIVERED, EndState.QUALIFIED)])


def piece(identity: Identity, scope: Scope, stage: tuple[Stage, EndState | None]) -> Piece:
    return Piece(
        endpoint=Endpoint(""),
        offsets=OffsetRange(topic="orders", partition=3, start=0, end=1 << 40),
        stage=stage[0],
        state=stage[1],
        identity=identity,
        scope=scope,
    )


def rows(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


@settings(max_examples=150)
@given(
    made=st.one_of(st.lists(PLAIN, max_size=8), st.lists(ODD, max_size=4)),
    identity=IDENTITIES,
    scope=SCOPES,
    stage=STAGES,
)
def test_the_kernel_says_what_columns_say(
    made: list[Record], identity: Identity, scope: Scope, stage: tuple[Stage, EndState | None]
) -> None:
    work = piece(identity, scope, stage)
    stored = build_batch(made, base_offset=7)
    expected = []
    for found in scan_chunks(stored, Selection()):
        slow = to_rows(to_batch(found, needed_columns(identity)), work)
        expected += [slow, *noted(slow, scope)]
    assert rows(list(rows_of(stored, Selection(), work))) == rows(expected)


UNREADABLE_NAMES = [
    [("ce_id", single), ("ce_source", source), ("tenant", b"acme"), ("ce_time", str(NOON_MS).encode())]
    for broken in (*SEPARATED, b"\xff")
    for single, source in ((broken, b"shop"), (b"id", broken))
]


@pytest.mark.parametrize("headers", UNREADABLE_NAMES)
def test_a_record_with_an_unreadable_name_is_nameless_both_ways(headers: list[tuple[str, bytes]]) -> None:
    work = piece(Identity(), Scope(window_ms=600_000), (Stage.INGEST, None))
    found = rows(list(rows_of(build_batch([Record(headers=headers)]), Selection(), work)))
    assert [(row["identity"], row["nameless"]) for row in found] == [(b"\x1f\x1forders/3@0", True)] * 2


@pytest.mark.parametrize("era", [1_000_000 - (1 << 63), (1 << 63) - 2, (1 << 63) - 1])
def test_a_record_of_another_era_is_one_window_apart_both_ways(era: int) -> None:
    """Nothing is lost, and its neighbours stay in their windows though the difference does not fit in 64 bits."""
    scope = Scope(window_ms=600_000)
    work = piece(Identity(), scope, (Stage.INGEST, None))
    headers = [("ce_id", b"id"), ("tenant", b"acme")]
    stored = b"".join(
        bytes(build_batch([Record(headers=headers, timestamp_ms=time_ms)], base_offset=offset))
        for offset, time_ms in enumerate([era, NOON_MS, NOON_MS + 1])
    )
    found = rows(list(rows_of(stored, Selection(), work)))
    assert [row["window"] for row in found] == [each // 600_000 * 600_000 for each in (era, NOON_MS, NOON_MS)]
    expected = [
        to_rows(to_batch(each, needed_columns(Identity())), work) for each in scan_chunks(stored, Selection())
    ]
    assert found == rows(expected)


@settings(max_examples=60)
@given(
    made=st.lists(PLAIN, min_size=1, max_size=8),
    identity=st.sampled_from([Identity(), Identity(source=None)]),
)
def test_plain_records_are_left_to_the_kernel(made: list[Record], identity: Identity) -> None:
    """Otherwise the two ways would agree because there is one."""
    places = find_places(identity, reads_state=True)
    assert places is not None
    bounds = make_bounds(tenant=None, start_ms=None, end_ms=None, window_ms=1, stage=1, unreadable=7)
    for found in scan_chunks(build_batch(made), Selection()):
        assert read_plain(found, places, bounds) is not None


def test_more_tenants_than_the_kernel_numbers_are_left_to_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "TENANTS_MAX", 4)
    made = [
        Record(headers=[("ce_id", b"id"), ("tenant", b"tenant-%d" % number)], timestamp_ms=NOON_MS)
        for number in range(5)
    ]
    work = piece(Identity(), Scope(window_ms=600_000), (Stage.INGEST, None))
    found = rows(list(rows_of(build_batch(made), Selection(), work)))
    assert [row["tenant"] for row in found] == [f"tenant-{number}" for number in range(5)]


@settings(max_examples=200)
@given(text=st.one_of(st.binary(max_size=20), st.text(max_size=12).map(str.encode)))
def test_bytes_are_utf8_if_python_can_read_them(text: bytes) -> None:
    try:
        text.decode()
        is_text = True
    except UnicodeDecodeError:
        is_text = False
    padded = as_octets(b"-" + text + b"-")
    assert is_utf8(padded, 1, len(text)) == is_text


@settings(max_examples=200)
@given(
    text=st.one_of(
        st.binary(max_size=20),
        st.text("a\x1e\x1f\x9f\u0420é", max_size=20).map(str.encode),
        st.sampled_from(SEPARATED),
    ),
)
@example(text=b"\x9f" * 8)
@example(text=b"\xe0\x1f\xa0\x80")
def test_a_name_is_text_without_the_separator(text: bytes) -> None:
    padded = as_octets(b"\x1f" + text + b"\x1f" * 8)
    assert is_name(padded, 1, len(text), 0x1F) == (is_utf8(padded, 1, len(text)) and b"\x1f" not in text)


@settings(max_examples=200)
@given(
    moment=st.datetimes(),
    fraction=st.sampled_from(["", ".1", ".123", ".123456", ".999999999"]),
    zone=st.sampled_from(["Z", "+00:00", "-05:30", "+14:00"]),
    between=st.sampled_from("T "),
)
def test_instants_are_those_of_the_calendar(moment: Any, fraction: str, zone: str, between: str) -> None:
    text = f"{moment:%Y-%m-%d}".rjust(10, "0") + between + f"{moment:%H:%M:%S}{fraction}{zone}"
    assert read_time(as_octets(text.encode()), 0, len(text)) == parse_time_ms(text)


@settings(max_examples=200)
@given(text=st.one_of(st.text("0123456789-:TZ. +/;", max_size=24), st.integers(-(10**15), 10**15).map(str)))
@example(text="2024-02-29T00:00:00Z")
@example(text="2026-02-29T00:00:00Z")
@example(text="1900-02-29T00:00:00Z")
@example(text="2026-04-31T00:00:00Z")
@example(text="2026-04-30T00:00:00+18:01")
@example(text="0000-04-30T00:00:00Z")
def test_whatever_is_not_plainly_a_time_is_looked_at_closely(text: str) -> None:
    found = read_time(as_octets(text.encode() + b"\0"), 0, len(text.encode()))
    assert found in (BAD_TIME, parse_time_ms(text))
