"""Values of messages, sound and not, in which an id is looked for at `$.id`."""

from typing import Final

from hypothesis import strategies as st

NO_JSON: Final = [
    b"not JSON",
    b"\xff",
    b"{'id': 'x'}",
    b"{\"id\": 'x'}",
    b'{id: "x"}',
    b'{"id": "x"} trailing',
    b'{"id": "x"}{"id": "y"}',
    b'{"id": "x"',
    b'{"id": "x",}',
    b'{"id": "x" /* note */}',
    b'{"id": 01}',
    b'{"id": +1}',
    b'{"id": "x", "n": NaN}',
    b'{"id": "x", "n": -Infinity}',
    b'{"id": "\\x41"}',
    b'{"id": "a\nb"}',
    b'{"id": "\xc3"}',
    b'\xef\xbb\xbf{"id": "x"}',
    '{"id": "x"}'.encode("utf-16"),
    '{"id": "x"}'.encode("utf-16-le"),
    b"\x00",
    b" ",
]
"""Some library takes each of these for JSON, or takes something out of it."""

NO_TEXT: Final = [
    b'{"id": 1.5}',
    b'{"id": 1.0}',
    b'{"id": 1e3}',
    b'{"id": 1e999}',
    b'{"id": true}',
    b'{"id": false}',
    b'{"id": {"a": 1}}',
    b'{"id": [1]}',
    b'{"id": []}',
    b'{"id": "\\ud800"}',
    b'{"id": "\\udc00\\ud800"}',
]
"""JSON, but no string of Unicode and no integer."""

SOUND: Final = [
    b'{"id": "x"}',
    b'{"id": 7}',
    b'{"id": -0}',
    b'{"id": "a", "id": "b"}',
    b'{"id": {"id": "a"}, "id": "b"}',
    b'{"id": null}',
    b'{"id": ""}',
    b'{"id": " "}',
    b'{"id": "a\\u0000b"}',
    b'{"\\u0069d": "escaped"}',
    b'{"ID": "x"}',
    b'{"id": 12345678901234567890123456789}',
    b'{"id": "0000-01-01T00:00:00Z"}',
    b'{"id": "0001-01-01T00:00:00+18:00"}',
    b'{"id": "2026-02-01T00:00:00+18:01"}',
    b'{"id": "2026-02-01T00:00:00+17:75"}',
    b'{"id": "9999-12-31T23:59:59.999999999-18:00"}',
    b'{"id": "2026-02-01T24:00:00Z"}',
    b'{"id": "2026-02-30T00:00:00Z"}',
    '{"id": "\u0661\u0662"}'.encode(),
    '{"id": "2026-02-0\u0661T00:00:00Z"}'.encode(),
    b'{"id": 1769860800000}',
    b'{"id": "1769860800000\\n"}',
    b'{"id": -5}',
    b'{"id": "a\\u001fb"}',
    b"[]",
    b"7",
    b"",
]

NAMES: Final = st.sampled_from(["id", "ID", "time", "lines"])
SCALARS: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=6),
)
DOCUMENTS: Final = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)
