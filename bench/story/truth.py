"""What has really happened, told by other means than reconciliation: a plain consumer that counts ids.

Which messages came in, and how each has to end, is known from the generator and from the example's plain Python oracle.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from bench.story.failure import StoryFailed
from examples.compliance.generator import messages
from examples.compliance.oracle import judge

SILENCE_S_MAX: Final = 60.0
POLL_S: Final = 0.5
FETCHED: Final = 10_000
QUALIFIED: Final = "qualified"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """Whose message it is, and how it has to end."""

    tenant: str
    end_state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """By tenant, the ids that are wrong."""

    missing: Mapping[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    duplicate: Mapping[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    other: Mapping[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Nobody's messages, and messages in another end state than the oracle's: none in any mode."""

    def count(self, kind: str) -> int:
        """Over all tenants."""
        return sum(map(len, getattr(self, kind).values()))


def fates(number: int) -> dict[str, Fate]:
    """Every message of the day, by id."""
    found = {}
    for message in messages(number):
        headers = dict(message.headers)
        found[headers["ce_id"].decode()] = Fate(
            tenant=headers["tenant"].decode(), end_state=judge(message).end_state
        )
    return found


def find_truth(bootstrap: str, prefix: str, expected: Mapping[str, Fate]) -> Truth:
    """Every topic read from end to end, and each id counted."""
    delivered = count_ids(bootstrap, f"{prefix}.qualified")
    audited = count_ids(bootstrap, f"{prefix}.audit")
    truth = Truth()
    for single, fate in expected.items():
        in_audit = audited[single, fate.end_state]
        goes_on = fate.end_state == QUALIFIED
        downstream = delivered[single, QUALIFIED]
        if not in_audit or (goes_on and not downstream):
            truth.missing[fate.tenant].add(single)
        if max(in_audit, downstream) > 1:
            truth.duplicate[fate.tenant].add(single)
        if downstream and not goes_on:
            truth.other[fate.tenant].add(single)
    for single, end_state in {*audited, *delivered}:
        if single not in expected or expected[single].end_state != end_state:
            truth.other[""].add(single)
    return truth


def count_ids(bootstrap: str, topic: str) -> Counter[tuple[str, str]]:
    """How often each id stands there in which end state, by confluent-kafka, committed records alone."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "truth",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    found: Counter[tuple[str, str]] = Counter()
    try:
        partitions = consumer.list_topics(topic, timeout=SILENCE_S_MAX).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        left, deadline = set(partitions), time.monotonic() + SILENCE_S_MAX
        while left:
            fetched = consumer.consume(FETCHED, POLL_S)
            if fetched:
                deadline = time.monotonic() + SILENCE_S_MAX
            elif time.monotonic() > deadline:
                raise StoryFailed(f"nothing comes from {topic} any more, and it has not ended")
            for message in fetched:
                if message.error() is None:
                    found[_who(message)] += 1
                elif message.error().name() == "_PARTITION_EOF":
                    left.discard(message.partition())
                else:
                    raise KafkaException(message.error())
        return found
    finally:
        consumer.close()


def _who(message: Any) -> tuple[str, str]:
    headers = dict(message.headers())
    return headers["ce_id"].decode(), headers["holdfast_end_state"].decode()
