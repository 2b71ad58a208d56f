"""Compiled whole-buffer work on record batches (numba, without the GIL, cached on disk).

    index      buffer → table of batches, every header checked
    fields     table of batches → where each record's fields lie
    gather     slices → contiguous bytes, offsets and validity, as Arrow lays them out
    select     the records that a mask keeps → new batches
    dedupe     keys, newest first → a mask of the records that newer ones shadow
    tombstones the records without a value
    prints     byte strings → fingerprints
    encoding   columns of rows → records
    murmur     keys → the hashes that Kafka's clients choose partitions by
    fingerprint ids → cells of sums, by which two sides can be compared
    said, texts what records say of themselves in keys and headers → columns
    lanes      keys divided among threads
    grouping   rows → numbers of their tenants, stages and windows
    crc, hashing, varint, memory, layout, opened, jit    what these are made of

Compiled functions trust no length before they have checked it, and report the first fault as a code and a
place. `load`, `scanning`, `rewrite`, `keys` and `lanes` stand around them in plain Python: they inflate, allocate and
raise.
"""

from holdfast.records.kernel.keys import KeyIndex
from holdfast.records.kernel.layout import Columns, Mask
from holdfast.records.kernel.rewrite import Rewritten, copy_selected
from holdfast.records.kernel.scanning import Scan, count_data_records, scan
from holdfast.records.kernel.tombstones import Tombstones, find_tombstones

__all__ = [
    "Columns",
    "KeyIndex",
    "Mask",
    "Rewritten",
    "Scan",
    "Tombstones",
    "copy_selected",
    "count_data_records",
    "find_tombstones",
    "scan",
]
