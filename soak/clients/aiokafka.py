"""aiokafka, driven from an event loop of its own: TV1. It commits a group's offsets by the group's name alone."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import aiokafka
from aiokafka.errors import KafkaConnectionError, KafkaError

from soak.clients.client import BATCH_MAX, PATIENCE_SECONDS, POLL_SECONDS, TIMEOUT_MS
from soak.history import LogRecord
from soak.txn_history import Place, Write

Result = TypeVar("Result")


class Aiokafka:
    """A producer, and a consumer that is assigned its partition by hand."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._bootstrap = bootstrap
        self._transactional_id = transactional_id
        self._producer: Any = None
        self._consumer: Any = None
        self._place = aiokafka.TopicPartition("", 0)
        self._group = ""

    def init(self) -> None:
        async def start() -> None:
            self._producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                transactional_id=self._transactional_id,
                transaction_timeout_ms=TIMEOUT_MS,
                retry_backoff_ms=20,
            )
            await self._producer.start()

        self._start(start)

    def follow(self, place: Place, group: str) -> int:
        self._place, self._group = aiokafka.TopicPartition(*place), group

        async def start() -> int:
            self._consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=self._bootstrap,
                group_id=group,
                enable_auto_commit=False,
                auto_offset_reset="none",
                isolation_level="read_committed",
                fetch_max_wait_ms=50,
                retry_backoff_ms=20,
            )
            await self._consumer.start()
            self._consumer.assign([self._place])
            position = await self._consumer.committed(self._place) or 0
            self._consumer.seek(self._place, position)
            return position

        return self._start(start)

    def poll(self) -> list[LogRecord]:
        polled = self._run(self._consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000), max_records=BATCH_MAX))
        return [LogRecord(message.offset, message.value) for message in polled.get(self._place, ())]

    def rewind(self, offset: int) -> None:
        self._consumer.seek(self._place, offset)

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, writes: list[Write]) -> None:
        async def send_all() -> None:
            for place, value in writes:
                await self._producer.send(place.topic, value, partition=place.partition)

        self._run(send_all())

    def send_offset(self, offset: int) -> None:
        self._run(self._producer.send_offsets_to_transaction({self._place: offset}, self._group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def _start(self, start: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Where the others wait for a log that is down, aiokafka gives up at once."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self._run(start())
            except KafkaConnectionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_SECONDS)

    def _run(self, step: Coroutine[Any, Any, Result]) -> Result:
        try:
            return self._loop.run_until_complete(asyncio.wait_for(step, PATIENCE_SECONDS))
        except KafkaError as failure:
            # Whoever asks next hears that there is no transaction; why, only the task knows that has ended.
            task = self._producer and self._producer._sender.sender_task
            ended_by = task.exception() if task and task.done() and not task.cancelled() else None
            if ended_by is None or ended_by is failure:
                raise
            raise failure from ended_by
