"""A Kafka cluster as a client sees it: its brokers, its topics and who leads what."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from types import TracebackType
from typing import Any, Final, Self
from uuid import UUID

from kafka.protocol.metadata import MetadataRequest

from holdfast.client.connection import Connection
from holdfast.client.endpoint import Endpoint
from holdfast.client.retry import PAUSE_S_FIRST, Patience, refusal
from holdfast.errors import ConnectionFailed, TransientRefusal, UnknownTopicOrPartition, UsageError

METADATA_VERSIONS: Final = (4, 12)
"""From 4 on a request can say that asking for a topic must not create it."""

NO_NODE: Final = -1

_HOST = re.compile(r"[^\s/@]+")
_PORT = re.compile(r"[0-9]{1,5}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition's place in the cluster; `leader` is -1 while nobody leads it."""

    index: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    leader_epoch: int = -1
    """Rises with every change of the leader; -1 where the broker is too old to tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic and its partitions by number."""

    name: str
    partitions: Mapping[int, Partition]
    topic_id: UUID | None = None
    """None where the broker is too old to tell (KIP-516)."""
    is_internal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """One answer to Metadata: brokers by node id, and the topics that exist of those asked for."""

    brokers: Mapping[int, Address]
    topics: Mapping[str, Topic]
    controller: int = NO_NODE
    cluster_id: str | None = None


def parse_bootstrap(bootstrap: str) -> tuple[Address, ...]:
    """Reads `host:port,host:port`; an IPv6 host stands in brackets."""
    addresses = []
    for part in filter(None, (part.strip() for part in bootstrap.split(","))):
        host, colon, port = part.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not (_HOST.fullmatch(host) and colon and _PORT.fullmatch(port) and 0 < int(port) < 65536):
            raise UsageError(f"{part!r} is not an address of the form host:port")
        addresses.append(Address(host=host, port=int(port)))
    if not addresses:
        raise UsageError("no bootstrap address is given; write host:port, or several with commas between")
    return tuple(addresses)


class Cluster:
    """Connections to the brokers of one cluster, opened when first needed; not for several threads.

    `patience_s` bounds how long a request is tried again while leadership moves or brokers restart. Who is told nothing
    but addresses connects without security.
    """

    def __init__(
        self,
        endpoint: Endpoint | str,
        *,
        client_id: str = "holdfast",
        timeout: float = 30.0,
        patience_s: float = 30.0,
    ) -> None:
        found = Endpoint(endpoint) if isinstance(endpoint, str) else endpoint
        self._bootstrap = parse_bootstrap(found.bootstrap)
        self._security = found.security
        self._client_id = client_id
        self._timeout = timeout
        self._patience_s = patience_s
        self._connections: dict[Address, Connection] = {}
        self._metadata = Metadata(brokers={}, topics={})
        self.coordinators: dict[tuple[int, str], Connection] = {}
        """By kind and key, those that `ask_coordinator` has found."""

    def metadata(self, topics: Iterable[str] | None = None) -> Metadata:
        """Asks anew, for all topics unless some are named; never creates a topic."""
        wanted = (
            None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        )
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        self._metadata = _read_metadata(self.any_broker().send(request, versions=METADATA_VERSIONS))
        return self._metadata

    def metadata_of(self, node_id: int) -> Metadata:
        """What one broker knows of all topics: one that is cut off from the controller knows how things were."""
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        return _read_metadata(self.broker(node_id).send(request, versions=METADATA_VERSIONS))

    def topic(self, name: str) -> Topic:
        """The topic as it stands now, or UnknownTopicOrPartition."""
        topic = self.metadata([name]).topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"there is no topic {name!r} at {self.bootstrap}")
        return topic

    def leader_of(self, topic: str, partition: int) -> int:
        """The node id of the partition's leader, from the last metadata if that named one."""
        known = self._metadata.topics.get(topic) or self.topic(topic)
        found = known.partitions.get(partition)
        if found is None:
            raise UnknownTopicOrPartition(f"topic {topic!r} has no partition {partition}")
        if found.leader == NO_NODE:
            self.forget_leaders()
            raise TransientRefusal(f"partition {topic}-{partition} has no leader at present")
        return found.leader

    def forget_leaders(self) -> None:
        """Leadership has moved: the next question asks for metadata first."""
        self._metadata = Metadata(brokers=self._metadata.brokers, topics={})

    def broker(self, node_id: int) -> Connection:
        """The connection to one broker, whichever replica is to be read."""
        address = self._metadata.brokers.get(node_id) or self.metadata([]).brokers.get(node_id)
        if address is None:
            raise ConnectionFailed(f"the cluster at {self.bootstrap} has no node {node_id} at present")
        return self._connect(address)

    def disconnect(self, node_id: int) -> None:
        """Closes the connection to one broker; one that hangs would keep the next question waiting."""
        address = self._metadata.brokers.get(node_id)
        if address in self._connections:
            self._connections.pop(address).close()

    def any_broker(self) -> Connection:
        """A broker that is already connected, else the first that answers."""
        for connection in self._connections.values():
            if not connection.is_over():
                return connection
        failures = []
        for address in dict.fromkeys([*self._bootstrap, *self._metadata.brokers.values()]):
            try:
                return self._connect(address)
            except ConnectionFailed as failure:
                failures.append(failure)
        if len(failures) == 1:
            raise failures[0]
        raise ConnectionFailed(f"no broker of {self.bootstrap} answers: " + "; ".join(map(str, failures)))

    def controller(self) -> Connection:
        """Who changes topics and configs: under ZooKeeper one broker alone, with KRaft any of them."""
        node = self.metadata([]).controller
        return self.any_broker() if node == NO_NODE else self.broker(node)

    def patience(self, *, pause_s_first: float = PAUSE_S_FIRST) -> Patience:
        """A fresh budget for one question."""
        return Patience(self._patience_s, pause_s_first=pause_s_first)

    @property
    def bootstrap(self) -> str:
        """The bootstrap addresses, as one would write them."""
        return ",".join(map(str, self._bootstrap))

    def close(self) -> None:
        """Closes every connection."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self.coordinators.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connect(self, address: Address) -> Connection:
        connection = self._connections.get(address)
        if connection is None or connection.is_over():
            connection = Connection(
                address.host,
                address.port,
                client_id=self._client_id,
                timeout=self._timeout,
                security=self._security,
            )
            self._connections[address] = connection
        return connection


def _read_metadata(answer: Any) -> Metadata:
    topics = {}
    for found in answer.topics:
        if found.error_code == UnknownTopicOrPartition.kafka_code:
            continue
        if found.error_code:
            raise refusal(found.error_code, f"topic {found.name!r}")
        topics[found.name] = Topic(
            name=found.name,
            topic_id=found.topic_id if found.topic_id and found.topic_id.int else None,
            is_internal=bool(found.is_internal),
            partitions={
                each.partition_index: Partition(
                    index=each.partition_index,
                    leader=each.leader_id,
                    replicas=tuple(each.replica_nodes),
                    in_sync=tuple(each.isr_nodes),
                    leader_epoch=each.leader_epoch,
                )
                for each in sorted(found.partitions, key=attrgetter("partition_index"))
            },
        )
    brokers = {each.node_id: Address(host=each.host, port=each.port) for each in answer.brokers}
    return Metadata(
        brokers=brokers,
        topics=topics,
        controller=answer.controller_id,
        cluster_id=answer.cluster_id,
    )
