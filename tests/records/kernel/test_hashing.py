"""The keyed hash: every byte counts, the length counts, and so does the secret."""

import numpy as np
import pytest

from holdfast.records.kernel.hashing import hash_bytes, make_secret

SECRET = make_secret(1)
LENGTHS = [*range(34), 47, 48, 49, 64, 100]


def hashed(key: bytes, *, start: int = 0) -> int:
    """The hash of a key that lies somewhere in a buffer."""
    return int(hash_bytes(np.frombuffer(bytes(start) + key, np.uint8), start, len(key), SECRET))


@pytest.mark.parametrize("length", LENGTHS)
def test_every_byte_counts(length: int) -> None:
    """Wherever a key differs, and wherever it lies: equal keys have one hash, and others different ones."""
    key = bytes(range(length))
    near = [key[:at] + bytes([key[at] ^ bit]) + key[at + 1 :] for at in range(length) for bit in (1, 128)]
    assert len({hashed(one) for one in [key, *near]}) == 1 + len(near)
    assert {hashed(key, start=start) for start in range(9)} == {hashed(key)}


def test_the_length_counts() -> None:
    """Keys of zeros differ in nothing else."""
    assert len({hashed(bytes(length)) for length in LENGTHS}) == len(LENGTHS)


def test_seeds_make_secrets() -> None:
    """The same seed gives the same secret in every process, another seed another one."""
    assert make_secret(1).tolist() == SECRET.tolist()
    assert len({word for seed in range(-100, 100) for word in make_secret(seed).tolist()}) == 800
