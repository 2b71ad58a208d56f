"""Rows straight from where a scan has found records: for identities that stand in headers or keys, as nearly all do.

What comes out is what `columns` makes of the same records; `tests/pipelines/recon/test_plain.py` holds one against the
other. What the kernel takes for odd, and identities that stand in a value, are left to `columns`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from holdfast.pipelines.config import EndState
from holdfast.pipelines.frames import STATE_HEADER
from holdfast.pipelines.identity import Identity, Location, Part
from holdfast.pipelines.recon.columns import CANARY_HEADER, SEPARATOR
from holdfast.records.arrow import ARRAY_BYTES_MAX, allocate
from holdfast.records.kernel import said as kernel
from holdfast.records.kernel.hashing import make_secret
from holdfast.records.kernel.load import as_octets
from holdfast.records.kernel.said import Bounds, Names, Places, Said, Tenants, read_said
from holdfast.records.kernel.scanning import Scan

TIME_MIN: Final = -(1 << 63) + 1

_PARTS: Final = {Part.HEADER: kernel.IN_HEADER, Part.KEY: kernel.IN_KEY, Part.TIMESTAMP: kernel.NOWHERE}
_REPLACED: Final = "\ufffd"
"""In a name that is no UTF-8. `columns` would find it under this one; nobody compares bytes with it here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A row for each record that counts; tenants by number."""

    said: Said
    tenants: tuple[str, ...]

    @property
    def identities(self) -> pa.Array:
        """As a column, without a copy."""
        buffers = [None, pa.py_buffer(self.said.identity_offsets), pa.py_buffer(self.said.identity_octets)]
        return pa.Array.from_buffers(pa.binary(), len(self.said.offset), buffers)


def find_places(identity: Identity, *, reads_state: bool) -> Places | None:
    """Where the kernel has to look; None if it cannot."""
    state = Location(part=Part.HEADER, header=STATE_HEADER) if reads_state else None
    canary = Location(part=Part.HEADER, header=CANARY_HEADER)
    fields = (identity.id, identity.source, identity.tenant, identity.time, state, canary)
    assert len(fields) == kernel.FIELDS
    present = [each for each in fields if each is not None and each.part is not Part.TIMESTAMP]
    if any(each.part is Part.VALUE or _REPLACED in each.header for each in present):
        return None
    if len({(each.part, each.header) for each in present}) < len(present):
        return None
    return Places(
        parts=np.array([kernel.NOWHERE if each is None else _PARTS[each.part] for each in fields], np.int8),
        headers=_names(each.header if each is not None else "" for each in fields),
        states=_names(state.value for state in EndState),
        separator=ord(SEPARATOR),
    )


def make_bounds(
    *,
    tenant: str | None,
    start_ms: int | None,
    end_ms: int | None,
    window_ms: int,
    stage: int,
    unreadable: int,
) -> Bounds:
    """Which rows count; None for all."""
    return Bounds(
        # One byte more, so that there is an address to point to for a tenant without a name.
        tenant=as_octets((tenant or "").encode() + b"\0")[:-1],
        any_tenant=tenant is None,
        start_ms=TIME_MIN if start_ms is None else start_ms,
        end_ms=kernel.TIME_MAX if end_ms is None else end_ms,
        window_ms=window_ms,
        stage=stage,
        unreadable=unreadable,
    )


def read_plain(found: Scan, places: Places, bounds: Bounds) -> Rows | None:
    """The records of a scan that count; None if there is anything odd among them."""
    count = len(found.columns.offset)
    batches = found.batches
    # Source and id stand in the record, and the byte between them takes the place of a length.
    identity_bytes = int((batches["payload_end"] - batches["payload_start"]).sum())
    if identity_bytes > ARRAY_BYTES_MAX:
        return None
    said = _room(count, identity_bytes)
    tenants = Tenants(
        starts=np.empty(kernel.TENANTS_MAX, np.int64),
        lengths=np.empty(kernel.TENANTS_MAX, np.int64),
        table=np.full(2 * kernel.TENANTS_MAX, -1, np.int32),
    )
    rows, tenant_count = read_said(
        found.data,
        found.columns,
        places,
        bounds,
        _SECRET,
        np.zeros((2, kernel.FIELDS), np.int64),
        np.zeros(kernel.GUESSES, np.int64),
        tenants,
        said,
    )
    if rows == kernel.ODD:
        return None
    return Rows(said=_head(said, rows), tenants=tuple(_texts(found, tenants, tenant_count)))


def _texts(found: Scan, tenants: Tenants, count: int) -> Iterable[str]:
    for start, length in zip(tenants.starts[:count].tolist(), tenants.lengths[:count].tolist(), strict=True):
        yield bytes(found.data[start : start + length]).decode()


def _room(count: int, identity_bytes: int) -> Said:
    """From Arrow's pool: fresh pages would cost more than the work itself."""
    words = allocate(4 * 8 * count).view(np.int64).reshape(4, count)
    halves = allocate(4 * (2 * count + 1)).view(np.int32)
    return Said(
        tenant=halves[:count],
        stage=allocate(count).view(np.int8),
        window=words[0],
        identity_offsets=halves[count:],
        identity_octets=allocate(max(1, identity_bytes)),
        time_ms=words[1],
        arrived_ms=words[2],
        offset=words[3],
    )


def _head(said: Said, rows: int) -> Said:
    return Said(
        tenant=said.tenant[:rows],
        stage=said.stage[:rows],
        window=said.window[:rows],
        identity_offsets=said.identity_offsets[: rows + 1],
        identity_octets=said.identity_octets,
        time_ms=said.time_ms[:rows],
        arrived_ms=said.arrived_ms[:rows],
        offset=said.offset[:rows],
    )


def _names(texts: Iterable[str]) -> Names:
    encoded: Sequence[bytes] = [text.encode() for text in texts]
    starts = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(each) for each in encoded], out=starts[1:])
    return Names(octets=as_octets(b"".join(encoded) + bytes(8)), starts=starts)


_SECRET: Final = make_secret(0)
"""Of a table of tenants whose size is bounded: nothing is gained by tenants that meet in it."""
