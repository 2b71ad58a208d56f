"""Fingerprints made straight from batches are those of the rows of the same records; picked rows are all of them."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import CorruptBatch, InflatesTooFar
from holdfast.pipelines.config import EndState
from holdfast.pipelines.identity import Identity
from holdfast.pipelines.recon import summed
from holdfast.pipelines.recon.law import Stage
from holdfast.pipelines.recon.reading import NAMELESS, Piece, Scope, rows_of
from holdfast.pipelines.recon.summed import Picker, Summing
from holdfast.records.batch import HEADER_BYTES, Codec
from holdfast.records.build import build_batch
from holdfast.records.kernel import book
from holdfast.records.kernel.scanning import Selection
from holdfast.records.record import Record
from holdfast.spark.reconcile import Geometry, Group, Summed, fingerprint_batches, group_rows
from tests.pipelines.recon.test_plain import (
    IDENTITIES,
    NOON_MS,
    ODD,
    PLAIN,
    SCOPES,
    STAGES,
    UNREADABLE_NAMES,
    piece,
)

GEOMETRY = Geometry(seed=20_261_118, bucket_bits=3)
ANY = Selection()
LINES = st.lists(
    st.one_of(st.lists(PLAIN, min_size=1, max_size=6), st.lists(ODD, min_size=1, max_size=3)), max_size=5
)
CODECS = st.sampled_from([Codec.NONE, Codec.GZIP])


def pack(made: Iterable[Sequence[Record]], *, codec: Codec = Codec.NONE) -> bytes:
    batches, offset = [], 7
    for records in made:
        batches.append(bytes(build_batch(records, base_offset=offset, codec=codec)))
        offset += len(records) + 2
    return b"".join(batches)


def sum_up(work: Piece, stored: bytes, selection: Selection = ANY) -> Summed:
    summing = Summing(work, GEOMETRY)
    summing.add(stored, selection)
    return summing.finish()


def slow_rows(work: Piece, stored: bytes, selection: Selection = ANY) -> list[pa.RecordBatch]:
    return list(rows_of(stored, selection, work))


def check(work: Piece, stored: bytes, selection: Selection = ANY) -> None:
    """The two ways come to the same cells, and spans hold every record of their group."""
    found, rows = sum_up(work, stored, selection), slow_rows(work, stored, selection)
    expected = fingerprint_batches(rows, GEOMETRY)
    assert sorted(found.cells.groups) == sorted(expected.groups) == sorted(found.spans)
    for group in expected.groups:
        assert (found.cells.cells(group) == expected.cells(group)).all()
    for row in (row for batch in rows for row in batch.to_pylist()):
        start, end = found.spans[Group(row["tenant"], row["stage"], row["window"])]
        assert start <= row["offset"] < end


def named(batches: Iterable[pa.RecordBatch], wanted: dict[Group, list[int]]) -> list[tuple[object, ...]]:
    """The rows of wanted cells, whichever others there are."""
    single = Geometry(seed=GEOMETRY.seed, bucket_bits=GEOMETRY.bucket_bits)
    chosen = []
    for batch in batches:
        groups, codes = group_rows(batch) if batch.num_rows else ([], np.zeros(0, np.int32))
        for at, row in enumerate(batch.to_pylist()):
            cells = fingerprint_batches([batch.slice(at, 1)], single).cells(groups[codes[at]])
            if np.flatnonzero(cells.any(axis=1))[0] in wanted.get(groups[codes[at]], []):
                chosen.append(tuple(row.values()))
    return sorted(chosen, key=repr)


@settings(max_examples=150)
@given(made=LINES, identity=IDENTITIES, scope=SCOPES, stage=STAGES, codec=CODECS, start=st.integers(0, 20))
def test_the_kernel_sums_up_what_rows_sum_up_to(
    made: list[list[Record]],
    identity: Identity,
    scope: Scope,
    stage: tuple[Stage, EndState | None],
    codec: Codec,
    start: int,
) -> None:
    check(piece(identity, scope, stage), pack(made, codec=codec), Selection(start=start, end=start + 9))
    check(piece(identity, scope, stage), pack(made, codec=codec))


@settings(max_examples=80)
@given(made=LINES, identity=IDENTITIES, scope=SCOPES, stage=STAGES, data=st.data())
def test_what_is_picked_holds_every_row_of_the_wanted_cells(
    made: list[list[Record]],
    identity: Identity,
    scope: Scope,
    stage: tuple[Stage, EndState | None],
    data: st.DataObject,
) -> None:
    work, stored = piece(identity, scope, stage), pack(made)
    rows = slow_rows(work, stored)
    groups = sorted(fingerprint_batches(rows, GEOMETRY).groups)
    buckets = st.lists(st.integers(0, 7), min_size=1, max_size=8)
    wanted = {group: data.draw(buckets) for group in groups if data.draw(st.booleans())}
    picked = Picker(wanted, GEOMETRY).picking(work)(stored, ANY)
    assert named(picked, wanted) == named(rows, wanted)


@pytest.mark.parametrize("headers", UNREADABLE_NAMES)
def test_a_record_with_an_unreadable_name_is_summed_up_and_picked_as_nameless(
    headers: list[tuple[str, bytes]],
) -> None:
    """Where nothing else of its window is wanted."""
    work = piece(Identity(), Scope(window_ms=600_000, lateness_ms=900_000), (Stage.INGEST, None))
    stored = pack([[Record(value=b"", timestamp_ms=NOON_MS, headers=headers)]])
    check(work, stored)
    (group,) = (
        each
        for each in fingerprint_batches(slow_rows(work, stored), GEOMETRY).groups
        if each.stage == NAMELESS
    )
    wanted = {group: list(range(8))}
    assert len(named(Picker(wanted, GEOMETRY).picking(work)(stored, ANY), wanted)) == 1


PLAIN_PIECE = piece(Identity(), Scope(window_ms=600_000, lateness_ms=900_000), (Stage.AUDIT, None))


@settings(max_examples=60)
@given(made=st.lists(st.lists(PLAIN, min_size=1, max_size=6), min_size=1, max_size=4))
def test_plain_records_are_left_to_the_kernel(made: list[list[Record]]) -> None:
    """Otherwise the two ways would agree because there is one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summed, "rows_of_scan", lambda *_: pytest.fail("a second way"))
        sum_up(PLAIN_PIECE, pack(made))
        assert Picker({Group("nobody", 1, 0): [0]}, GEOMETRY).picking(PLAIN_PIECE)(pack(made), ANY) == []


