"""How a server logs: lines for people, or one JSON object to a line for machines."""

import json
import logging
import sys
from datetime import UTC, datetime
from pathlib import Path

FORMATS = ("text", "json")

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonFormatter(logging.Formatter):
    """One object: time in UTC, level, logger, message, and the traceback where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Always one line, whatever the message holds."""
        moment = datetime.fromtimestamp(record.created, UTC)
        entry = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def set_up(log_format: str) -> None:
    """Log to stderr from INFO on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else logging.Formatter(_TEXT))
    handler.addFilter(_is_worth_telling)
    logging.basicConfig(handlers=[handler], level=logging.INFO)


def _is_worth_telling(record: logging.LogRecord) -> bool:
    """Not what py4j says: every connection to the JVM, and every error that it raises as well. It uses any logger."""
    return Path(record.pathname).parent.name != "py4j"
