"""What the kernel takes for the durable write alone: the part of a produce request that no agent can save."""

import os
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Appending with one `fdatasync` per frame."""

    cpu_us_per_buffer: float
    mb_per_second: float


def append_durably(directory: Path, *, buffer_bytes: int, frame_buffers: int, frames: int) -> Floor:
    """Write frames of buffers to a new file, as a store does, and nothing else."""
    buffers = [bytearray(os.urandom(buffer_bytes)) for _ in range(frame_buffers)]
    path = directory / "floor"
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        position = 0
        cpu, start = time.process_time(), time.perf_counter()
        for _ in range(frames):
            position += os.pwritev(file, buffers, position)
            os.fdatasync(file)
        cpu, elapsed = time.process_time() - cpu, time.perf_counter() - start
    finally:
        os.close(file)
        path.unlink()
    return Floor(
        cpu_us_per_buffer=cpu / (frames * frame_buffers) * 1e6, mb_per_second=position / elapsed / 1e6
    )
