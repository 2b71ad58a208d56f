"""Made-up payments of several tenants, as CloudEvents: most are in order, some are not, a few cannot be read.

python -m examples.compliance.generator --bootstrap 127.0.0.1:9092 --messages 10000 [--per-second 300] [--day DAY]
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from confluent_kafka import Producer

TOPIC: Final = "payments.in"
SEED: Final = 11
TENANTS: Final = {"acme": 6, "globex": 3, "initech": 1}
"""With the weights of their traffic."""
COUNTRIES: Final = ("AT", "BE", "CH", "DE", "ES", "FR", "IT", "NL", "PL", "SE", "US", "BR")
PURPOSES: Final = ("invoice", "rent", "salary", "refund", "Büromaterial", "")
DAY: Final = datetime(2026, 1, 31, tzinfo=UTC)
FLUSH_S_MAX: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One record of the ingest topic."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    happened: datetime = DAY


def messages(number: int, *, seed: int = SEED, day: datetime = DAY) -> Iterator[Message]:
    """The same for the same seed: a day of payments, in the order of their times."""
    chance = random.Random(seed)
    tenants, weights = list(TENANTS), list(TENANTS.values())
    for position in range(number):
        tenant = chance.choices(tenants, weights)[0]
        account = f"{tenant}-{chance.randrange(200):03}"
        happened = day + timedelta(days=1) * (position / number)
        headers = (
            ("ce_specversion", b"1.0"),
            ("ce_id", f"{chance.getrandbits(64):016x}-{position}".encode()),
            ("ce_source", f"/banks/{tenant}".encode()),
            ("ce_type", b"payment.requested"),
            ("ce_time", happened.strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode()),
            ("tenant", tenant.encode()),
        )
        value = _value(chance, account)
        yield Message(key=account.encode(), value=value, happened=happened, headers=headers)


def _value(chance: random.Random, account: str) -> bytes:
    dice = chance.random()
    if dice < 0.005:
        return b"\xff\xfe not JSON"
    amount_cents = int(chance.lognormvariate(10.5, 1.8))
    payment: dict[str, str | int] = {
        "payment": f"p-{chance.getrandbits(40):010x}",
        "account": account,
        "country": chance.choice(COUNTRIES),
        "amount_cents": amount_cents,
        "purpose": chance.choice(PURPOSES),
    }
    if dice < 0.01:
        del payment["amount_cents"]
    elif dice < 0.015:
        payment["amount_cents"] = -amount_cents
    return json.dumps(payment, ensure_ascii=False).encode()


def main() -> int:
    """Sends them, as fast as they can be sent or at a rate."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", default=TOPIC)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--per-second", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--day", type=_day, help="when they happened and were sent, as 2026-01-31")
    options = parser.parse_args()
    producer = Producer({"bootstrap.servers": options.bootstrap, "enable.idempotence": True, "linger.ms": 20})
    begun = time.monotonic()
    made = messages(options.messages, seed=options.seed, day=options.day or DAY)
    for position, message in enumerate(made):
        if options.per_second:
            time.sleep(max(0.0, begun + position / options.per_second - time.monotonic()))
        while True:
            try:
                producer.produce(
                    options.topic,
                    key=message.key,
                    value=message.value,
                    headers=list(message.headers),
                    # Without a day of their own they are sent now, long after their day was over.
                    timestamp=round(message.happened.timestamp() * 1000) if options.day else 0,
                )
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    left = producer.flush(FLUSH_S_MAX)
    print(f"{options.messages - left:,} messages in {options.topic}")
    return 1 if left else 0


def _day(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)


if __name__ == "__main__":
    sys.exit(main())
