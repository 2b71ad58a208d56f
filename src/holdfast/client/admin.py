"""Asks a running agent's admin service; finds it by the data directory or by its address."""

import http.client
import json
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import msgspec

from holdfast.errors import AdminKnowsNot, AdminRefused, ConnectionFailed, UsageError

ADDRESS_FILE = "admin.json"
ANSWER_SECONDS_MAX = 10.0
ACTION_SECONDS_MAX = 45.0
"""Longer than the service lets an action take: it knows better what became of it."""
ANSWER_BYTES_MAX = 64 * 1024 * 1024
REUSED_SECONDS_MAX = 1.0
"""A connection that was idle for longer is not used again: the service closes it soon."""

JSON = {"Content-Type": "application/json"}
KEEP = {**JSON, "Connection": "keep-alive"}


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
    with closing(http.client.HTTPConnection(address, timeout=seconds_max)) as connection:
        return _ask(address, connection, "GET", path)


def post_json(address: str, path: str, document: object) -> Any:
    """Have something done, and what became of it; raises likewise."""
    with closing(http.client.HTTPConnection(address, timeout=ACTION_SECONDS_MAX)) as connection:
        return _ask(address, connection, "POST", path, document)


class Conversation:
    """Has many things done, as `post_json`, over as few connections as may be: a new one takes longer than most."""

    def __init__(self, address: str, path: str) -> None:
        self._address = address
        self._path = path
        self._idle: list[tuple[http.client.HTTPConnection, float]] = []
        """Connections that nobody uses, and since when."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for connection, _ in self._idle:
            connection.close()

    def post(self, document: object) -> Any:
        """What became of it."""
        connection = self._take()
        try:
            answer = _ask(self._address, connection, "POST", self._path, document, KEEP)
        except BaseException:
            connection.close()  # an answer that comes yet would be taken for the next one
            raise
        self._idle.append((connection, time.monotonic()))
        return answer

    def _take(self) -> http.client.HTTPConnection:
        try:
            connection, since = self._idle.pop()
        except IndexError:
            return http.client.HTTPConnection(self._address, timeout=ACTION_SECONDS_MAX)
        if time.monotonic() - since > REUSED_SECONDS_MAX:
            connection.close()  # the next request opens it anew
        return connection


def _ask(
    address: str,
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    document: object = None,
    headers: Mapping[str, str] = JSON,
) -> Any:
    try:
        body = msgspec.json.encode(document) if method == "POST" else None
    except UnicodeEncodeError as failure:
        raise UsageError(f"{failure.object!r} is no text: a byte of it is not UTF-8") from failure
    try:
        connection.request(method, path, body, headers if body else {})
        response = connection.getresponse()
        answer = msgspec.json.decode(response.read(ANSWER_BYTES_MAX))
    except (OSError, http.client.HTTPException) as failure:
        reason = getattr(failure, "strerror", None) or failure or type(failure).__name__
        raise ConnectionFailed(
            f"no admin service answers at {address} ({reason}): is Holdfast running?"
        ) from failure
    except ValueError as failure:
        raise ConnectionFailed(f"what listens at {address} is not Holdfast's admin service") from failure
    if response.status != http.HTTPStatus.OK:
        reason = answer.get("error") if isinstance(answer, dict) else None
        kind = AdminKnowsNot if response.status == http.HTTPStatus.NOT_FOUND else AdminRefused
        raise kind(str(reason or f"the admin service at {address} answers {response.status}"))
    return answer
