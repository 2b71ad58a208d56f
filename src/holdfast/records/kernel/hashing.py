"""A keyed hash of short byte strings, and their exact comparison.

Each 16 bytes are xored with secret words and multiplied, and the two halves of the product are folded into one word.
Without the secret nobody can choose keys that meet in one slot, or in one part of the hash space. That keeps
a table fast; what keeps it exact is the comparison of the bytes.
"""

import hashlib
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from holdfast.records.kernel.jit import compiled, inlined
from holdfast.records.kernel.memory import Octets, load_int32, load_word

_U = np.uint64
_I64 = ir.IntType(64)
_I128 = ir.IntType(128)


@intrinsic
def _fold(typing_context: Any, left: Any, right: Any) -> Any:
    """Upper and lower half of the product of two words, xored."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, right = (builder.zext(word, _I128) for word in arguments)
        product = builder.mul(left, right)
        upper = builder.lshr(product, _I128(64))
        return builder.xor(builder.trunc(product, _I64), builder.trunc(upper, _I64))

    return types.uint64(types.uint64, types.uint64), generate


def make_secret(seed: int) -> NDArray[np.uint64]:
    """Four words that nobody can tell without the seed."""
    return np.frombuffer(hashlib.blake2b(str(seed).encode(), digest_size=32).digest(), np.uint64)


@inlined
def hash_bytes(data: Octets, start: Any, length: Any, secret: NDArray[np.uint64]) -> Any:
    """64 bits for data[start:start + length]."""
    state = secret[0]
    if length > 16:
        state = _absorb_all_but_last(data, start, length, secret)
        start += length - 16
        low, high = load_word(data, start), load_word(data, start + 8)
    elif length >= 8:
        low, high = load_word(data, start), load_word(data, start + length - 8)
    elif length >= 4:
        low, high = _U(load_int32(data, start)), _U(load_int32(data, start + length - 4))
    elif length > 0:
        low = _U(data[start]) << _U(8) | _U(data[start + (length >> 1)])
        high = _U(data[start + length - 1])
    else:
        low = high = _U(0)
    state = _fold(low ^ state, high ^ secret[1])
    return _fold(state ^ secret[2] ^ _U(length), secret[3])


@inlined
def hash_words(low: Any, high: Any, tag: Any, secret: NDArray[np.uint64]) -> Any:
    """64 bits for two words and a tag."""
    return _fold(_fold(low ^ secret[0], high ^ secret[1]) ^ secret[2] ^ _U(tag), secret[3])


@compiled
def _absorb_all_but_last(data: Octets, start: int, length: int, secret: NDArray[np.uint64]) -> Any:
    """What all but the last 1 to 16 bytes make of the state."""
    state = secret[0]
    last = start + length - 16
    while start < last:
        state = _fold(load_word(data, start) ^ state, load_word(data, start + 8) ^ secret[1])
        start += 16
    return state


@inlined
def same_bytes(left: Octets, left_at: Any, right: Octets, right_at: Any, length: Any) -> bool:
    """Whether two strings of this length are equal."""
    same = True
    if length >= 8:
        last = length - 8
        at = 0
        while same and at < last:
            same = load_word(left, left_at + at) == load_word(right, right_at + at)
            at += 8
        return same and load_word(left, left_at + last) == load_word(right, right_at + last)
    for at in range(length):
        same = same and left[np.uintp(left_at + at)] == right[np.uintp(right_at + at)]
    return same
