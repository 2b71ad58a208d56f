"""CRC-32C, the plain path."""

import pytest

from holdfast.records.crc import crc32c

# RFC 3720, appendix B.4, and the check value of the catalogue of CRC algorithms.
VECTORS = [
    (b"", 0x00000000),
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
]


@pytest.mark.parametrize(("data", "expected"), VECTORS)
def test_known_vectors(data: bytes, expected: int) -> None:
    """Published checksums come out, through a view into a larger buffer too."""
    assert crc32c(data) == expected
    assert crc32c(memoryview(b"xxx" + data + b"yyy")[3 : 3 + len(data)]) == expected
