"""`python -m holdfast.records.warm`: compile every kernel now, so that no later process has to.

`make setup` runs it, and a Spark worker's daemon calls `warm` before it forks; hence no Arrow in here, which
starts threads.
"""

import sys

import numpy as np

from holdfast.records.build import Record, build_batch
from holdfast.records.control import filler_batch
from holdfast.records.fingerprints import Fingerprints, Ids, make_secrets, select
from holdfast.records.grouping import number_groups, start_windows
from holdfast.records.kernel import KeyIndex, copy_selected, find_tombstones, said, scan
from holdfast.records.kernel.book import Book, look_up_group, number_tenant
from holdfast.records.kernel.encoding import DELTA_BYTES_MAX, RowColumns, Slices, encode_rows, measure_rows
from holdfast.records.kernel.fields import scan_headers
from holdfast.records.kernel.gather import gather, lay_out
from holdfast.records.kernel.hashing import make_secret
from holdfast.records.kernel.jit import cache_directory
from holdfast.records.kernel.lanes import KeyRoom, LanedKeyIndex
from holdfast.records.kernel.layout import Columns
from holdfast.records.kernel.load import as_octets
from holdfast.records.kernel.memory import Octets
from holdfast.records.kernel.murmur import hash_keys
from holdfast.records.kernel.prints import as_offsets, hash_slices
from holdfast.records.kernel.said import Bounds, Names, Places, Said, Tenants, read_said
from holdfast.records.kernel.scanning import Scan, Selection, open_groups
from holdfast.records.kernel.summing import Lateness, Question, Room, pick_batches, sum_batches


def warm() -> None:
    """Run every kernel once on the types that callers use: compiled code is loaded, or made and kept."""
    headed = Record(key=b"key", value=b"value", headers=[("name", b"value")])
    buffer = b"".join(
        [build_batch([headed] * 3), build_batch([headed] * 2, base_offset=3), filler_batch(base_offset=5)]
    )
    found = scan(buffer)
    rows = len(found.columns.offset)
    starts, lengths = np.empty(rows, np.int64), np.empty(rows, np.int32)
    scan_headers(found.data, found.columns, (starts, lengths), (starts.copy(), lengths.copy()))
    offsets = np.empty(rows + 1, np.int32)
    total, _ = lay_out(found.columns.key_bytes, offsets, np.zeros(1, np.uint8))
    gather(found.data, found.columns.key_start, offsets, np.empty(total, np.uint8))
    hash_slices(found.data, as_offsets(offsets.data), make_secret(0), np.empty(rows, np.uint64))
    keep = np.array([True, False, True, False, False])
    copy_selected(buffer, keep, keep_empty=True)
    KeyIndex(bytes_max=KeyIndex.BYTES_MIN, seed=0).shadow(buffer, np.zeros(len(keep), np.bool_))
    laned = LanedKeyIndex(bytes_max=2 * KeyIndex.BYTES_MIN, lanes=2, seed=0)
    laned.shadow(1, laned.collect(buffer, np.zeros(len(keep), np.bool_), KeyRoom()))
    find_tombstones(buffer)
    _warm_encoding(found.data)
    _warm_fingerprints()
    _warm_said(buffer, found)


def _warm_encoding(data: Octets) -> None:
    slices = Slices(data, np.zeros(1, np.int64), np.ones(1, np.int32))
    columns = RowColumns(slices, slices, np.zeros(1, np.int64), np.ones(1, np.int64), slices, slices)
    sizes = np.empty(1, np.int64)
    measure_rows(columns, sizes)
    output = np.empty(int(sizes[0]) + DELTA_BYTES_MAX, np.uint8)
    encode_rows(columns, sizes, np.zeros(1, np.int64), output, 0)
    hash_keys(slices, np.empty(1, np.int32))


def _warm_fingerprints() -> None:
    fingerprints = Fingerprints[str](seed=0, bucket_bits=0)
    ids, codes = Ids.of([b"id"]), np.zeros(1, np.int32)
    fingerprints.add(["group"], codes, ids)
    fingerprints.peel(fingerprints.cells("group"))
    select(["group"], codes, ids, wanted={"group": [0]}, bucket_bits=0, seed=0)
    number_groups(codes, np.zeros(1, np.int8), start_windows(np.zeros(1, np.int64), 1), make_secret(0))


def _warm_said(buffer: bytes, found: Scan) -> None:
    rows, names = len(found.columns.offset), Names(as_octets(bytes(8)), np.zeros(said.FIELDS + 1, np.int64))
    words, octets = np.zeros((4, rows), np.int64), np.empty(64, np.uint8)
    numbers, stages = np.full(64, -1, np.int32), np.zeros(rows, np.int8)
    bounds = Bounds(as_octets(bytes(1))[:-1], True, 0, 1 << 62, 1, 0, 0)
    tenants = Tenants(np.zeros(1, np.int64), np.zeros(1, np.int64), numbers)
    room = Said(numbers, stages, words[0], numbers, octets, words[1], words[2], words[3])
    places = Places(np.full(said.FIELDS, said.IN_KEY, np.int8), names, names, 0)
    work = np.zeros((2, said.FIELDS), np.int64), np.zeros(said.GUESSES, np.int64)
    read_said(found.data, found.columns, places, bounds, make_secret(0), *work, tenants, room)
    _warm_summing(buffer, places, bounds)


def _warm_summing(buffer: bytes, places: Places, bounds: Bounds) -> None:
    question = Question(places, bounds, Lateness(True, 1, 1, 1), make_secrets(0), 0)
    for stretch in open_groups(buffer, Selection(), group_bytes=len(buffer)):
        book, room = Book.make(bucket_bits=0), Room.make(stretch.count_records()[1])
        batches = stretch.source, stretch.data, stretch.batches
        sum_batches(*batches, 0, stretch.wanted, question, book, room)
        marks, columns = np.ones((2, 1), np.bool_), Columns.empty(5)
        pick_batches(*batches, stretch.wanted, question, book, marks, room, columns)
        look_up_group(
            number_tenant(stretch.data, 0, 0, question.secrets[0], book), 0, 0, question.secrets[0], book
        )


def main() -> None:
    """Compile, and say where the result is kept."""
    warm()
    sys.stdout.write(
        f"record kernels are ready in {cache_directory() or 'memory only: no cache is writable'}\n"
    )


if __name__ == "__main__":
    main()
