"""A day of many ids, 9 lost and 9 doubled: as a log that `holdfast up` serves, and the same ids as Parquet.

Ingest says id and tenant in headers, and its records' times are the messages'. Audit has what a pipeline writes: id,
tenant, time, end state and origin in headers. Values are two bytes: what is compared is ids.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numba import njit
from numpy.typing import NDArray

from bench.load.compaction import append
from holdfast.keeper.limits import KeeperLimits
from holdfast.pipelines.frames import ORIGIN_HEADER, STATE_HEADER
from holdfast.pipelines.recon.day import Day
from holdfast.records.batch import HEADER, HEADER_BYTES, LENGTH_STARTS_AT, MAGIC, seal
from tests.keeper.engine import Engine

DAY: Final = Day(date=date(2026, 2, 1))
INGEST, AUDIT, QUALIFIED = "bench.in", "bench.audit", "bench.qualified"
"""Nothing qualifies: the last one stays empty."""
FILES: Final = 8
FAULTS: Final = 9
SEED: Final = 1
BATCH_RECORDS: Final = 1_000
ROW_GROUP_ROWS: Final = 1 << 20
ID_BYTES, TENANT_BYTES, TIME_BYTES = 32, 9, 13

Ids = NDArray[np.uint8]

FILE: Final = """\
pipeline: bench
bootstrap: {bootstrap}
identity: {{id: "header:ce_id", source: none, tenant: "header:tenant", time: timestamp}}
ingest: {{topic: bench.in}}
transform: trivial:judge
end_states: {{qualified: bench.qualified, not_qualified: audit, failed: audit}}
audit: {{topic: bench.audit}}
delivery: dual
checkpoint: ./checkpoint
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What a way has to find."""

    tenants: tuple[str, ...]
    lost: frozenset[str]
    doubled: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A day below a directory."""

    directory: Path

    @property
    def log(self) -> Path:
        return self.directory / "log"

    def paths(self, side: str) -> list[str]:
        return [str(path) for path in sorted(self.directory.glob(f"{side}-*.parquet"))]

    @property
    def truth(self) -> Truth:
        found = json.loads((self.directory / "truth.json").read_text())
        return Truth(
            tenants=tuple(found["tenants"]),
            lost=frozenset(found["lost"]),
            doubled=frozenset(found["doubled"]),
        )


