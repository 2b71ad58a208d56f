"""Holdfast from end to end: a Kafka client produces, a Kafka consumer and Spark read, and both see the same.

Then a day of payments runs through a pipeline on Spark and is proved complete (`examples/payments_day.py`), and a key
is deleted while one of three replicas is away (`examples/outage.py`).

Run it with `make demo`. It needs no installed Kafka and no installed Java, and leaves nothing behind. With
`python -m examples.demo --master spark://HOST:PORT` its Spark is a cluster's.
"""

import argparse
import json
import logging
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from rich.table import Table

from examples import outage, payments_day
from examples.server import ExampleError, expect, holdfast
from examples.steps import console, step
from holdfast.spark.master import MASTER_DEFAULT
from holdfast.spark.session import spark_session

TOPIC: Final = "accounts"
PARTITIONS: Final = 4
RECORDS: Final = 100_000
ACCOUNTS: Final = 1_000
ROWS_SHOWN: Final = 8
SEED: Final = 7
SILENCE_S_MAX: Final = 30.0

SHORT_LIVED: Final = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
"""A JVM that lives for half a minute spends half of it on optimising code: compile it fast, not well."""

Newest = dict[bytes, bytes]


def produce(address: str, advance: Callable[[int], None]) -> None:
    """Made-up balances of made-up accounts; the newest record of a key is what the account holds."""
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            refused.append(error)

    chance = random.Random(SEED)
    producer = Producer({"bootstrap.servers": address, "linger.ms": 20, "enable.idempotence": True})
    for number in range(RECORDS):
        key = f"user-{chance.randrange(ACCOUNTS):04}"
        value = json.dumps({"balance": chance.randrange(1_000_000) / 100, "update": number})
        producer.produce(TOPIC, key=key, value=value, on_delivery=delivered)
        if number % 1_000 == 0:
            producer.poll(0)
            advance(1_000)
    left = producer.flush(SILENCE_S_MAX)
    if refused or left:
        raise ExampleError(f"{len(refused)} records were refused and {left} not answered: {refused[:1]}")


def consume(address: str) -> Newest:
    """Reads every partition to its end, as any Kafka consumer does."""
    newest: Newest = {}
    count = at_end = 0
    heard = time.monotonic()
    settings = {"bootstrap.servers": address, "group.id": "demo", "enable.partition.eof": True}
    consumer = Consumer(settings | {"enable.auto.commit": False})
    try:
        consumer.assign(
            [TopicPartition(TOPIC, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)]
        )
        while at_end < PARTITIONS:
            messages = consumer.consume(10_000, timeout=0.5)
            heard = time.monotonic() if messages else heard
            expect(time.monotonic() < heard + SILENCE_S_MAX, f"no answer in {SILENCE_S_MAX:.0f} s")
            for message in messages:
                if message.error() is None:
                    newest[message.key()] = message.value()
                    count += 1
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    at_end += 1
                else:
                    raise KafkaException(message.error())
    finally:
        consumer.close()
    expect(count == RECORDS, f"{RECORDS} records were produced, but the consumer read {count}")
    return newest


def newest_per_key(topic: DataFrame) -> DataFrame:
    """A topic as a table: of each key the record with the highest offset, as a cleaner would leave it."""
    fields = sql.from_json(sql.col("value").cast("string"), "balance double, update long")
    return (
        topic.groupBy("key")
        .agg(sql.max_by("value", "offset").alias("value"), sql.count("*").alias("updates"))
        .select("key", "value", "updates", fields.alias("fields"))
        .select("key", "value", "updates", "fields.balance", "fields.update")
    )


def show(accounts: DataFrame) -> None:
    """The richest accounts."""
    table = Table(title=f"newest value per key: {ROWS_SHOWN} of {accounts.count():,} accounts")
    for heading in ("account", "balance", "last update", "updates"):
        table.add_column(heading, justify="left" if heading == "account" else "right")
    for row in accounts.orderBy(sql.desc("balance"), "key").limit(ROWS_SHOWN).collect():
        table.add_row(row.key.decode(), f"{row.balance:,.2f}", f"{row.update:,}", str(row.updates))
    console.print(table)


def run(master: str) -> None:
    """The whole way, step by step."""
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-demo-") as directory,
        holdfast(Path(directory), partitions=PARTITIONS) as address,
    ):
        console.print(f"[green]✔[/] holdfast is listening on {address}", highlight=False)
        with step(f"produce {RECORDS:,} records with confluent-kafka", RECORDS) as advance:
            produce(address, advance)
        with step("read them with a Kafka consumer"):
            consumed = consume(address)
        with step("start Spark"):
            spark = spark_session("holdfast demo", master=master, config=SHORT_LIVED)
        with step('read them with spark.read.format("holdfast")'):
            topic = spark.read.format("holdfast").option("bootstrap", address).option("topic", TOPIC).load()
            count = topic.count()
            expect(count == RECORDS, f"{RECORDS} records were produced, but Spark read {count}")
        with step("keep the newest value per key, compare with the consumer"):
            accounts = newest_per_key(topic).cache()
            reduced = {bytes(row.key): bytes(row.value) for row in accounts.collect()}
            expect(reduced == consumed, "Spark and the consumer disagree about the newest values")
        show(accounts)
        with step("stop"):
            spark.stop()


def stop_on_sigterm(*_: object) -> NoReturn:
    """Lets every `finally` run, as ^C does."""
    raise KeyboardInterrupt


def main() -> int:
    """Exit code 0 if all went well, 1 if a step failed, 130 if interrupted."""
    signal.signal(signal.SIGTERM, stop_on_sigterm)
    logging.disable()  # py4j logs a traceback for every call that an interrupt cuts short
    options = argparse.ArgumentParser(description="Holdfast from end to end.")
    options.add_argument("--master", default=MASTER_DEFAULT, help="where Spark runs (default: %(default)s)")
    master = options.parse_args().master
    begun = time.monotonic()
    try:
        run(master)
        console.print("\n[bold]A day of payments, through a pipeline and proved complete[/]")
        payments_day.run(master)
        console.print("\n[bold]A delete while a replica is away[/]")
        outage.run()
    except KeyboardInterrupt:
        console.print("interrupted")
        return 130
    except Exception as error:
        console.print(f"[red]the demo failed:[/] {type(error).__name__}: {error}", highlight=False)
        return 1
    console.print(f"done in {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
