"""A YAML file whose every value knows its line, so that whatever is wrong with it can be named."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NoReturn, TypeVar

import yaml

from holdfast.errors import UsageError

BYTES_MAX: Final = 1 << 20
DEPTH_MAX: Final = 20

_DURATION: Final = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")
_UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SHARE: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(%?)")

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Value:
    """One scalar of the file."""

    path: Path
    name: str
    """Its keys from the top, as `ingest.topic`."""
    line: int
    text: str
    is_plain: bool
    """Whether it stands without quotes: only then can it be nothing, true or false."""

    def refuse(self, why: str) -> NoReturn:
        """Ends the reading of the file."""
        refuse(self.path, self.line, f"{self.name}: {why}")

    def as_text(self) -> str:
        """Anything that is there."""
        if not self.text or (self.is_plain and self.text in {"~", "null"}):
            self.refuse("there is nothing here")
        return self.text

    def as_duration_ms(self) -> int:
        """Such as 90s, in milliseconds; more than nothing."""
        found = _DURATION.fullmatch(self.text)
        duration_ms = int(found[1]) * _UNIT_MS[found[2]] if found else 0
        if not duration_ms:
            self.refuse(f"{self.text!r} is not a duration such as 500ms, 90s, 15m, 2h or 1d")
        return duration_ms

    def as_count(self) -> int:
        """A whole number above 0; underscores may group its digits."""
        digits = self.text.replace("_", "")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 18 and int(digits)):
            self.refuse(f"{self.text!r} is not a whole number above 0")
        return int(digits)

    def as_share(self) -> float:
        """Such as 1% or 0.01; from 0 to 1."""
        found = _SHARE.fullmatch(self.text)
        share = float(found[1]) / (100 if found[2] else 1) if found else -1.0
        if not 0 <= share <= 1:
            self.refuse(f"{self.text!r} is not a share such as 1% or 0.01")
        return share

    def as_choice(self, choices: tuple[str, ...]) -> str:
        """One of some words."""
        if self.text not in choices:
            self.refuse(
                f"{self.text!r} is not one of {', '.join(choices)}{_did_you_mean(self.text, choices)}"
            )
        return self.text


@dataclass(slots=True)
class Section:
    """A mapping of the file. What is read from it is ticked off; `close` refuses what nobody has asked for."""

    path: Path
    name: str
    line: int
    entries: "dict[str, Value | Section]"
    asked: set[str] = field(default_factory=set)

    def find(self, key: str) -> Value | None:
        """The scalar under the key, if there is one."""
        found = self._entry(key)
        if isinstance(found, Section):
            refuse(found.path, found.line, f"{found.name} is a value, not a section")
        return found

    def require(self, key: str, example: str) -> Value:
        """The scalar under the key; `example` tells what it may look like."""
        found = self.find(key)
        if found is None:
            self.refuse(f"{self._full(key)} is missing, for example `{key}: {example}`")
        return found

    def section(self, key: str) -> "Section | None":
        """The mapping under the key, if there is one."""
        found = self._entry(key)
        if isinstance(found, Value):
            found.refuse("this is a section, with keys below it, not a value")
        return found

    def entry(self, key: str) -> "Value | Section | None":
        """Whichever of the two there is."""
        return self._entry(key)

    def get(self, key: str, read: Callable[[Value], Result], otherwise: Result) -> Result:
        """What `read` makes of the scalar, if there is one."""
        found = self.find(key)
        return otherwise if found is None else read(found)

    def refuse(self, why: str) -> NoReturn:
        """Ends the reading of the file, at the line where the section begins."""
        refuse(self.path, self.line, why)

    def close(self) -> None:
        """Nothing may be left that was never asked for: it is a typing mistake, or it would silently do nothing."""
        for key, entry in self.entries.items():
            if key not in self.asked:
                known = tuple(sorted(self.asked))
                refuse(
                    entry.path,
                    entry.line,
                    f"{self._full(key)} is not known{_did_you_mean(key, known)}; known here: {', '.join(known)}",
                )

    def _entry(self, key: str) -> "Value | Section | None":
        self.asked.add(key)
        return self.entries.get(key)

    def _full(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key


def read_document(path: Path) -> Section:
    """The file's outermost mapping; UsageError names the line that is wrong."""
    try:
        content = path.read_bytes()
    except OSError as failure:
        raise UsageError(f"cannot read {path}: {failure.strerror}") from failure
    if len(content) > BYTES_MAX:
        raise UsageError(f"{path} is larger than {BYTES_MAX:,} bytes: that is not a pipeline")
    try:
        node = yaml.compose(content, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as failure:
        mark = failure.problem_mark or failure.context_mark
        refuse(path, mark.line + 1 if mark else 1, f"this is not YAML: {failure.problem or failure.context}")
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as failure:
        raise UsageError(f"{path} is not YAML: {' '.join(str(failure).split())}") from None
    if node is None:
        refuse(path, 1, "the file is empty")
    if not isinstance(node, yaml.MappingNode):
        refuse(path, node.start_mark.line + 1, "a pipeline is a mapping: `key: value`, line by line")
    return _section(path, "", node, node.start_mark.line + 1, 0)


def refuse(path: Path, line: int, why: str) -> NoReturn:
    """The one way in which files are refused."""
    raise UsageError(f"{path}:{line}: {why}")


def _section(path: Path, name: str, node: yaml.MappingNode, line: int, depth: int) -> Section:
    entries: dict[str, Value | Section] = {}
    for key, key_line, value in _pairs(path, node):
        full = f"{name}.{key}" if name else key
        if key in entries:
            refuse(path, key_line, f"{full} stands here a second time, first in line {entries[key].line}")
        if isinstance(value, yaml.ScalarNode):
            entries[key] = Value(path, full, key_line, value.value, value.style is None)
        elif isinstance(value, yaml.MappingNode) and depth < DEPTH_MAX:
            entries[key] = _section(path, full, value, key_line, depth + 1)
        else:
            refuse(path, key_line, f"{full}: neither a value nor a mapping")
    return Section(path, name, line, entries)


def _pairs(path: Path, node: yaml.MappingNode) -> Iterator[tuple[str, int, yaml.Node]]:
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            refuse(path, line, "a key has to be a word")
        yield key.value, line, value


def _did_you_mean(word: str, known: tuple[str, ...]) -> str:
    near = get_close_matches(word, known, n=1)
    return f": did you mean {near[0]!r}?" if near else ""
