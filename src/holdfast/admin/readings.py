"""Readings over HTTP: for whoever reads the stores' files itself."""

import asyncio
from http import HTTPStatus
from typing import Any

import msgspec

from holdfast.admin.http import JSON, Refused, Response, json_response
from holdfast.agent.agent import Agent
from holdfast.client.readings import ReadingNamed, ReadingWanted, convert
from holdfast.errors import HoldfastError, UnknownTopicOrPartition


async def care_for_readings(agent: Agent, wanted: dict[str, Any]) -> Response:
    """`{"action": "take" | "renew" | "release", ...}`: see `client/readings.py`."""
    action = wanted.pop("action", None)
    try:
        return await asyncio.to_thread(_act, agent, action, wanted)
    except msgspec.ValidationError as misfit:
        raise Refused(HTTPStatus.BAD_REQUEST, f"{action}: {misfit}") from None
    except UnknownTopicOrPartition as refusal:
        raise Refused(HTTPStatus.NOT_FOUND, f"{refusal}: see `holdfast topic list`") from None
    except HoldfastError as refusal:
        raise Refused(HTTPStatus.CONFLICT, str(refusal)) from None


def _act(agent: Agent, action: object, wanted: dict[str, Any]) -> Response:
    readings = agent.cluster.readings
    if action == "take":
        # Encoded here, too: it may have megabytes, and the event loop has others to serve.
        taken = msgspec.json.encode(readings.take(convert(wanted, ReadingWanted)))
        return Response(content_type=JSON, body=taken)
    if action == "renew":
        readings.renew(convert(wanted, ReadingNamed))
    elif action == "release":
        readings.release(convert(wanted, ReadingNamed))
    else:
        raise Refused(HTTPStatus.BAD_REQUEST, "action is one of take, renew, release")
    return json_response({})
