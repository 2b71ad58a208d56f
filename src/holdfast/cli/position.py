"""Where in a topic to begin: `beginning`, `end`, an offset, a count before the end, or a time."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import TYPE_CHECKING

import click

from holdfast.errors import OffsetOutOfRange

if TYPE_CHECKING:
    from holdfast.client.cluster import Cluster
    from holdfast.client.offsets import Isolation

OFFSET_MAX = 2**63 - 1

_NUMBER = re.compile(r"[0-9]{1,19}")


class Kind(Enum):
    """What the number of a position means."""

    BEGINNING = auto()
    END = auto()
    OFFSET = auto()
    BEFORE_END = auto()
    TIME = auto()


@dataclass(frozen=True, slots=True)
class Position:
    """A place that is resolved to one offset for each partition."""

    kind: Kind
    number: int = 0


class PositionType(click.ParamType[Position]):
    """Reads a position from the command line."""

    name = "position"

    def convert(
        self, value: str | Position, param: click.Parameter | None, ctx: click.Context | None
    ) -> Position:
        """Fails as click's own types do."""
        if isinstance(value, Position):
            return value
        if value == "beginning":
            return Position(Kind.BEGINNING)
        if value == "end":
            return Position(Kind.END)
        kind = {"-": Kind.BEFORE_END, "@": Kind.TIME}.get(value[:1], Kind.OFFSET)
        digits = value if kind is Kind.OFFSET else value[1:]
        if _NUMBER.fullmatch(digits) and int(digits) <= OFFSET_MAX:
            return Position(kind, int(digits))
        try:
            return Position(Kind.TIME, parse_time_ms(value))
        except ValueError:
            self.fail(
                f"{value!r} is not beginning, end, an offset such as 42, -N for the last N offsets, an ISO"
                " time such as 2026-01-31T12:00:00Z or @MILLISECONDS since 1970",
                param,
                ctx,
            )


class TimeType(click.ParamType[int]):
    """Reads a time as milliseconds since 1970."""

    name = "time"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Fails as click's own types do."""
        if isinstance(value, int):
            return value
        digits = value.removeprefix("@")
        if _NUMBER.fullmatch(digits) and int(digits) <= OFFSET_MAX:
            return int(digits)
        try:
            return parse_time_ms(value)
        except ValueError:
            self.fail(
                f"{value!r} is not an ISO time such as 2026-01-31T12:00:00Z, or ms since 1970", param, ctx
            )


def parse_time_ms(text: str) -> int:
    """An ISO 8601 date or time; without a zone it is local. ValueError."""
    moment = datetime.fromisoformat(text).timestamp()
    if moment < 0:
        raise ValueError("before 1970")
    return round(moment * 1000)


def resolve(
    cluster: "Cluster",
    topic: str,
    partitions: Sequence[int],
    position: Position,
    *,
    isolation: "Isolation",
) -> dict[int, int]:
    """The offset by partition. A time behind the last record is the end; an offset has to be in the log."""
    from holdfast.client.offsets import EARLIEST, LATEST, NOT_FOUND, list_offsets

    def ask(time: int) -> dict[int, int]:
        return list_offsets(cluster, topic, dict.fromkeys(partitions, time), isolation=isolation)

    match position.kind:
        case Kind.BEGINNING:
            return ask(EARLIEST)
        case Kind.END:
            return ask(LATEST)
        case Kind.TIME:
            ends = ask(LATEST)
            found = ask(position.number)
            return {each: ends[each] if at == NOT_FOUND else at for each, at in found.items()}
        case Kind.BEFORE_END:
            starts, ends = ask(EARLIEST), ask(LATEST)
            return {each: max(starts[each], end - position.number) for each, end in ends.items()}
        case Kind.OFFSET:
            starts, ends = ask(EARLIEST), ask(LATEST)
            for each in partitions:
                if not starts[each] <= position.number <= ends[each]:
                    raise OffsetOutOfRange(
                        f"offset {position.number} is not in {topic}-{each}, which holds {starts[each]} up to"
                        f" {ends[each]}: choose one in between, or name a --partition"
                    )
            return dict.fromkeys(partitions, position.number)
