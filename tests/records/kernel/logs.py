"""Logs from seeds, in pieces, and what compaction leaves of them according to a dict."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.records.batch import Codec
from holdfast.records.build import Record, build_batch, read_records
from holdfast.records.control import filler_batch
from holdfast.records.kernel import KeyIndex, Mask
from holdfast.records.walk import walk

LENGTHS = [0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 100, 3000]


@dataclass(frozen=True, slots=True)
class Log:
    """Pieces of whole batches, oldest first, and the keys of the data records of each."""

    pieces: list[bytes]
    keys: list[list[bytes | None]]

    @property
    def distinct_bytes(self) -> int:
        """How long all different keys are together."""
        return sum(len(key) for key in {key for piece in self.keys for key in piece} if key is not None)

    def masks(self) -> list[Mask]:
        """Nothing is dead yet."""
        return [np.zeros(len(keys), np.bool_) for keys in self.keys]

    def shadowed(self) -> list[list[bool]]:
        """Which records a newer one with the same key shadows, and those without a key."""
        newest: dict[bytes, tuple[int, int]] = {}
        for piece, keys in enumerate(self.keys):
            newest.update({key: (piece, row) for row, key in enumerate(keys) if key is not None})
        return [
            [key is None or newest[key] != (piece, row) for row, key in enumerate(keys)]
            for piece, keys in enumerate(self.keys)
        ]


def random_log(seed: int, *, batches: int = 40, keys: int = 60) -> Log:
    """Batches of every codec with gaps, control batches and empty ones between them, cut into pieces anywhere."""
    seeded = random.Random(seed)
    lengths = seeded.choice([LENGTHS, [16], [0, 1, 2], [36]])
    pool = [seeded.randbytes(seeded.choice(lengths)) for _ in range(keys)]
    pool += [key[:-1] for key in pool[: keys // 4]] + [key + b"\x00" for key in pool[: keys // 4]]
    offset = seeded.randrange(2**40)
    encoded = []
    for _ in range(batches):
        batch, offset = _batch(seeded, pool, offset)
        encoded.append(batch)
    cuts = sorted(seeded.randrange(batches) for _ in range(seeded.randrange(6)))
    pieces = [
        b"".join(encoded[start:end]) for start, end in zip([0, *cuts], [*cuts, len(encoded)], strict=True)
    ]
    return Log(pieces, [keys_of(piece) for piece in pieces])


def log_of(*pieces: Sequence[bytes | None]) -> Log:
    """One batch per piece with these keys."""
    return Log(
        [build_batch([Record(key=key, value=b"v") for key in keys]) for keys in pieces],
        [list(keys) for keys in pieces],
    )


def keys_of(piece: bytes) -> list[bytes | None]:
    """Keys of the data records, in order."""
    return [record.key for view in walk(piece) if not view.is_control for record in read_records(view)]


def shadow(index: KeyIndex, log: Log, masks: list[Mask]) -> None:
    """Show the whole log to the index, newest piece first."""
    for piece, dead in zip(reversed(log.pieces), reversed(masks), strict=True):
        index.shadow(piece, dead)


def _batch(seeded: random.Random, pool: list[bytes], offset: int) -> tuple[bytes, int]:
    match seeded.randrange(12):
        case 0:
            return filler_batch(base_offset=offset), offset + 1
        case 1:
            return build_batch([], base_offset=offset, last_offset=offset + 3), offset + 4
        case _:
            records = []
            start = offset
            for _ in range(seeded.choice([1, 3, 10, 30])):
                key = None if seeded.random() < 0.05 else seeded.choice(pool)
                value = None if seeded.random() < 0.2 else seeded.randbytes(seeded.randrange(40))
                headers = [("name", b"value")] * seeded.choice([0, 0, 2])
                records.append(Record(key=key, value=value, headers=headers, offset=offset))
                offset += seeded.choice([1, 1, 1, 5, 100])
            return build_batch(records, base_offset=start, codec=seeded.choice(list(Codec))), offset
