"""What a micro-batch covers, in few letters: of the offsets that Spark notes in the checkpoint before the batch runs.

A batch that is replayed has the offsets that it had. One that is planned anew, after a checkpoint was restored or had
lost its end, has its number and, as soon as there is something new to read, other offsets.
"""

from hashlib import blake2b
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlparse

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

DIGEST_BYTES: Final = 8
ENTRY_FORMAT: Final = "v1"


def digest_of_running(session: SparkSession, query_id: str, batch_id: int) -> str:
    """In the driver, wherever the checkpoint is; empty where this Spark does not show its offsets."""
    try:
        java: Any = session.sparkContext._jvm
        running = session._jsparkSession.sharedState().activeStreamingQueries()
        query = running.get(java.java.util.UUID.fromString(query_id))
        # Spark has what it has just written in memory.
        entry = query.offsetLog().get(batch_id) if query is not None else None
        return _digest(entry.get().toString()) if entry is not None and entry.isDefined() else ""
    except Py4JError:
        return ""


def digest_of_newest(checkpoint: Path) -> tuple[int, str]:
    """In any process on the checkpoint's machine: the newest batch, and the same digest; empty where there is none."""
    numbers = [int(path.name) for path in (checkpoint / "offsets").glob("[0-9]*") if path.name.isdigit()]
    if not numbers:
        return -1, ""
    text = (checkpoint / "offsets" / str(max(numbers))).read_text(encoding="utf-8")
    entry_format, _, *offsets = text.rstrip("\n").split("\n")
    # As Spark shows it.
    return max(numbers), _digest(f"[{', '.join(offsets)}]") if entry_format == ENTRY_FORMAT else ""


def local_checkpoint(location: str | None) -> Path | None:
    """The directory, if it is on this machine and Spark has begun to write to it."""
    parsed = urlparse(location or "")
    path = Path(unquote(parsed.path))
    if location and parsed.scheme in {"", "file"} and (path / "metadata").is_file():
        return path
    return None


def _digest(offsets: str) -> str:
    return blake2b(offsets.encode(), digest_size=DIGEST_BYTES).hexdigest()
