"""Loads, stores and copies at any byte of a buffer. None of them checks a bound: their callers do."""

from typing import Any, Final, TypeAlias

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

Octets: TypeAlias = NDArray[np.uint8]

PREFETCH_BYTES: Final = 16 << 10
"""How far ahead kernels fetch while they parse: about a batch, as the next one's CRC is what waits for memory."""

_I8 = ir.IntType(8)
_I32 = ir.IntType(32)
_I64 = ir.IntType(64)


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, position: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(builder.bitcast(data, _I8.as_pointer()), [position])


def _loader(bits: int, *, big_endian: bool) -> Any:
    integer = ir.IntType(bits)

    def load(typing_context: Any, buffer: Any, position: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = _pointer(context, builder, signature.args[0], *arguments)
            value = builder.load(builder.bitcast(pointer, integer.as_pointer()))
            value.align = 1
            if big_endian:
                value = builder.bswap(value)
            return builder.sext(value, _I64) if bits < 64 else value

        return (types.int64 if big_endian else types.uint64)(buffer, types.int64), generate

    return intrinsic(load)


def _storer(bits: int) -> Any:
    integer = ir.IntType(bits)

    def store(typing_context: Any, buffer: Any, position: Any, number: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array, position, number = arguments
            pointer = _pointer(context, builder, signature.args[0], array, position)
            value = builder.trunc(number, integer) if bits < 64 else number
            stored = builder.store(builder.bswap(value), builder.bitcast(pointer, integer.as_pointer()))
            stored.align = 1
            return context.get_dummy_value()

        return types.void(buffer, types.int64, types.int64), generate

    return intrinsic(store)


load_int16 = _loader(16, big_endian=True)
load_int32 = _loader(32, big_endian=True)
load_int64 = _loader(64, big_endian=True)
load_word = _loader(64, big_endian=False)
"""Eight bytes as they lie in memory, for checksums."""

store_int16 = _storer(16)
store_int32 = _storer(32)
store_int64 = _storer(64)


@intrinsic
def prefetch(typing_context: Any, buffer: Any, position: Any) -> Any:
    """Ask for the cache line at `position`, which may lie behind the end: a prefetch never faults."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], *arguments)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, _I32, _I32, _I32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [pointer, _I32(0), _I32(2), _I32(1)])
        return context.get_dummy_value()

    return types.void(buffer, types.int64), generate


@intrinsic
def copy_bytes(
    typing_context: Any, target: Any, target_at: Any, source: Any, source_at: Any, count: Any
) -> Any:
    """memcpy between two buffers that do not overlap."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, target_at, source, source_at, count = arguments
        to = _pointer(context, builder, signature.args[0], target, target_at)
        origin = _pointer(context, builder, signature.args[2], source, source_at)
        cgutils.raw_memcpy(builder, to, origin, count, ir.Constant(_I64, 1))
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate
