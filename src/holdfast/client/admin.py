"""Asks a running agent's admin service; finds it by the data directory or by its address."""

import http.client
import json
from pathlib import Path
from typing import Any

import msgspec

from holdfast.errors import AdminKnowsNot, AdminRefused, ConnectionFailed

ADDRESS_FILE = "admin.json"
ANSWER_SECONDS_MAX = 10.0
ACTION_SECONDS_MAX = 45.0
"""Longer than the service lets an action take: it knows better what became of it."""
ANSWER_BYTES_MAX = 64 * 1024 * 1024


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


def get_json(address: str, path: str, *, seconds_max: float = ANSWER_SECONDS_MAX) -> Any:
    """The document at a path; ConnectionFailed with what to do if nobody answers, AdminRefused with the reason."""
    return _ask(address, "GET", path, None, seconds_max)


def post_json(address: str, path: str, document: object) -> Any:
    """Have something done, and what became of it; raises likewise."""
    return _ask(address, "POST", path, json.dumps(document), ACTION_SECONDS_MAX)


def _ask(address: str, method: str, path: str, body: str | None, seconds_max: float) -> Any:
    connection = http.client.HTTPConnection(address, timeout=seconds_max)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        response = connection.getresponse()
        answer = msgspec.json.decode(response.read(ANSWER_BYTES_MAX))
    except (OSError, http.client.HTTPException) as failure:
        reason = getattr(failure, "strerror", None) or failure or type(failure).__name__
        raise ConnectionFailed(
            f"no admin service answers at {address} ({reason}): is Holdfast running?"
        ) from failure
    except ValueError as failure:
        raise ConnectionFailed(f"what listens at {address} is not Holdfast's admin service") from failure
    finally:
        connection.close()
    if response.status != http.HTTPStatus.OK:
        reason = answer.get("error") if isinstance(answer, dict) else None
        kind = AdminKnowsNot if response.status == http.HTTPStatus.NOT_FOUND else AdminRefused
        raise kind(str(reason or f"the admin service at {address} answers {response.status}"))
    return answer
