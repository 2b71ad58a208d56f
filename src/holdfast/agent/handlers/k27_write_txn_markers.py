"""WriteTxnMarkers (key 27), v1-2.

Behaviour: what Kafka's coordinator tells its leaders, and an admin client to abort a hanging transaction. Here it is
an abort by hand, of the whole transaction and not of one partition alone: an outcome has no parts. Its producer
is fenced. A marker for a producer that has nothing open in the partition changes nothing; one that commits is
INVALID_REQUEST, because only its producer may commit a transaction.

Versions: v1 flexible; v2 transaction version (KIP-1228), which does not matter here.
"""

import asyncio
from typing import Any

from kafka.protocol.producer import WriteTxnMarkersRequest, WriteTxnMarkersResponse

from holdfast.agent.agent import Agent
from holdfast.agent.registry import serves
from holdfast.errors import HoldfastError, InvalidProducerEpoch, InvalidRequest, InvalidTxnState

_Marker: Any = WriteTxnMarkersResponse.WritableTxnMarkerResult
_Topic = _Marker.WritableTxnMarkerTopicResult
_Partition = _Topic.WritableTxnMarkerPartitionResult


@serves(WriteTxnMarkersRequest, first=1, last=2)
async def write_txn_markers(agent: Agent, request: Any) -> Any:
    """Abort each transaction that is named."""
    version: int = request.API_VERSION
    markers = []
    for marker in request.markers:
        topics = []
        for topic in marker.topics:
            results = [
                _Partition(
                    partition_index=partition,
                    error_code=await _mark(agent, marker, topic.name, partition),
                    version=version,
                )
                for partition in topic.partition_indexes
            ]
            topics.append(_Topic(name=topic.name, partitions=results, version=version))
        markers.append(_Marker(producer_id=marker.producer_id, topics=topics, version=version))
    return WriteTxnMarkersResponse(markers=markers, version=version)


async def _mark(agent: Agent, marker: Any, name: str, partition: int) -> int:
    try:
        topic = agent.catalog.get(name)
        agent.check_leads(topic, partition)
        if marker.transaction_result:
            raise InvalidRequest("a transaction is committed by its producer, by EndTxn")
        open_here = agent.plane.find_open_instances(topic.topic_id, partition)
        if marker.producer_id in open_here:
            await _abort(agent, marker.producer_id, marker.producer_epoch)
    except HoldfastError as refusal:
        return refusal.kafka_code
    return 0


async def _abort(agent: Agent, producer_id: int, epoch: int) -> None:
    # In a thread: there may be very many, and everybody would wait.
    for name, state in (await asyncio.to_thread(agent.plane.list_transactional_ids)).items():
        if state.producer_id == producer_id:
            if epoch < state.epoch:
                raise InvalidProducerEpoch(f"epoch {epoch} is over: it is {state.epoch} by now")
            await agent.transactions.abort(name)
            return
    raise InvalidTxnState(f"producer {producer_id} has no transactional id any more")
