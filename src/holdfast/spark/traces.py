"""What stands in the text of an exception of Spark's, which has whole stacks of Python and Java in it. Pure."""

import os
import re
from pathlib import Path
from typing import Final

import holdfast
from holdfast import errors
from holdfast.errors import HoldfastError, QueryFailed

LINE_MAX: Final = 300

_CAUSE: Final = re.compile(r"^.*\b(\w+(?:Error|Exception)): (\S.*)$", re.MULTILINE)
"""A line of a stack trace that says why, be it Python's or Java's; of causes that stand in one line, the last."""
_FRAME: Final = re.compile(r'^ *File "(.+)", line ([0-9]+), in (.+)$')
_CALLED: Final = re.compile(r"was called from\n(.+):([0-9]+)$", re.MULTILINE)
"""Of an expression of Java's that has failed: where Python has made it."""
_LIBRARIES: Final = re.compile(
    r"/(?:site|dist)-packages/|/lib/python3[^/]*/|/(?:pyspark|holdfast-package)\.zip/"
)
_OWN: Final = str(Path(holdfast.__path__[0])) + os.sep
_CLASS: Final = re.compile(r"^(?:[a-zA-Z_]\w*\.)*([A-Za-z_]\w*)(:|$)")
_STATE: Final = re.compile(r" SQLSTATE: \w{5};?$")
_OURS: Final = re.compile(r"^(?:.*\s)?holdfast\.errors\.(\w+): (.+)$", re.MULTILINE)
_CONDITION: Final = re.compile(r"^\[[A-Z_0-9.]+\] ")
_STATE_AND_PLAN: Final = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)


def cause_line(message: str) -> str:
    """In one line, what the text of an exception ends with: our own error, Python's with its place, or Java's cause."""
    text = message.strip()
    own = find_own(text)
    found = str(own) if own is not None else _python_line(text.split("\n")) or _java_line(text)
    return found[:LINE_MAX]


def find_own(text: str) -> HoldfastError | None:
    """The error of ours that a trace ends with, if there is one."""
    ours = _OURS.findall(text)
    if not ours:
        return None
    # The last one is the one that was raised; those before it are its causes.
    name, message = ours[-1]
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, HoldfastError) and kind.__init__ is HoldfastError.__init__:
        return kind(message)
    return QueryFailed(message)


def shorten(text: str) -> str:
    """The first sentences of Spark's message, without its class, state, plan and stack."""
    plain = _STATE_AND_PLAN.sub("", _CONDITION.sub("", text.strip()))
    return " ".join(plain.split("\n\n")[0].split())


def _python_line(lines: list[str]) -> str | None:
    """The error that the last traceback ends with, unless Java tells of a cause behind it."""
    frames = [(number, found) for number, line in enumerate(lines) if (found := _FRAME.match(line))]
    if not frames:
        return None
    behind = lines[frames[-1][0] + 1 :]
    while behind and (not behind[0] or behind[0][0].isspace()):
        del behind[0]
    if not behind or any(line.startswith("Caused by: ") for line in behind) or "Py4JJavaError" in behind[0]:
        return None
    error = _STATE.sub("", _CLASS.sub(r"\1\2", behind[0].strip()))
    called = _CALLED.search("\n".join(behind))
    if called is not None:
        return f"{error} ({Path(called[1]).name}:{called[2]})"
    users = [found for _, found in frames if not (_LIBRARIES.search(found[1]) or found[1].startswith(_OWN))]
    if not users:
        return error
    return f"{error} ({Path(users[-1][1]).name}:{users[-1][2]}, in {users[-1][3]})"


def _java_line(text: str) -> str:
    """The innermost cause that is named, or else the first line."""
    causes = _CAUSE.findall(text)
    return f"{causes[-1][0]}: {causes[-1][1]}" if causes else text.partition("\n")[0]
