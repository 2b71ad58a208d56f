"""Texts that kernels have to understand: whether bytes are UTF-8, and which moment a time means."""

from typing import Any, Final

import numpy as np

from holdfast.records.kernel.jit import compiled, inlined
from holdfast.records.kernel.memory import Octets, load_word

BAD_TIME: Final = -(1 << 63)
"""In place of a time: none that is plain."""
DIGITS_MAX: Final = 15
INSTANT_BYTES_MIN: Final = 20
"""2026-11-18T01:02:03Z"""
ZONE_MINUTES_MAX: Final = 18 * 60
"""Java knows no zones that are farther away."""

_U = np.uint64
_UPPER_BITS: Final = _U(0x8080808080808080)
_ONES: Final = _U(0x0101010101010101)
_UPPER_HALVES: Final = _U(0xF0F0F0F0F0F0F0F0)
_LOWER_HALVES: Final = _U(0x0F0F0F0F0F0F0F0F)
_ZEROS: Final = _U(0x3030303030303030)
_SIXES: Final = _U(0x0606060606060606)


@inlined
def is_utf8(data: Octets, start: Any, length: Any) -> bool:
    """Whether it is valid text; mostly it is ASCII, which eight bytes at a time tell."""
    at = np.int64(0)
    while at + 8 <= length and load_word(data, start + at) & _UPPER_BITS == _U(0):
        at += 8
    while at < length and data[np.uintp(start + at)] < 0x80:
        at += 1
    return at == length or _is_wide_utf8(data, start + at, start + length)


@inlined
def is_name(data: Octets, start: Any, length: Any, separator: Any) -> bool:
    """Whether it is valid text without a byte, an ASCII one, that stands between names."""
    wide = _U(separator) * _ONES
    odd = _U(0)
    at = np.int64(0)
    while at + 8 <= length:
        odd |= _odd_bits(load_word(data, start + at), wide)
        at += 8
    if at < length and start + at + 8 <= len(data):
        # Of the last bytes and those behind them, the former alone are left, with zeros.
        odd |= _odd_bits(load_word(data, start + at) << _U(64 - 8 * (length - at)), wide)
    elif at < length:
        odd = _UPPER_BITS
    return odd & _UPPER_BITS == _U(0) or _is_wide_name(data, start, start + length, separator)


@inlined
def _odd_bits(word: Any, wide: Any) -> Any:
    """Upper bits where a byte is not ASCII or is that one: what differs from it reaches the upper bit."""
    return word | ~((word ^ wide) + ~_UPPER_BITS)


@compiled
def _is_wide_name(data: Octets, at: int, end: int, separator: int) -> bool:
    for each in range(at, end):
        if data[each] == separator:
            return False
    return _is_wide_utf8(data, at, end)


@compiled
def _is_wide_utf8(data: Octets, at: int, end: int) -> bool:
    """As Unicode has it: no overlong form, no surrogate, nothing beyond U+10FFFF."""
    while at < end:
        lead = np.int64(data[at])
        if lead < 0x80:
            more, low, high = 0, 0x80, 0xBF
        elif 0xC2 <= lead <= 0xDF:
            more, low, high = 1, 0x80, 0xBF
        elif 0xE0 <= lead <= 0xEF:
            more, low, high = 2, 0xA0 if lead == 0xE0 else 0x80, 0x9F if lead == 0xED else 0xBF
        elif 0xF0 <= lead <= 0xF4:
            more, low, high = 3, 0x90 if lead == 0xF0 else 0x80, 0x8F if lead == 0xF4 else 0xBF
        else:
            return False
        if end - at <= more:
            return False
        for follower in range(1, more + 1):
            if not low <= np.int64(data[at + follower]) <= high:
                return False
            low, high = 0x80, 0xBF
        at += 1 + more
    return True


