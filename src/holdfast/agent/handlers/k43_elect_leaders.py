"""ElectLeaders (key 43), v0-2.

Behaviour: lets the preferred replica, the first of a partition's list, lead again, if it is in sync. Topics null:
every partition that another one leads. An unclean election is refused: a store that is out of sync lacks what
was acknowledged.

Versions: v1 election type (KIP-460); v2 flexible.
"""

from typing import Any

from kafka.protocol.admin import ElectLeadersRequest, ElectLeadersResponse

from holdfast.agent.agent import Agent
from holdfast.agent.catalog import check_partition
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.registry import serves
from holdfast.agent.writes import MoveLeader
from holdfast.errors import EligibleLeadersNotAvailable, HoldfastError

UNCLEAN = 1


@serves(ElectLeadersRequest, first=0, last=2)
async def elect_leaders(agent: Agent, request: Any) -> Any:
    """One election for each partition asked for."""
    version: int = request.API_VERSION
    result_class: Any = ElectLeadersResponse.ReplicaElectionResult
    results = []
    for name, partitions in _wanted(agent, request):
        outcomes = [await _elect(agent, request, name, number) for number in partitions]
        results.append(
            result_class(
                topic=name,
                partition_result=[
                    result_class.PartitionResult(
                        partition_id=number, error_code=code, error_message=message, version=version
                    )
                    for number, (code, message) in zip(partitions, outcomes, strict=True)
                ],
                version=version,
            )
        )
    return ElectLeadersResponse(
        throttle_time_ms=0, error_code=0, replica_election_results=results, version=version
    )


def _wanted(agent: Agent, request: Any) -> list[tuple[str, list[int]]]:
    if request.topic_partitions is not None:
        return [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    strayed = [
        (topic.name, [n for n, part in enumerate(topic.partitions) if part.leader != part.replicas[0]])
        for topic in agent.catalog.all()
    ]
    return [(name, partitions) for name, partitions in strayed if partitions]


async def _elect(agent: Agent, request: Any, name: str, number: int) -> tuple[int, str | None]:
    """(error code, message) of one election."""
    try:
        topic = agent.catalog.get(name)
        partition = check_partition(topic, number)
        if request.API_VERSION >= 1 and request.election_type == UNCLEAN:
            raise EligibleLeadersNotAvailable("only replicas in sync may lead")
        await agent.commits.submit(MoveLeader(PartitionKey(topic.topic_id, number), partition.replicas[0]))
    except HoldfastError as refusal:
        return refusal.kafka_code, str(refusal)
    return 0, None
