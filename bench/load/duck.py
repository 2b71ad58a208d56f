"""DuckDB at the same work: of each key the newest record, Parquet in and Parquet out, in a process of its own.

`python -m bench.load.duck SOURCE TARGET PLAN` prints seconds, rows and peak memory as JSON.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet

from bench.load.process import peak_resident_mb
from holdfast.keeper.work import WorkItem
from holdfast.records.arrow import decode

COLUMNS: Final = ("offset", "timestamp", "key", "value")
ROW_GROUP: Final = 1 << 20
CHUNK_BYTES: Final = 32 << 20
THREADS: Final = 2
SECONDS_MAX: Final = 300.0
PLANS: Final = {
    "semi join on the greatest offset": """
        SELECT * FROM source SEMI JOIN (SELECT partition, max("offset") AS "offset" FROM source GROUP BY partition, key)
        USING (partition, "offset")
    """,
    "arg_max of the row": """
        SELECT partition, key, max("offset") AS "offset", arg_max_null(value, "offset") AS value,
               arg_max("timestamp", "offset") AS "timestamp"
        FROM source GROUP BY partition, key
    """,
    "window": """
        SELECT * FROM source
        QUALIFY row_number() OVER (PARTITION BY partition, key ORDER BY "offset" DESC) = 1
    """,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduped:
    """What it took."""

    plan: str
    seconds: float
    rows: int
    peak_mb: float


def write_parquet(items: Sequence[WorkItem], target: Path) -> None:
    """The records of all items, with their partition; zstd, as one would keep them."""
    schema = None
    writer = None
    for item in items:
        stored = bytearray()
        for number, piece in enumerate(item.pieces):
            with Path(piece.path).open("rb") as file:
                file.seek(piece.position)
                stored += file.read(piece.length_bytes)
            if len(stored) >= CHUNK_BYTES or number == len(item.pieces) - 1:
                table = decode(bytes(stored), columns=COLUMNS)
                partition = pa.repeat(pa.scalar(item.partition, pa.int32()), len(table))
                table = table.append_column("partition", partition)
                schema = schema or table.schema
                writer = writer or parquet.ParquetWriter(target, schema, compression="zstd")
                writer.write_table(table, row_group_size=ROW_GROUP)
                stored = bytearray()
    assert writer is not None
    writer.close()


def dedupe(source: Path, target: Path, plan: str) -> Deduped:
    """Run one plan in a process of its own."""
    command = [sys.executable, "-m", "bench.load.duck", str(source), str(target), plan]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return Deduped(plan=plan, **found)


def main() -> None:
    """One plan, timed without the start of the process."""
    import duckdb

    source, target, plan = sys.argv[1:]
    connection = duckdb.connect(config={"threads": THREADS, "memory_limit": "8GB"})
    connection.execute(f"CREATE VIEW source AS SELECT * FROM read_parquet('{source}')")
    begun = time.perf_counter()
    connection.execute(f"COPY ({PLANS[plan]}) TO '{target}' (FORMAT parquet, COMPRESSION zstd)")
    seconds = time.perf_counter() - begun
    (rows,) = connection.execute(f"SELECT count(*) FROM read_parquet('{target}')").fetchone() or (0,)
    print(json.dumps({"seconds": seconds, "rows": rows, "peak_mb": peak_resident_mb(os.getpid())}))


if __name__ == "__main__":
    main()
