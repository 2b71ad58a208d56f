"""CRC-32C in compiled code, both ways."""

import platform
import random

import numpy as np
import pytest

from holdfast.records import crc
from holdfast.records.kernel.crc import crc32c, crc32c_sse, crc32c_tables
from tests.records.test_crc import VECTORS

WAYS = {"tables": crc32c_tables, "chosen": crc32c}
if platform.machine() == "x86_64":
    WAYS["sse"] = crc32c_sse


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("data", "expected"), VECTORS)
def test_known_vectors(way: str, data: bytes, expected: int) -> None:
    """Published checksums come out, from any position."""
    buffer = np.frombuffer(b"before" + data + b"after", np.uint8)
    assert WAYS[way](buffer, 6, 6 + len(data)) == expected


@pytest.mark.parametrize("way", WAYS)
def test_every_length_and_alignment(way: str) -> None:
    """Around every block size of the three lanes the result equals the plain path's."""
    data = random.Random(3).randbytes(40_000)
    buffer = np.frombuffer(data, np.uint8)
    edges = [8, 16, 768, 1536, 12_288, 24_576, 36_864]
    lengths = [*range(40), *(edge + step for edge in edges for step in (-1, 0, 1, 7, 9))]
    for length in lengths:
        for start in (0, 1, 5):
            assert WAYS[way](buffer, start, start + length) == crc.crc32c(data[start : start + length])
