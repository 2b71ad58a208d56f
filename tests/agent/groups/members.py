"""Members of a group, made of real clients, and the ledger that they report to."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import kafka

SECONDS_MAX = 30.0
HEARTBEAT_MS = 200
SESSION_MS = 6_000


class Ledger:
    """Who owns which partition, and how often each record was read: one owner at a time, or it says so."""

    def __init__(self) -> None:
        self.owners: dict[int, Member] = {}
        self.read: Counter[bytes] = Counter()
        self.assignments = 0
        self.violations: list[str] = []
        """Clients swallow what their callbacks raise; this is looked at after every round."""

    def assign(self, member: "Member", partitions: list[int]) -> None:
        self.assignments += 1
        for partition in partitions:
            if self.owners.setdefault(partition, member) is not member:
                self.violations.append(f"partition {partition} has an owner already")

    def revoke(self, member: "Member", partitions: list[int]) -> None:
        for partition in partitions:
            if self.owners.pop(partition, None) is not member:
                self.violations.append(f"partition {partition} was somebody else's")

    def deliver(self, member: "Member", partition: int, value: bytes) -> None:
        self.read[value] += 1
        if self.owners.get(partition) is not member:
            self.violations.append(f"a record of partition {partition} went to somebody else")

    def leave(self, member: "Member") -> None:
        """Some clients do not call back when they close."""
        self.owners = {partition: owner for partition, owner in self.owners.items() if owner is not member}


class Member(Protocol):
    """One consumer of the group. It commits what it has read before it asks for more."""

    def poll(self) -> None:
        """Read a little, report it, commit it."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...


class ConfluentMember:
    """confluent-kafka with an assignor of choice; an instance id makes it a static member."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topic: str,
        ledger: Ledger,
        *,
        assignor: str = "range",
        instance: str | None = None,
    ) -> None:
        self._ledger = ledger
        config = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": assignor,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "log_level": 0,
            **({} if instance is None else {"group.instance.id": instance}),
        }
        self.consumer = confluent_kafka.Consumer(config)
        self.consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def _on_assign(self, consumer: Any, partitions: list[Any]) -> None:
        self._ledger.assign(self, [each.partition for each in partitions])

    def _on_revoke(self, consumer: Any, partitions: list[Any]) -> None:
        self._ledger.revoke(self, [each.partition for each in partitions])

    def poll(self) -> None:
        message = self.consumer.poll(0.02)
        if message is not None:
            assert message.error() is None, message.error()
            self._ledger.deliver(self, message.partition(), message.value())
            self.consumer.commit(message=message, asynchronous=False)

    def close(self) -> None:
        self.consumer.close()


class KafkaPythonMember(kafka.ConsumerRebalanceListener):
    """kafka-python."""

    def __init__(self, bootstrap: str, group: str, topic: str, ledger: Ledger) -> None:
        self._ledger = ledger
        self.consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            # The rebalance timeout, too: one that stalls in a rebalance is not waited for longer than this.
            max_poll_interval_ms=SESSION_MS,
        )
        # kafka-python 3.0.12 joins before it knows the topic, joins again when it does, and now and then stalls in
        # between, also against Apache Kafka. Here it knows the topic first.
        assert self.consumer.partitions_for_topic(topic)
        self.consumer.subscribe([topic], listener=self)

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._ledger.assign(self, [each.partition for each in assigned])

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._ledger.revoke(self, [each.partition for each in revoked])

    def poll(self) -> None:
        for messages in self.consumer.poll(timeout_ms=20).values():
            for message in messages:
                self._ledger.deliver(self, message.partition, message.value)
            self.consumer.commit()

    def close(self) -> None:
        self.consumer.close()


class AiokafkaMember(aiokafka.ConsumerRebalanceListener):
    """aiokafka on an event loop in a thread of its own; the ledger hears of everything on that thread."""

    def __init__(self, bootstrap: str, group: str, topic: str, ledger: Ledger) -> None:
        self._ledger = ledger
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self._start(bootstrap, group, topic))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS_MAX)

    async def _start(self, bootstrap: str, group: str, topic: str) -> None:
        self.consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            metadata_max_age_ms=1000,
        )
        self.consumer.subscribe([topic], listener=self)
        await self.consumer.start()

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self._ledger.assign(self, [each.partition for each in assigned])

    async def on_partitions_revoked(self, revoked: Any) -> None:
        self._ledger.revoke(self, [each.partition for each in revoked])

    async def _read(self) -> None:
        for messages in (await self.consumer.getmany(timeout_ms=20)).values():
            for message in messages:
                self._ledger.deliver(self, message.partition, message.value)
            await self.consumer.commit()

    def poll(self) -> None:
        self._run(self._read())

    def close(self) -> None:
        self._ledger.leave(self)
        self._run(self.consumer.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS_MAX)
        self._loop.close()


def poll_until(members: Sequence[Member], ledger: Ledger, condition: Callable[[], bool], what: str) -> None:
    """Poll all in turn until something holds; what the ledger objects to fails the test."""
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, f"not within {SECONDS_MAX} s: {what}"
        for member in members:
            member.poll()
        assert not ledger.violations, ledger.violations
