"""Prometheus's text format 0.0.4, written; names and units follow Prometheus's conventions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Number = int | float
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One value; `suffix` goes to the family's name."""

    value: Number
    labels: Labels = ()
    suffix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Samples under one name, with what a reader is told of them."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    about: str
    samples: Sequence[Sample]


def counter(name: str, about: str, value: Number) -> Family:
    """A count that only rises while the process lives; the name ends in _total."""
    assert name.endswith("_total")
    return Family(name=name, kind="counter", about=about, samples=[Sample(value=value)])


def counters(name: str, about: str, label: str, values: Iterable[tuple[str, Number]]) -> Family:
    """Counts told apart by one label."""
    assert name.endswith("_total")
    samples = [Sample(value=value, labels=((label, key),)) for key, value in values]
    return Family(name=name, kind="counter", about=about, samples=samples)


def gauge(name: str, about: str, value: Number, labels: Labels = ()) -> Family:
    """A value that rises and falls."""
    return Family(name=name, kind="gauge", about=about, samples=[Sample(value=value, labels=labels)])


def gauges(name: str, about: str, values: Iterable[tuple[Labels, Number]]) -> Family:
    """Values that rise and fall, told apart by labels."""
    samples = [Sample(value=value, labels=labels) for labels, value in values]
    return Family(name=name, kind="gauge", about=about, samples=samples)


def histogram(
    name: str, about: str, *, bounds: Sequence[float], counts: Sequence[int], total: float
) -> Family:
    """`counts` holds one more than `bounds`: what lies above all of them."""
    assert len(counts) == len(bounds) + 1
    up_to = list(accumulate(counts))
    samples = [
        Sample(value=number, labels=(("le", bound),), suffix="_bucket")
        for bound, number in zip([*map(_number, bounds), "+Inf"], up_to, strict=True)
    ]
    samples += [Sample(value=total, suffix="_sum"), Sample(value=up_to[-1], suffix="_count")]
    return Family(name=name, kind="histogram", about=about, samples=samples)


def render(families: Iterable[Family]) -> bytes:
    """The page that a scrape gets."""
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {_escape_help(family.about)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        lines += [_line(family.name, sample) for sample in family.samples]
    return "".join(f"{line}\n" for line in lines).encode()


def _line(name: str, sample: Sample) -> str:
    labels = ",".join(f'{key}="{_escape_label(value)}"' for key, value in sample.labels)
    return f"{name}{sample.suffix}{'{' + labels + '}' if labels else ''} {_number(sample.value)}"


def _number(value: Number) -> str:
    return str(value) if isinstance(value, int) else repr(value)


def _escape_help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _escape_label(text: str) -> str:
    return _escape_help(text).replace('"', r"\"")