@pytest.mark.parametrize("is_trusted", [False, True])
def test_damage_is_told_as_by_the_other_way(is_trusted: bool) -> None:
    """Each byte in turn, with checked CRCs and with bytes that are trusted: nothing is read behind the end."""
    whole = pack([[record(b"a"), record(b"b"), record(b"c" * 20, b"corp")]])
    selection = Selection(check_crcs=not is_trusted)
    picker = Picker({}, GEOMETRY).picking(PLAIN_PIECE)
    for at in range(len(whole)):
        for other in {whole[at] ^ 1, whole[at] ^ 2, whole[at] ^ 0x80, 0, 255} - {whole[at]}:
            stored = whole[:at] + bytes([other]) + whole[at + 1 :]
            damage = fault_of(lambda stored=stored: slow_rows(PLAIN_PIECE, stored, selection))  # type: ignore[misc]
            assert fault_of(lambda stored=stored: picker(stored, selection)) == damage  # type: ignore[misc]
            if damage is None:
                check(PLAIN_PIECE, stored, selection)
            else:
                assert fault_of(lambda stored=stored: sum_up(PLAIN_PIECE, stored, selection)) == damage  # type: ignore[misc]


def fault_of(work: Callable[[], object]) -> tuple[str, int] | None:
    try:
        work()
    except CorruptBatch as damage:
        return damage.why, damage.position
    return None


def record(single: bytes, tenant: bytes = b"acme", *, time_ms: int = NOON_MS) -> Record:
    headers = [("ce_id", single), ("tenant", tenant), ("ce_source", b"shop"), ("ce_time", b"%d" % time_ms)]
    return Record(headers=headers, timestamp_ms=NOON_MS)


