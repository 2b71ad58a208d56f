"""DescribeCluster (key 60), v0-2.

Behaviour: the nodes of this cluster. Controllers cannot be asked: there are none apart from the nodes.

Versions: v1 endpoint type (KIP-919); v2 fenced nodes (KIP-1073): one whose store is out of sync.
"""

from typing import Any

from kafka.protocol.admin import DescribeClusterRequest, DescribeClusterResponse

from holdfast.agent.agent import Agent
from holdfast.agent.registry import serves

BROKERS = 1
MISMATCHED_ENDPOINT_TYPE = 114


@serves(DescribeClusterRequest, first=0, last=2)
async def describe_cluster(agent: Agent, request: Any) -> Any:
    """All nodes, or those that can be written to."""
    version: int = request.API_VERSION
    asks_brokers = version < 1 or request.endpoint_type == BROKERS
    fenced = {peer.node_id for peer in agent.peers} - agent.catalog.in_sync
    shows_fenced = version < 2 or request.include_fenced_brokers
    brokers = [
        DescribeClusterResponse.DescribeClusterBroker(
            broker_id=peer.node_id,
            host=peer.host,
            port=peer.port,
            rack=None,
            is_fenced=peer.node_id in fenced,
            version=version,
        )
        for peer in agent.peers
        if asks_brokers and (shows_fenced or peer.node_id not in fenced)
    ]
    return DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=0 if asks_brokers else MISMATCHED_ENDPOINT_TYPE,
        error_message=None if asks_brokers else "brokers listen here, not controllers",
        endpoint_type=BROKERS,
        cluster_id=str(agent.cluster_id),
        controller_id=agent.peers[0].node_id,
        brokers=brokers,
        version=version,
    )