def write_day(directory: Path, *, ids: int, tenants: int) -> Written:
    """Both sides, in the order of time; with several tenants the first one has half."""
    directory.mkdir(parents=True)
    chance = np.random.default_rng(SEED)
    faulty = np.sort(chance.choice(ids, 2 * FAULTS, replace=False))
    lost, doubled = faulty[::2], faulty[1::2]
    engine = Engine(directory / "log", nodes=1, limits=KeeperLimits(settle_ms_max=0))
    found: dict[str, list[str]] = {"lost": [], "doubled": []}
    try:
        topics = [
            engine.create(name, cleanup_policy="delete", retention_ms="-1", retention_bytes="-1")
            for name in (INGEST, AUDIT, QUALIFIED)
        ]
        for number, (start, end) in enumerate(pairwise(np.linspace(0, ids, FILES + 1).astype(np.int64))):
            rows = np.arange(start, end)
            named = _hexadecimal(chance.integers(0, 256, (len(rows), ID_BYTES // 2), np.uint8))
            whose = chance.integers(0, tenants, len(rows))
            if tenants > 1:
                whose[chance.random(len(rows)) < 0.5] = 0
            times = DAY.start_ms + rows * (DAY.end_ms - DAY.start_ms) // ids
            gone, again = (each[(each >= start) & (each < end)] - start for each in (lost, doubled))
            found["lost"] += [named[row].tobytes().decode() for row in gone]
            found["doubled"] += [named[row].tobytes().decode() for row in again]
            ended = np.sort(np.concatenate([np.setdiff1d(np.arange(len(rows)), gone), again]))
            for topic, side, chosen in ((topics[0], INGEST, np.arange(len(rows))), (topics[1], AUDIT, ended)):
                columns = named[chosen], whose[chosen], times[chosen]
                append(engine, ((topic, batch) for batch in _batches(*columns, audit=side == AUDIT)))
                _write_parquet(directory / f"{side}-{number}.parquet", *columns)
    finally:
        engine.end()
    names = [f"tenant-{number:02d}" for number in range(tenants)]
    (directory / "truth.json").write_text(json.dumps({"tenants": names, **found}))
    return Written(directory=directory)


def _write_parquet(path: Path, named: Ids, whose: NDArray[np.int64], times: NDArray[np.int64]) -> None:
    offsets = pa.py_buffer(np.arange(0, ID_BYTES * len(named) + 1, ID_BYTES, dtype=np.int32))
    names = pa.array([f"tenant-{number:02d}" for number in range(int(whose.max()) + 1)])
    table = pa.table(
        {
            "tenant": pa.DictionaryArray.from_arrays(pa.array(whose.astype(np.int32)), names).cast(
                pa.string()
            ),
            "id": pa.Array.from_buffers(
                pa.string(), len(named), [None, offsets, pa.py_buffer(np.ascontiguousarray(named))]
            ),
            "time_ms": times,
        }
    )
    pq.write_table(table, path, use_dictionary=["tenant"], compression="none", row_group_size=ROW_GROUP_ROWS)


def _batches(
    named: Ids, whose: NDArray[np.int64], times: NDArray[np.int64], *, audit: bool
) -> Iterator[bytearray]:
    template, places = _template(audit=audit)
    room = np.empty(BATCH_RECORDS * (len(template) + 16), np.uint8)
    for start in range(0, len(named), BATCH_RECORDS):
        rows = slice(start, start + BATCH_RECORDS)
        end = _encode(named[rows], whose[rows], times[rows], template, places, room)
        count = len(times[rows])
        batch = bytearray(HEADER_BYTES + end)
        span = int(times[rows][0]), int(times[rows][-1])
        length = len(batch) - LENGTH_STARTS_AT
        HEADER.pack_into(batch, 0, 0, length, -1, MAGIC, 0, 0, count - 1, *span, -1, -1, -1, count)
        batch[HEADER_BYTES:] = room[:end].data
        seal(batch)
        yield batch


def _template(*, audit: bool) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """A record from its key on, and where id, tenant and time go; -1 for a time that is the record's own."""
    headers = [("ce_id", b"i" * ID_BYTES), ("tenant", b"tenant-00")]
    if audit:
        headers += [
            ("ce_time", b"t" * TIME_BYTES),
            (STATE_HEADER, b"not_qualified"),
            (ORIGIN_HEADER, b"bench.in/0@00000000"),
        ]
    text = b"\x01" + bytes([2 * 2]) + b"{}" + bytes([2 * len(headers)])
    for name, value in headers:
        text += bytes([2 * len(name)]) + name.encode() + bytes([2 * len(value)]) + value
    places = [text.index(b"i" * ID_BYTES), text.index(b"tenant-00") + 7, text.find(b"t" * TIME_BYTES)]
    return np.frombuffer(text, np.uint8), np.array(places, np.int64)


@njit(cache=True)
def _varint(room, at, number):  # type: ignore[no-untyped-def]
    while number >= 128:
        room[at] = number & 127 | 128
        number >>= 7
        at += 1
    room[at] = number
    return at + 1


@njit(cache=True)
def _encode(named, whose, times, template, places, room):  # type: ignore[no-untyped-def]
    """Records one behind the other; returns where they end."""
    at = 0
    for row in range(len(times)):
        time_delta, offset_delta = 2 * (times[row] - times[0]), 2 * row
        size = 2 * (
            1
            + (1 if time_delta < 128 else 2 if time_delta < 16_384 else 3)
            + (1 if offset_delta < 128 else 2)
            + len(template)
        )
        at = _varint(room, at, size)
        room[at] = 0  # attributes
        at = _varint(room, _varint(room, at + 1, time_delta), offset_delta)
        room[at : at + len(template)] = template
        room[at + places[0] : at + places[0] + named.shape[1]] = named[row]
        room[at + places[1]] = 48 + whose[row] // 10
        room[at + places[1] + 1] = 48 + whose[row] % 10
        if places[2] >= 0:
            time = times[row]
            for digit in range(12, -1, -1):
                room[at + places[2] + digit] = 48 + time % 10
                time //= 10
        at += len(template)
    return at


def _hexadecimal(raw: NDArray[np.uint8]) -> Ids:
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    text = np.empty((len(raw), 2 * raw.shape[1]), np.uint8)
    text[:, ::2], text[:, 1::2] = digits[raw >> 4], digits[raw & 15]
    return text
