"""Who a message says it is, in plain Python."""

import pytest

from holdfast.pipelines.identity import (
    Identified,
    Identity,
    Location,
    Part,
    identify,
    parse_location,
    parse_time_ms,
)
from holdfast.records.record import Record


def test_cloud_events() -> None:
    """Binary mode: everything in headers. Of two of the same name the last one counts."""
    record = Record(
        value=b"{}",
        headers=[
            ("ce_id", b"old"),
            ("ce_id", b"a-1"),
            ("ce_source", b"/bank"),
            ("tenant", "Börse".encode()),
            ("ce_time", b"2026-01-31T12:00:00.5+01:00"),
        ],
    )
    found = identify(record, Identity())
    assert found == Identified(id="a-1", source="/bank", tenant="Börse", time_ms=1_769_857_200_500)
    assert found.is_whole


@pytest.mark.parametrize("headers", [[], [("ce_id", b"")], [("ce_id", None)], [("ce_id", b"\xff")]])
def test_missing(headers: list[tuple[str, bytes | None]]) -> None:
    """What is empty or not UTF-8 is not there."""
    found = identify(Record(headers=headers), Identity())
    assert found == Identified(id=None, source=None, tenant=None, time_ms=None)
    assert not found.is_whole


@pytest.mark.parametrize(
    ("single", "source", "found"),
    [
        (b"c", b"", ("c", None)),
        (b"c", None, ("c", None)),
        (b"b\x1fc", b"s", (None, "s")),
        (b"c", b"s\x1fb", (None, None)),
        (b"c", b"\xff", (None, None)),
        (b"a\x1e\tb", b"s", ("a\x1e\tb", "s")),
    ],
)
def test_a_source_that_cannot_be_read_leaves_no_id(
    single: bytes, source: bytes | None, found: tuple[str | None, str | None]
) -> None:
    """With the separator in either, two messages could be taken for one; with no source there is none to mistake."""
    said = identify(Record(headers=[("ce_id", single), ("ce_source", source)]), Identity())
    assert (said.id, said.source) == found


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("$.id", b'{"id": "x"}', "x"),
        ("$.id", b'{"id": 12}', "12"),
        ("$.lines[1].id", b'{"lines": [{}, {"id": "y"}]}', "y"),
        ("$.lines[2].id", b'{"lines": [{}, {"id": "y"}]}', None),
        ("$.id", b'{"id": null}', None),
        ("$.id", b"[]", None),
        ("$.id", b"not JSON", None),
        ("$.id", None, None),
    ],
)
def test_in_the_value(path: str, value: bytes | None, found: str | None) -> None:
    """By a JSON path."""
    identity = Identity(id=Location(part=Part.VALUE, json_path=path), tenant=Location(part=Part.KEY))
    assert identify(Record(key=b"acme", value=value), identity).id == found
    assert identify(Record(key=b"acme", value=value), identity).tenant == "acme"


@pytest.mark.parametrize(
    "text", ["", "header:", "value:", "value:id", "value:$", "value:$..id", "value:$.a[01]", "topic"]
)
def test_no_location(text: str) -> None:
    """What nobody could find anything by."""
    with pytest.raises(ValueError, match="is not a"):
        parse_location(text)


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.9999Z", -1),
        ("2026-01-31 12:00:00+00:00", 1_769_860_800_000),
        ("1769860800000", 1_769_860_800_000),
        ("2026-01-31T12:00:00", None),
        ("2026-02-30T12:00:00Z", None),
        ("0000-01-01T00:00:00Z", None),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000),
        ("2026-02-01T24:00:00Z", None),
        ("2026-02-01T12:00:00+18:00", 1_769_882_400_000),
        ("2026-02-01T12:00:00+18:01", None),
        ("2026-02-01T12:00:00-19:00", None),
        ("2026-02-01T12:00:00+17:75", None),
        ("2026-02-0\u0661T12:00:00Z", None),
        ("\u0661\u0662", None),
        ("noon", None),
        ("", None),
    ],
)
def test_times(text: str, time_ms: int | None) -> None:
    """A moment has a zone, or it is none."""
    assert parse_time_ms(text) == time_ms