@compiled
def read_time(data: Octets, start: int, length: int) -> int:
    """Milliseconds since 1970 of digits, or of an instant by RFC 3339; BAD_TIME for what is not plainly either."""
    if length < INSTANT_BYTES_MIN:
        negative = length > 0 and data[start] == ord("-")
        digits = length - 1 if negative else length
        if not 0 < digits <= DIGITS_MAX:
            return BAD_TIME
        number = _number(data, start + length - digits, digits)
        if number < 0:
            return BAD_TIME
        return -number if negative else number
    return _read_instant(data, start, length)


@inlined
def _number(data: Octets, start: Any, count: Any) -> Any:
    """Of so many digits, 15 at most; -1 if one is none."""
    number = np.int64(0)
    is_sound: Any = True
    wide = count >= 8
    for at in range(count - 8 if wide else count):
        digit = np.int64(data[np.uintp(start + at)]) - 48
        is_sound = is_sound and 0 <= digit <= 9
        number = number * 10 + digit
    if wide:
        word = load_word(data, start + count - 8)
        # Each byte is 0x30 to 0x39: its upper half is 3, and still is when 6 is added.
        is_sound = is_sound and (word & _UPPER_HALVES) == _ZEROS
        is_sound = is_sound and ((word + _SIXES) & _UPPER_HALVES) == _ZEROS
        # Digits become pairs, pairs fours, and fours one number, by a multiplication each.
        word = (word & _LOWER_HALVES) * _U(10 << 8 | 1) >> _U(8)
        word = (word & _U(0x00FF00FF00FF00FF)) * _U(100 << 16 | 1) >> _U(16)
        word = (word & _U(0x0000FFFF0000FFFF)) * _U(10_000 << 32 | 1) >> _U(32)
        number = number * 100_000_000 + np.int64(word)
    return number if is_sound else np.int64(-1)


@compiled
def _read_instant(data: Octets, start: int, length: int) -> int:
    year, month, day = _number(data, start, 4), _number(data, start + 5, 2), _number(data, start + 8, 2)
    hour, minute, second = (
        _number(data, start + 11, 2),
        _number(data, start + 14, 2),
        _number(data, start + 17, 2),
    )
    shaped = (
        data[start + 4] == ord("-")
        and data[start + 7] == ord("-")
        and (data[start + 10] == ord("T") or data[start + 10] == ord(" "))
        and data[start + 13] == ord(":")
        and data[start + 16] == ord(":")
    )
    ranged = year >= 1 and 1 <= month <= 12 and 1 <= day <= _days_in(year, month)
    ranged = ranged and 0 <= hour <= 23 and 0 <= minute <= 59 and 0 <= second <= 59
    at, end = start + 19, start + length
    milliseconds, digits = np.int64(0), 0
    if data[at] == ord("."):
        at += 1
        while at < end and 48 <= data[at] <= 57:
            if digits < 3:
                milliseconds = milliseconds * 10 + np.int64(data[at]) - 48
            digits += 1
            at += 1
        shaped = shaped and 1 <= digits <= 9
        for _ in range(digits, 3):
            milliseconds *= 10
    zone_ms = np.int64(0)
    if end - at == 6 and (data[at] == ord("+") or data[at] == ord("-")):
        hours, minutes = _number(data, at + 1, 2), _number(data, at + 4, 2)
        shaped = shaped and data[at + 3] == ord(":") and hours >= 0 and 0 <= minutes <= 59
        shaped = shaped and hours * 60 + minutes <= ZONE_MINUTES_MAX
        zone_ms = (hours * 60 + minutes) * 60_000 * (1 if data[at] == ord("+") else -1)
    elif not (end - at == 1 and data[at] == ord("Z")):
        shaped = False
    if not (shaped and ranged):
        return BAD_TIME
    seconds = ((_days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second
    return seconds * 1000 + milliseconds - zone_ms


@inlined
def _days_in(year: Any, month: Any) -> Any:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return (29 if leap else 28) if month == 2 else 31 - (month - 1) % 7 % 2


@inlined
def _days(year: Any, month: Any, day: Any) -> Any:
    """Since 1970. A year is taken to begin in March, so that a leap day is its last one."""
    if month <= 2:
        year -= 1
        month += 12
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5 + day - 719_469
