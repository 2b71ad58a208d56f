"""Holdfast and Apache Kafka side by side: the same request to both, and their answers compared."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kafka.protocol.data_container import DataContainer

from holdfast.records.walk import whole_bytes
from tests.agent import raw, requests

READY_SECONDS_MAX = 30.0
NONE_ID = UUID(int=0)
UNKNOWN_ID = UUID(int=12345)

# What may differ: addresses, ids and times are each broker's own, messages are in its own words.
OF_ITS_OWN = {"throttle_time_ms", "host", "port", "cluster_id", "error_message", "batch_index_error_message"}
PRESENT_OR_NOT = {"topic_id", "producer_id", "log_append_time_ms"}


@dataclass
class Peer:
    """One of the two: its port, and the ids that it gave to topics and producers."""

    name: str
    port: int
    topic_ids: dict[str, UUID] = field(default_factory=dict)
    producer_ids: dict[str, int] = field(default_factory=dict)

    def topic(self, name: str, *, by_id: bool) -> str | UUID:
        """The topic as a version names it; an id that nobody gave for an unknown one."""
        return self.topic_ids.get(name, UNKNOWN_ID) if by_id else name

    def ask(self, message: Any) -> Any:
        """The answer as plain data, or how the connection ended instead."""
        with raw.RawClient(self.port) as client:
            client.send(message)
            try:
                frame = client.receive_frame()
            except ConnectionError:
                return "connection closed"
        return fields_of(
            raw.RESPONSES[message.API_KEY].decode(frame, version=message.API_VERSION, header=True)
        )


Make = Callable[..., Any]
"""Makes a request for a peer."""


class Peers:
    """Asks both and compares."""

    def __init__(self, *, holdfast: int, kafka: int) -> None:
        self.holdfast = Peer("holdfast", holdfast)
        self.kafka = Peer("kafka", kafka)
        self._spoken = [self._versions(peer) for peer in (self.holdfast, self.kafka)]

    def versions(self, request_class: Any) -> range:
        """Every version that both brokers and kafka-python speak."""
        key: int = request_class.API_KEY
        first = max(3 if key == 0 else 0, *(spoken[key][0] for spoken in self._spoken))
        last = min(request_class.max_version, *(spoken[key][1] for spoken in self._spoken))
        return range(first, last + 1)

    def create(self, name: str, *, partitions: int = 1, **configs: str) -> str:
        """A topic on both, ready for use."""
        for peer in (self.holdfast, self.kafka):
            named = {key.replace("_", "."): value for key, value in configs.items()}
            peer.ask(requests.create_topic(name, partitions=partitions, configs=named))
            topic = self._await(peer, requests.metadata(name, version=12, create=False), _leaders_are_known)
            peer.topic_ids[name] = topic["topics"][0]["topic_id"]
            wanted = requests.list_offsets(name, dict.fromkeys(range(partitions), -1))
            self._await(peer, wanted, lambda answer: not _codes(answer))
        return name

    def init_producer(self, name: str) -> None:
        """An idempotent producer on both, known by `name`; Kafka's broker has no ids to give at first."""
        for peer in (self.holdfast, self.kafka):
            init = raw.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1, version=1)
            peer.producer_ids[name] = self._await(peer, init, lambda answer: not _codes(answer))[
                "producer_id"
            ]

    def await_group(self, group: str) -> None:
        """Return when both coordinators serve the group."""
        for peer in (self.holdfast, self.kafka):
            find = raw.FindCoordinatorRequest(key=group, key_type=0, version=2)
            self._await(peer, find, lambda answer: not _codes(answer))
            self._await(peer, requests.fetch_offset(group, "none", version=5), lambda a: not _codes(a))

    def await_partitions(self, peer: Peer, name: str, count: int) -> None:
        """Return when all of the topic's partitions have leaders."""
        wanted = requests.metadata(name, version=12, create=False)
        self._await(
            peer,
            wanted,
            lambda answer: _leaders_are_known(answer) and len(answer["topics"][0]["partitions"]) == count,
        )

    def await_code(self, make: Make, code: int) -> None:
        """Return when both answer what `make(peer)` says with this error code, and no other."""
        for peer in (self.holdfast, self.kafka):
            self._await(peer, make(peer), lambda answer: _codes(answer) == [code])

    def differences(self, make: Make, *arguments: Any, ignoring: str = "") -> list[str]:
        """Ask both what `make(peer, *arguments)` says, and name each field in which they differ."""
        answers = (peer.ask(make(peer, *arguments)) for peer in (self.holdfast, self.kafka))
        ours, theirs = (plain("", answer, ignoring) for answer in answers)
        return list(_differences("", ours, theirs))

    def agree(self, make: Make, *arguments: Any, ignoring: str = "") -> None:
        """Assert that both give the same answer; fields called `ignoring` are passed over."""
        found = self.differences(make, *arguments, ignoring=ignoring)
        assert not found, "\n".join(found)

    def come_to_agree(self, make: Make, *arguments: Any) -> None:
        """Assert that both give the same answer in the end: Kafka's brokers follow its controller a little later."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        while found := self.differences(make, *arguments):
            assert time.monotonic() < deadline, "\n".join(found)
            time.sleep(0.05)

    def agree_in_all_versions(self, request_class: Any, make: Make, *arguments: Any) -> None:
        """Assert that both answer `make(peer, version, *arguments)` alike in each version that all speak."""
        found: dict[str, list[int]] = {}
        for version in self.versions(request_class):
            for difference in self.differences(make, version, *arguments):
                found.setdefault(difference, []).append(version)
        assert not found, "\n".join(f"{difference} in {versions}" for difference, versions in found.items())

    def _await(self, peer: Peer, message: Any, is_ready: Callable[[Any], bool]) -> Any:
        deadline = time.monotonic() + READY_SECONDS_MAX
        while True:
            answer = peer.ask(message)
            if is_ready(answer):
                return answer
            assert time.monotonic() < deadline, f"{peer.name} is not ready: {answer}"
            time.sleep(0.05)

    def _versions(self, peer: Peer) -> dict[int, tuple[int, int]]:
        answer = peer.ask(raw.ApiVersionsRequest(version=0))
        return {api["api_key"]: (api["min_version"], api["max_version"]) for api in answer["api_keys"]}


def fields_of(message: Any) -> Any:
    """A message as plain data, bytes and ids as they are."""
    if isinstance(message, DataContainer):
        return {name: fields_of(getattr(message, name)) for name in message.to_dict()}
    return [fields_of(each) for each in message] if isinstance(message, list) else message


def plain(name: str, value: Any, ignoring: str) -> Any:
    """A field's value without what is each broker's own, in a settled order."""
    if isinstance(value, dict):
        kept = value.keys() - OF_ITS_OWN - {ignoring}
        if value.get("error_code"):
            # Whether these come with a refusal depends on which part of Kafka refused.
            kept -= {"log_start_offset", "aborted_transactions"}
        return {key: plain(key, each, ignoring) for key, each in value.items() if key in kept}
    if isinstance(value, list):
        return sorted((plain(name, each, ignoring) for each in value), key=_place)
    if name in PRESENT_OR_NOT:
        return "none" if value in (None, -1, NONE_ID) else "given"
    if name == "records" and value is not None:
        # Kafka cuts the last batch off where the limit is; clients throw that piece away.
        return bytes(value[: whole_bytes(value)])
    return value


def _place(element: Any) -> tuple[str, int]:
    """Topics by name, partitions by number: Kafka answers in the order of its hash maps."""
    if not isinstance(element, dict):
        return ("", 0)
    number: int = element["partition_index"] if "partition_index" in element else element.get("index", 0)
    return (str(element.get("name") or element.get("resource_name")), number)


def _differences(path: str, ours: Any, theirs: Any) -> Iterator[str]:
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        for name, value in ours.items():
            yield from _differences(f"{path}.{name}", value, theirs[name])
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, value in enumerate(ours):
            yield from _differences(f"{path}[{index}]", value, theirs[index])
    elif ours != theirs:
        yield f"{path}: we say {ours!r}, Kafka {theirs!r}"


def _leaders_are_known(answer: Any) -> bool:
    partitions = [part for topic in answer["topics"] for part in topic["partitions"]]
    return bool(partitions) and not _codes(answer)


def _codes(answer: Any) -> list[int]:
    """Every error code in an answer that is not 0."""
    if isinstance(answer, dict):
        own = [answer["error_code"]] if answer.get("error_code") else []
        return own + [code for value in answer.values() for code in _codes(value)]
    if isinstance(answer, list):
        return [code for each in answer for code in _codes(each)]
    return []
