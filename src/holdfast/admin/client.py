"""Asks a running agent's admin service; finds it by the data directory or by its address."""

import http.client
import json
from pathlib import Path
from typing import Any

from holdfast.errors import ConnectionFailed

ADDRESS_FILE = "admin.json"
ANSWER_SECONDS_MAX = 10.0
ANSWER_BYTES_MAX = 16 * 1024 * 1024


def find_address(data: Path) -> str:
    """Where the agent on this data directory has its admin service."""
    file = data / ADDRESS_FILE
    try:
        address = json.loads(file.read_text())["address"]
    except FileNotFoundError:
        raise ConnectionFailed(
            f"no Holdfast is running on {data}: start it with `holdfast up --data {data}`, "
            "or name another directory with --data"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as failure:
        raise ConnectionFailed(f"{file} is not readable: {failure}") from failure
    return str(address)


def get_json(address: str, path: str) -> Any:
    """The document at a path; ConnectionFailed with what to do if there is none."""
    connection = http.client.HTTPConnection(address, timeout=ANSWER_SECONDS_MAX)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read(ANSWER_BYTES_MAX)
        if response.status != http.HTTPStatus.OK:
            raise ConnectionFailed(
                f"the admin service at {address} answers {response.status}: {body[:200]!r}"
            )
        return json.loads(body)
    except (OSError, http.client.HTTPException) as failure:
        reason = getattr(failure, "strerror", None) or failure or type(failure).__name__
        raise ConnectionFailed(
            f"no admin service answers at {address} ({reason}): is Holdfast running?"
        ) from failure
    except ValueError as failure:
        raise ConnectionFailed(f"what listens at {address} is not Holdfast's admin service") from failure
    finally:
        connection.close()
