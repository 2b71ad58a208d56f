"""The keeper's desk over HTTP: one path for all questions."""

from http import HTTPStatus
from typing import Any

import msgspec

from holdfast.admin.http import Refused, Response, json_response
from holdfast.agent.agent import Agent
from holdfast.errors import HoldfastError
from holdfast.keeper import messages


async def ask_desk(agent: Agent, asked: dict[str, Any]) -> Response:
    """`{"question": name, ...}`, and the answer that the desk gives: see `agent/desk.py`."""
    questions = agent.cluster.desk.questions
    name = asked.pop("question", None)
    if name not in questions:
        raise Refused(HTTPStatus.BAD_REQUEST, f"unknown question {name!r}: there are {', '.join(questions)}")
    try:
        return json_response(messages.plain(await questions[name](asked)))
    except msgspec.ValidationError as misfit:
        raise Refused(HTTPStatus.BAD_REQUEST, f"{name}: {misfit}") from None
    except HoldfastError as refusal:
        raise Refused(HTTPStatus.CONFLICT, str(refusal)) from None
