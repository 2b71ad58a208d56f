"""Logs as JSON."""

import json
import logging
import sys

from holdfast.cli.logs import JsonFormatter


def test_one_line_for_everything() -> None:
    """A message with line ends and a traceback is one line of JSON that holds both."""
    try:
        raise ValueError("a\nb")
    except ValueError:
        record = logging.LogRecord(
            "holdfast.x", logging.ERROR, "x.py", 1, "failed: %s", ("c\nd",), sys.exc_info()
        )
    record.created = 1_700_000_000.25
    line = JsonFormatter().format(record)
    assert "\n" not in line
    entry = json.loads(line)
    assert entry.pop("traceback").endswith("ValueError: a\nb")
    assert entry == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "error",
        "logger": "holdfast.x",
        "message": "failed: c\nd",
    }
