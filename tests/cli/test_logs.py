"""Logs: as JSON, and what is not told."""

import json
import logging
import sys

import pytest
from py4j import java_gateway

from holdfast.cli.logs import JsonFormatter, set_up


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


def test_what_py4j_says_is_not_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It logs, with a traceback and in part as the root logger, what it raises as well."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    set_up("text")
    for name in ("root", "py4j.clientserver"):
        said = logging.LogRecord(name, logging.ERROR, java_gateway.__file__, 1, "failed", (), None)
        logging.getLogger(name).handle(said)
    logging.getLogger("holdfast.x").error("ours")
    told = capsys.readouterr().err
    assert "ours" in told
    assert told.count("\n") == 1
