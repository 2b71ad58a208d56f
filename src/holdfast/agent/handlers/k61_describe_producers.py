"""DescribeProducers (key 61), v0.

Behaviour: the idempotent producers that a partition remembers, answered by every node that holds it in sync, as
Kafka's followers do. The time of the last batch is known where the broker set it; the offset at which an open
transaction begins here, if there is one. There is no coordinator epoch: nothing is written by a coordinator.
"""

from typing import Any

from kafka.protocol.admin import DescribeProducersRequest, DescribeProducersResponse

from holdfast.agent.agent import Agent
from holdfast.agent.registry import serves
from holdfast.errors import HoldfastError

NO_TRANSACTION = -1


@serves(DescribeProducersRequest, first=0, last=0)
async def describe_producers(agent: Agent, request: Any) -> Any:
    """Producers by partition."""
    topics = [
        DescribeProducersResponse.TopicResponse(
            name=topic.name,
            partitions=[_describe(agent, topic.name, number) for number in topic.partition_indexes],
            version=0,
        )
        for topic in request.topics
    ]
    return DescribeProducersResponse(throttle_time_ms=0, topics=topics, version=0)


def _describe(agent: Agent, name: str, number: int) -> Any:
    part_class: Any = DescribeProducersResponse.TopicResponse.PartitionResponse
    code, message, producers = 0, None, []
    try:
        topic = agent.catalog.get(name)
        agent.check_holds(topic, number)
        open_instances = agent.plane.find_open_instances(topic.topic_id, number)
        producers = [
            part_class.ProducerState(
                producer_id=producer_id,
                producer_epoch=state.epoch,
                last_sequence=state.last_sequence,
                last_timestamp=state.window[-1].timestamp_ms if state.window else -1,
                coordinator_epoch=-1,
                current_txn_start_offset=(
                    open_instances[producer_id].first_offset
                    if producer_id in open_instances
                    else NO_TRANSACTION
                ),
                version=0,
            )
            for producer_id, state in sorted(agent.plane.find_producers(topic.topic_id, number).items())
        ]
    except HoldfastError as refusal:
        code, message = refusal.kafka_code, str(refusal)
    return part_class(
        partition_index=number, error_code=code, error_message=message, active_producers=producers, version=0
    )
