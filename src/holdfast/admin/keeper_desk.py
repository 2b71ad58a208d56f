"""The keeper's desk over HTTP: one path for all questions."""

from http import HTTPStatus
from typing import Any

import msgspec

from holdfast.admin.http import JSON, Refused, Response
from holdfast.agent.agent import Agent
from holdfast.errors import HoldfastError


async def ask_desk(agent: Agent, asked: dict[str, Any]) -> Response:
    """`{"question": name, ...}`, and the answer that the desk gives: see `agent/desk.py`."""
    questions = agent.cluster.desk.questions
    name = asked.pop("question", None)
    if name not in questions:
        raise Refused(HTTPStatus.BAD_REQUEST, f"unknown question {name!r}: there are {', '.join(questions)}")
    try:
        # Encoded in C: a list of extents must not hold up the event loop.
        return Response(content_type=JSON, body=msgspec.json.encode(await questions[name](asked)))
    except msgspec.ValidationError as misfit:
        raise Refused(HTTPStatus.BAD_REQUEST, f"{name}: {misfit}") from None
    except HoldfastError as refusal:
        raise Refused(HTTPStatus.CONFLICT, str(refusal)) from None
