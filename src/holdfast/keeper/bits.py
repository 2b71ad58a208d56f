"""Which records of a section go: a bit for each, in the order of offsets."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.records.kernel.layout import Mask


@dataclass(frozen=True, slots=True)
class Bits:
    """One bit per record, so that a log of a billion records takes 125 MB; those after the last record are 0."""

    count: int
    octets: NDArray[np.uint8]

    @classmethod
    def pack(cls, mask: Mask) -> "Bits":
        """The bits of a mask."""
        return cls(len(mask), np.packbits(mask))

    @classmethod
    def join(cls, parts: Sequence["Bits"]) -> "Bits":
        """Those of records that follow each other, part by part."""
        if len(parts) == 1:
            return parts[0]
        return cls.pack(
            np.concatenate([np.empty(0, np.bool_), *(part.rows(0, part.count) for part in parts)])
        )

    def rows(self, start: int, count: int) -> Mask:
        """The mask of records [start, start + count)."""
        assert start + count <= self.count, (start, count, self.count)
        first = start // 8
        octets = self.octets[first : (start + count + 7) // 8]
        bits: Mask = np.unpackbits(octets)[start - 8 * first :][:count].view(np.bool_)
        return bits

    def any(self) -> bool:
        """Whether a record goes."""
        return bool(self.octets.any())
