"""Compiled whole-buffer work on record batches (numba, without the GIL, cached on disk).

    index      buffer → table of batches, every header checked
    fields     table of batches → where each record's fields lie
    gather     slices → contiguous bytes, offsets and validity, as Arrow lays them out
    select     the records that a mask keeps → new batches
    crc, varint, memory, layout, jit    what these are made of

Compiled functions trust no length before they have checked it, and report the first fault as a code and a
place. `load`, `scanning` and `rewrite` stand around them in plain Python: they inflate, allocate and raise.
"""

from holdfast.records.kernel.layout import Columns
from holdfast.records.kernel.rewrite import Rewritten, copy_selected
from holdfast.records.kernel.scanning import Scan, scan

__all__ = ["Columns", "Rewritten", "Scan", "copy_selected", "scan"]