def test_headers_that_look_like_those_before_are_told_apart() -> None:
    """Same lengths, other names; same names, other lengths; nulls; and headers that change places."""
    texts = [("ce_id", b"one"), ("tenant", b"acme"), ("other", b"x"), ("ce_ie", b"two"), ("tenans", b"corp")]
    nulls: list[tuple[str, bytes | None]] = [("ce_id", b"three"), ("other", None), ("tenant", None)]
    lines: list[Sequence[tuple[str, bytes | None]]] = [
        texts[:3],
        [*texts[:2], ("otter", b"x")],
        [texts[0], texts[4], texts[1]],
        [texts[3], texts[1], texts[0]],
        nulls,
        [("ce_id", b"three"), ("other", b""), ("tenant", b"")],
        [("ce_id", b"four"), *nulls[1:], texts[1]] * 7,
        texts[:2],
    ]
    work = piece(Identity(source=None), Scope(window_ms=1), (Stage.INGEST, None))
    made = [[Record(headers=list(line), timestamp_ms=NOON_MS) for line in lines]]
    # Where nothing but names tells two records apart, no length gives a wrong guess away.
    for pair in (texts[1], texts[4]), (("ce_id", b"5"), ("ce_ie", b"6")):
        there, back = ([texts[0], *each] for each in (pair, pair[::-1]))
        moved = [(name, value) for (name, _), (_, value) in zip(back, there, strict=True)]
        made.append([Record(headers=list(line), timestamp_ms=NOON_MS) for line in (there, moved, there)])
    check(work, pack(made))
    for each in made:
        check(work, pack([each]))


@pytest.mark.parametrize(("cells", "tenants"), [(8, 1 << 10), (32, 1 << 10), (1 << 16, 2)])
def test_a_book_that_is_full_is_emptied_and_what_never_fits_is_left_to_rows(
    monkeypatch: pytest.MonkeyPatch, cells: int, tenants: int
) -> None:
    """Of 1 group and of 4, and of 2 tenants; the last batch alone has more of either."""
    monkeypatch.setattr(book, "CELLS", cells)
    monkeypatch.setattr(book, "TENANTS_MAX", tenants)
    made = [[record(b"id-%d" % number, b"tenant-%d" % (number // 3))] * 2 for number in range(20)]
    made.append([record(b"x-%d" % number, b"tenant-%d" % number) for number in range(9)])
    check(PLAIN_PIECE, pack(made))
    check(PLAIN_PIECE, pack(made[::-1]))


def test_late_records_are_counted_twice_and_picked_once() -> None:
    made = [[record(b"on time"), record(b"late", time_ms=NOON_MS - 2 * 86_400_000)]]
    check(PLAIN_PIECE, pack(made))
    rows = slow_rows(PLAIN_PIECE, pack(made))
    wanted = {group: list(range(8)) for group in fingerprint_batches(rows, GEOMETRY).groups}
    assert len(wanted) == 3
    picked = Picker(wanted, GEOMETRY).picking(PLAIN_PIECE)(pack(made), ANY)
    assert named(picked, wanted) == named(rows, wanted)
    assert sum(batch.num_rows for batch in picked) == 3


def test_a_chunk_that_inflates_too_far_has_added_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes again in halves: what was added before it gave up would count twice."""
    monkeypatch.setattr(summed, "GROUP_BYTES", 64)
    lines = [[record(b"id-%d" % (10 * line + number)) for number in range(10)] for line in range(4)]
    stored = [pack([line], codec=Codec.GZIP) for line in lines]
    inflated = len(pack(lines[:1])) - HEADER_BYTES
    selection = Selection(inflated_total_bytes_max=int(2.5 * inflated))
    summing = Summing(PLAIN_PIECE, GEOMETRY)
    with pytest.raises(InflatesTooFar):
        summing.add(b"".join(stored), selection)
    for half in (stored[:2], stored[2:]):
        summing.add(b"".join(half), selection)
    found = summing.finish().cells
    assert sum(map(found.count, found.groups)) == 40
