"""Records as text and back."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.cli.record_format import from_json, to_json, to_line, to_time
from holdfast.errors import UsageError
from holdfast.records.record import Record

fields = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)
headers = st.lists(st.tuples(st.text(max_size=5), fields), max_size=3).map(tuple)


@settings(max_examples=300)
@given(key=fields, value=fields, headers=headers, time=st.integers(0, 2**63 - 1), as_base64=st.booleans())
def test_round_trip(
    key: bytes | None,
    value: bytes | None,
    headers: tuple[tuple[str, bytes | None], ...],
    time: int,
    as_base64: bool,
) -> None:
    """What is printed as JSON is read back byte for byte, on one line of valid UTF-8 and valid JSON."""
    record = Record(key=key, value=value, headers=headers, timestamp_ms=time, offset=9)
    line = to_json("t", 3, record, as_base64=as_base64)
    assert "\n" not in line
    found = from_json(line.encode(), as_base64=as_base64)
    assert found.partition == 3
    assert found.record == Record(key=key, value=value, headers=headers, timestamp_ms=time)


@given(key=fields, value=fields, headers=headers)
def test_a_line_is_a_line(
    key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    """No key, value or header breaks the line or reaches the terminal as a command."""
    line = to_line(0, Record(key=key, value=value, headers=headers, timestamp_ms=0, offset=0))
    assert len(line.splitlines()) == 1
    assert "\x1b" not in line


def test_headers_as_an_object() -> None:
    """By hand one writes an object."""
    assert from_json(b'{"headers": {"a": "1", "b": null}}', as_base64=False).record.headers == (
        ("a", b"1"),
        ("b", None),
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "not a JSON object"),
        ("[1]", "not a JSON object"),
        ('{"valu": 1}', "unknown field 'valu'; known are: headers, key, partition, timestamp, value"),
        ('{"value": 1}', 'value is not a string, null or {"base64": "…"}'),
        ('{"key": {"base64": "x", "y": 1}}', "key is not a string"),
        ('{"key": {"base64": "!"}}', "key is not base64"),
        ('{"headers": 1}', "headers are not"),
        ('{"headers": [["a"]]}', "a header is not [name, value]"),
        ('{"headers": [["a", 1]]}', "header 'a' is not a string"),
        ('{"partition": true}', "partition is not a whole number"),
        ('{"partition": 2147483648}', "partition is not a whole number"),
        ('{"timestamp": 1.5}', "timestamp is not a whole number"),
    ],
)
def test_refusals(line: str, said: str) -> None:
    """What is wrong with an object is said by its field."""
    with pytest.raises(UsageError) as refused:
        from_json(line.encode(), as_base64=False)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("timestamp_ms", "shown"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_007, "2023-11-14T22:13:20.007Z"),
        (-1, "-"),
        (2**62, str(2**62)),
    ],
)
def test_time(timestamp_ms: int, shown: str) -> None:
    """Times are in UTC; none is a dash; what no calendar holds stays a number."""
    assert to_time(timestamp_ms) == shown


def test_output_is_json_for_others() -> None:
    """A lone surrogate cannot come out: bytes that are not UTF-8 are marked instead."""
    line = to_json("t", 0, Record(value=b"\xed\xa0\x80", timestamp_ms=0, offset=0), as_base64=False)
    assert json.loads(line)["value"] == {"base64": "7aCA"}
