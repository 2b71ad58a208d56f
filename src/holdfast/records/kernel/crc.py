"""CRC-32C inside compiled code: the SSE4.2 instruction on three lanes, or tables where there is none."""

import platform
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from holdfast.records.kernel.jit import compiled, inlined
from holdfast.records.kernel.memory import Octets, load_word

_POLYNOMIAL = 0x82F63B78
_U = np.uint64
_BYTE = np.uint64(0xFF)
_ONES = np.uint64(0xFFFFFFFF)
_LONG = 4096
_SHORT = 256


def _instruction(bits: int) -> Any:
    accumulator, operand = ir.IntType(64 if bits == 64 else 32), ir.IntType(bits)
    name = f"llvm.x86.sse42.crc32.{accumulator.width}.{bits}"

    def crc_instruction(typing_context: Any, crc: Any, data: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            crc, data = arguments
            kind = ir.FunctionType(accumulator, [accumulator, operand])
            function = cgutils.get_or_insert_function(builder.module, kind, name)
            if bits == 64:
                return builder.call(function, [crc, data])
            narrow = builder.call(function, [builder.trunc(crc, accumulator), builder.trunc(data, operand)])
            return builder.zext(narrow, ir.IntType(64))

        return types.uint64(types.uint64, types.uint64), generate

    return intrinsic(crc_instruction)


_crc_word = _instruction(64)
_crc_byte = _instruction(8)


def _byte_tables() -> NDArray[np.uint32]:
    tables = np.zeros((16, 256), np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_POLYNOMIAL if crc & 1 else 0)
        tables[0, byte] = crc
    for lane in range(1, 16):
        below = tables[lane - 1]
        tables[lane] = (below >> 8) ^ tables[0, below & 0xFF]
    return tables


def _shift_tables(distance: int) -> NDArray[np.uint32]:
    """What `distance` zero bytes do to a CRC, by byte of the CRC: the operator is linear over bits."""
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    for _ in range(distance):
        bits = (bits >> 8) ^ _TABLES[0, bits & 0xFF]
    tables = np.zeros((4, 256), np.uint32)
    for byte in range(256):
        for bit in range(8):
            if byte >> bit & 1:
                tables[:, byte] ^= bits[bit::8]
    return tables


_TABLES = _byte_tables()
_LONG_SHIFT = _shift_tables(_LONG)
_SHORT_SHIFT = _shift_tables(_SHORT)


@inlined
def _shift(tables: Any, crc: Any) -> Any:
    return _U(
        tables[0, crc & _BYTE]
        ^ tables[1, (crc >> _U(8)) & _BYTE]
        ^ tables[2, (crc >> _U(16)) & _BYTE]
        ^ tables[3, (crc >> _U(24)) & _BYTE]
    )


@compiled
def crc32c_sse(buffer: Octets, start: int, end: int) -> int:
    """CRC of buffer[start:end] on x86-64: three lanes hide the instruction's latency of three cycles."""
    crc = _ONES
    while end - start >= 3 * _LONG:
        second = third = _U(0)
        for at in range(start, start + _LONG, 8):
            crc = _crc_word(crc, load_word(buffer, at))
            second = _crc_word(second, load_word(buffer, at + _LONG))
            third = _crc_word(third, load_word(buffer, at + 2 * _LONG))
        crc = _shift(_LONG_SHIFT, _shift(_LONG_SHIFT, crc) ^ second) ^ third
        start += 3 * _LONG
    while end - start >= 3 * _SHORT:
        second = third = _U(0)
        for at in range(start, start + _SHORT, 8):
            crc = _crc_word(crc, load_word(buffer, at))
            second = _crc_word(second, load_word(buffer, at + _SHORT))
            third = _crc_word(third, load_word(buffer, at + 2 * _SHORT))
        crc = _shift(_SHORT_SHIFT, _shift(_SHORT_SHIFT, crc) ^ second) ^ third
        start += 3 * _SHORT
    while end - start >= 8:
        crc = _crc_word(crc, load_word(buffer, start))
        start += 8
    while start < end:
        crc = _crc_byte(crc, _U(buffer[start]))
        start += 1
    return np.int64(crc ^ _ONES)  # type: ignore[return-value]


@compiled
def crc32c_tables(buffer: Octets, start: int, end: int) -> int:
    """CRC of buffer[start:end] on any machine: slicing by sixteen."""
    crc = _ONES
    while end - start >= 16:
        low = load_word(buffer, start) ^ crc
        high = load_word(buffer, start + 8)
        crc = _U(0)
        for lane in range(8):
            shift = _U(8 * lane)
            crc ^= _U(_TABLES[15 - lane, (low >> shift) & _BYTE])
            crc ^= _U(_TABLES[7 - lane, (high >> shift) & _BYTE])
        start += 16
    while start < end:
        crc = (crc >> _U(8)) ^ _U(_TABLES[0, (crc ^ _U(buffer[start])) & _BYTE])
        start += 1
    return np.int64(crc ^ _ONES)  # type: ignore[return-value]


def _has_instruction() -> bool:
    """Whether code for this machine may use SSE4.2; a CPU named by NUMBA_CPU_NAME may not be this one."""
    if platform.machine().lower() not in ("x86_64", "amd64") or config.CPU_NAME:
        return False
    return bool(binding.get_host_cpu_features().get("sse4.2"))


crc32c = crc32c_sse if _has_instruction() else crc32c_tables
