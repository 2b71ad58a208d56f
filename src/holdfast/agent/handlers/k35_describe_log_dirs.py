"""DescribeLogDirs (key 35), v1-4.

Behaviour: this node's home store: its directory, and the bytes of each partition that it holds. Bytes are those of the
batches that can be read. Topics null: all of them.

Versions: v2 flexible; v3 a top-level error code; v4 size of the disk and what is free (KIP-827).
"""

import shutil
from typing import Any

from kafka.protocol.admin import DescribeLogDirsRequest, DescribeLogDirsResponse

from holdfast.agent.agent import Agent
from holdfast.agent.registry import serves
from holdfast.control.plane import Topic


@serves(DescribeLogDirsRequest, first=1, last=4)
async def describe_log_dirs(agent: Agent, request: Any) -> Any:
    """One directory: the home store's."""
    version: int = request.API_VERSION
    result_class: Any = DescribeLogDirsResponse.DescribeLogDirsResult
    directory = agent.settings.data.resolve() / "stores" / str(agent.node_id)
    disk = shutil.disk_usage(directory)
    result = result_class(
        error_code=0,
        log_dir=str(directory),
        topics=[_describe(agent, topic, numbers, version) for topic, numbers in _wanted(agent, request)],
        total_bytes=disk.total,
        usable_bytes=disk.free,
        version=version,
    )
    return DescribeLogDirsResponse(throttle_time_ms=0, error_code=0, results=[result], version=version)


def _wanted(agent: Agent, request: Any) -> list[tuple[Topic, list[int]]]:
    """Topics and their partitions that lie here; what does not exist is left out, as in Kafka."""
    if request.topics is None:
        wanted = [(topic, range(len(topic.partitions))) for topic in agent.catalog.all()]
    else:
        found = [(agent.catalog.find(asked.topic), asked.partitions) for asked in request.topics]
        wanted = [(topic, numbers) for topic, numbers in found if topic is not None]
    here = [
        (
            topic,
            [
                number
                for number in numbers
                if 0 <= number < len(topic.partitions) and agent.node_id in topic.partitions[number].replicas
            ],
        )
        for topic, numbers in wanted
    ]
    return [(topic, numbers) for topic, numbers in here if numbers]


def _describe(agent: Agent, topic: Topic, numbers: list[int], version: int) -> Any:
    topic_class: Any = DescribeLogDirsResponse.DescribeLogDirsResult.DescribeLogDirsTopic
    return topic_class(
        name=topic.name,
        partitions=[
            topic_class.DescribeLogDirsPartition(
                partition_index=number,
                partition_size=agent.plane.find_size(topic.topic_id, number, agent.node_id),
                offset_lag=0,
                is_future_key=False,
                version=version,
            )
            for number in numbers
        ],
        version=version,
    )
