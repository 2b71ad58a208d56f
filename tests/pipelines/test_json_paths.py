"""What stands at a path in JSON: a string or an integer of a sound document, and nothing of any other."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.pipelines.json_paths import NESTING_MAX, find_in_json
from tests.pipelines.values import DOCUMENTS, NO_JSON, NO_TEXT


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("$.id", b'{"id": "x"}', "x"),
        ("$.id", b' \t\r\n{"id": 12}\n', "12"),
        ("$.id", b'{"id": -0}', "0"),
        ("$.id", b'{"id": 123456789012345678901234567890}', "123456789012345678901234567890"),
        ("$.id", b'{"id": "\\ud83d\\ude00"}', "\U0001f600"),
        ("$.id", b'{"id": "a", "id": "b"}', "b"),
        ("$.id", b'{"id": "a", "id": {}}', None),
        ("$.lines[1].id", b'{"lines": [{}, {"id": "y"}]}', "y"),
        ("$.lines[2].id", b'{"lines": [{}, {"id": "y"}]}', ""),
        ("$.id[0]", b'{"id": "abc"}', ""),
        ("$.id[0]", b'{"id": {"0": "x"}}', ""),
        ("$.id", b'{"id": null}', ""),
        ("$.id", b'{"id": ""}', ""),
        ("$.id", b'"id"', ""),
        ("$.id", b"[]", ""),
        ("$.id", b"", ""),
        ("$.id", None, ""),
    ],
)
def test_found(path: str, value: bytes | None, found: str | None) -> None:
    """Empty where a sound document has nothing there."""
    assert find_in_json(value, path) == found


@pytest.mark.parametrize("value", [*NO_JSON, *NO_TEXT])
def test_unreadable(value: bytes) -> None:
    """No JSON by RFC 8259, and what is neither a string nor an integer."""
    assert find_in_json(value, "$.id") is None


@pytest.mark.parametrize(("levels", "found"), [(NESTING_MAX - 1, "x"), (NESTING_MAX, None), (100_000, None)])
def test_a_document_has_so_many_levels_at_most(levels: int, found: str | None) -> None:
    """Brackets in strings are none, and those that stand beside each other do not add up."""
    text, flat = '[{\\"' * 300, "[]," * 300
    value = f'{{"id": "x", "deep": {"[" * levels}{"]" * levels}, "text": "{text}", "flat": [{flat}{{}}]}}'
    assert find_in_json(value.encode(), "$.id") == found


@given(document=DOCUMENTS, is_ascii=st.booleans())
def test_a_sound_document_says_what_it_was_made_of(document: object, is_ascii: bool) -> None:
    """However it is written."""
    found = find_in_json(json.dumps({"id": document}, ensure_ascii=is_ascii).encode(), "$.id")
    if document is None:
        assert found == ""
    elif isinstance(document, str) or type(document) is int:
        assert found == str(document)
    else:
        assert found is None
