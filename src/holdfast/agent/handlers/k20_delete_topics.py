"""DeleteTopics (key 20), v1-6.

Behaviour: a topic goes durably and at once, with its records, producers and group offsets. One of the same name
that is created later is another topic. What was in flight to the deleted one is refused.

Versions: v4 flexible; v5 messages; v6 names topics by name or by id (KIP-516).
"""

from typing import Any, NamedTuple
from uuid import UUID

from kafka.protocol.admin import DeleteTopicsRequest, DeleteTopicsResponse

from holdfast.agent.agent import Agent
from holdfast.agent.registry import serves
from holdfast.agent.writes import DeleteTopic
from holdfast.control.plane import Topic
from holdfast.errors import HoldfastError, InvalidRequest

TOPIC_IDS_SINCE = 6
NO_TOPIC_ID = UUID(int=0)


class Wanted(NamedTuple):
    """A topic as the request names it."""

    name: str | None
    topic_id: UUID


@serves(DeleteTopicsRequest, first=1, last=6)
async def delete_topics(agent: Agent, request: Any) -> Any:
    """Delete the topics one after the other."""
    version: int = request.API_VERSION
    if version >= TOPIC_IDS_SINCE:
        wanted = [Wanted(topic.name, topic.topic_id or NO_TOPIC_ID) for topic in request.topics]
    else:
        wanted = [Wanted(name, NO_TOPIC_ID) for name in request.topic_names]
    responses = [await _delete(agent, each, wanted, version) for each in _once(agent, wanted)]
    return DeleteTopicsResponse(throttle_time_ms=0, responses=responses, version=version)


async def _delete(agent: Agent, each: Wanted, wanted: list[Wanted], version: int) -> Any:
    code, message, named = 0, None, each
    try:
        _check(each)
        if wanted.count(each) > 1:
            raise InvalidRequest("the topic is named twice")
        topic = _find(agent, each)
        named = Wanted(topic.name, topic.topic_id)
        if each.name is not None and Wanted(None, topic.topic_id) in wanted:
            raise InvalidRequest("the topic is named twice, by its name and by its id")
        await agent.commits.submit(DeleteTopic(topic.topic_id))
    except HoldfastError as refusal:
        code, message = refusal.kafka_code, str(refusal)
    return DeleteTopicsResponse.DeletableTopicResult(
        name=named.name, topic_id=named.topic_id, error_code=code, error_message=message, version=version
    )


def _once(agent: Agent, wanted: list[Wanted]) -> list[Wanted]:
    """Each topic once, however often it is named; by name, if it is named both ways."""
    named = {each.name for each in wanted}
    return [
        each
        for each in dict.fromkeys(wanted)
        if each.name is not None
        or (topic := agent.catalog.find_id(each.topic_id)) is None
        or topic.name not in named
    ]


def _check(wanted: Wanted) -> None:
    if wanted.name is not None and wanted.topic_id != NO_TOPIC_ID:
        raise InvalidRequest("either a name or an id, not both")
    if wanted.name is None and wanted.topic_id == NO_TOPIC_ID:
        raise InvalidRequest("a topic without a name and without an id")


def _find(agent: Agent, wanted: Wanted) -> Topic:
    return agent.catalog.get(wanted.topic_id if wanted.name is None else wanted.name)
