"""Who waits for whom, over HTTP."""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus

from holdfast.admin.http import Refused, Response, json_response
from holdfast.agent.agent import Agent
from holdfast.agent.replica_standing import Coordination
from holdfast.errors import UnknownTopicOrPartition
from holdfast.keeper import messages

PARTITIONS_MAX = 500
"""As many one answer holds; it says how many it leaves out."""


async def describe_compaction(agent: Agent, query: Mapping[str, str]) -> Response:
    """All partitions of `?topic=NAME`, or those of all topics for which coordination matters."""
    try:
        found = await asyncio.to_thread(agent.cluster.coordination.read, query.get("topic"), PARTITIONS_MAX)
    except UnknownTopicOrPartition as refusal:
        raise Refused(HTTPStatus.NOT_FOUND, f"{refusal}: see `holdfast topic list`") from None
    return json_response(_document(found))


def _document(found: Coordination) -> dict[str, object]:
    return {
        "stores": messages.plain(found.stores),
        "partitions": [
            {
                **messages.plain(each),
                "waiting_bytes": {track.value: count for track, count in each.waiting_bytes.items()},
            }
            for each in found.partitions
        ],
        "omitted": found.omitted,
    }
