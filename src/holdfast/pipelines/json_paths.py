"""JSON paths, and what stands at one in a value: the same for one record, for a column and for Spark's workers.

Nothing is made of a value that is no JSON by RFC 8259 in UTF-8: libraries that are lenient are so in different ways.
"""

import json
import re
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

PATH_STEPS_MAX: Final = 16
NESTING_MAX: Final = 256
"""Python reads some more levels, but how many depends on who calls it."""

_STEP: Final = re.compile(r"\.([A-Za-z_][A-Za-z0-9_-]*)|\[(0|[1-9][0-9]{0,6})\]")
_STRING: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_NO_BRACKET: Final = re.compile(r"[^\[\]{}]+")
_LEVELS: Final = {"[": 1, "{": 1, "]": -1, "}": -1}


@lru_cache
def json_steps(path: str) -> tuple[str | int, ...]:
    """The steps of a JSON path; only what every JSON library agrees upon: members and indices."""
    steps: list[str | int] = []
    position = 1
    while position < len(path):
        found = _STEP.match(path, position)
        if found is None:
            break
        steps.append(found[1] if found[1] is not None else int(found[2]))
        position = found.end()
    if not path.startswith("$") or position < len(path) or not 0 < len(steps) <= PATH_STEPS_MAX:
        raise ValueError(
            f"{path!r} is not a JSON path of members and indices such as $.order.id or $.lines[0].id"
        )
    return tuple(steps)


def find_in_json(value: bytes | None, path: str) -> str | None:
    """The string or the integer there, as text; empty where there is nothing, None for all that cannot be read.

    Of two members of the same name the last one counts.
    """
    if not value:
        return ""
    try:
        text = value.decode()
        found: Any = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    if _is_too_deep(text):
        return None
    for step in json_steps(path):
        if isinstance(step, str):
            found = found.get(step) if isinstance(found, dict) else None
        else:
            found = found[step] if isinstance(found, list) and step < len(found) else None
    return "" if found is None else _as_text(found)


def _as_text(found: object) -> str | None:
    # Not isinstance: true is an integer to Python.
    if type(found) is int:
        return str(found)
    return found if isinstance(found, str) and _is_unicode(found) else None


def _is_unicode(text: str) -> bool:
    """An escape may stand for half of a character, which no UTF-8 has."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_too_deep(text: str) -> bool:
    """Of a text that is JSON."""
    if text.count("[") + text.count("{") <= NESTING_MAX:
        return False
    brackets = _NO_BRACKET.sub("", _STRING.sub("", text))
    return max(accumulate(map(_LEVELS.__getitem__, brackets)), default=0) > NESTING_MAX


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)
