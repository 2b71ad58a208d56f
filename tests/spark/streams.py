"""Streams with a known content, the queries that copy them into topics, and hooks that kill in the middle."""

import os
import pickle
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

from holdfast.client.cluster import Cluster
from holdfast.client.topics import create_topic
from holdfast.spark.sink import Sink, by_output_partition
from holdfast.spark.source import HoldfastDataSource
from holdfast.spark.steps import OnStep, Step, ignore
from holdfast.spark.write_options import Delivery
from holdfast.spark.writer import ExactStreamWriter

# Half the processor time of a JVM that lives for a minute goes into optimising compilation.
SHORT_LIVED = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}

ROWS_PER_FILE = 60
STARTS_MAX = 6
SILENCE_S_MAX = 30.0


def make_topic(
    bootstrap: str, topic: str, *, partitions: int = 3, configs: dict[str, str] | None = None
) -> None:
    """A new topic."""
    with Cluster(bootstrap) as cluster:
        create_topic(cluster, topic, partitions=partitions, configs=configs)


def write_files(directory: Path, files: int, *, first: int = 0) -> None:
    """One micro-batch each. Spark takes files by their time of change: equal ones in any order."""
    directory.mkdir(exist_ok=True)
    for number in range(first, first + files):
        path = directory / f"{number:04d}.txt"
        path.write_text("".join(f"{line}\n" for line in lines(number)))
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def lines(number: int) -> list[str]:
    """What file `number` holds; a third of it has no key."""
    return [f"{'' if row % 3 == 0 else f'key-{row % 17}'}|row {number}.{row}" for row in range(ROWS_PER_FILE)]


def wanted(files: int) -> Counter[str]:
    """The values that must be in the topic, each of them once."""
    return Counter(line.split("|")[1] for number in range(files) for line in lines(number))


def read_files(spark: SparkSession, directory: Path) -> DataFrame:
    """The files as a stream of keys and values, a file at a time, over two tasks."""
    stream = spark.readStream.option("maxFilesPerTrigger", 1).text(str(directory))
    parts = sql.split("value", r"\|")
    key = sql.when(parts[0] != "", parts[0])
    return stream.select(key.alias("key"), parts[1].alias("value")).repartition(2)


def start_sink(
    frame: DataFrame, bootstrap: str, topic: str, checkpoint: Path, on_step: OnStep = ignore
) -> StreamingQuery:
    """Copies all that is there with the sink, then ends."""
    sink = Sink(bootstrap=bootstrap, topic=topic, on_step=on_step)
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    return writer.trigger(availableNow=True).start()


def start_format(
    frame: DataFrame, bootstrap: str, topic: str, checkpoint: Path, on_step: OnStep = ignore
) -> StreamingQuery:
    """The same with `format("holdfast")`, by a source whose writer tells of its steps."""
    session = frame.sparkSession
    # The session that is active in this thread is asked for a source, and a query before may have left its own there.
    session.createDataFrame([], "nothing int")
    session.dataSource.register(HookedDataSource)
    placed = by_output_partition(frame, bootstrap=bootstrap, topic=topic)
    writer = placed.writeStream.format("hooked").option("bootstrap", bootstrap).option("topic", topic)
    writer = writer.option("hook", pickle.dumps(on_step).hex()).option("checkpointLocation", str(checkpoint))
    return writer.trigger(availableNow=True).start()


def run(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Runs a query to its end. Spark gives a new Python process ten seconds, too few on a machine that is busy."""
    for _ in range(STARTS_MAX):
        query = start()
        try:
            query.awaitTermination()
            return query
        except PySparkException as failure:
            if "failed to connect back" not in str(failure):
                raise
    raise AssertionError(f"Spark's Python did not start in time, {STARTS_MAX} times in a row")


def start_plain_format(frame: DataFrame, bootstrap: str, topic: str, checkpoint: Path) -> StreamingQuery:
    """Without the shuffle that it needs where a frame has several tasks."""
    writer = frame.writeStream.format("holdfast").option("bootstrap", bootstrap).option("topic", topic)
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


class HookedDataSource(HoldfastDataSource):
    """What users get, and a hook."""

    @classmethod
    def name(cls) -> str:
        """Not to be found by accident."""
        return "hooked"

    def streamWriter(self, schema: StructType, overwrite: bool) -> ExactStreamWriter:
        """With the hook that the option brings."""
        on_step = pickle.loads(bytes.fromhex(self.options.pop("hook")))
        options = self._write_options(schema, overwrite, default=Delivery.EXACTLY_ONCE)
        self.options["hook"] = pickle.dumps(on_step).hex()
        return ExactStreamWriter(options, on_step=on_step)


FORMS: dict[str, Callable[..., StreamingQuery]] = {"sink": start_sink, "format": start_format}


def consume(bootstrap: str, topic: str) -> Counter[str]:
    """Every committed value up to the end, by confluent-kafka, with the number of times that it is there."""
    found: Counter[str] = Counter()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "check",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=SILENCE_S_MAX).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        ended = 0
        while ended < len(partitions):
            message = consumer.poll(SILENCE_S_MAX)
            assert message is not None, "the consumer was starved"
            if message.error() is None:
                found[message.value().decode()] += 1
            elif message.error().name() == "_PARTITION_EOF":
                ended += 1
            else:
                raise KafkaException(message.error())
    finally:
        consumer.close()
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class KillAt:
    """A hook: the nth time that `step` is reached anywhere, kills some processes; then it does nothing any more.

    No process id means: the process that has reached the step.
    """

    step: Step
    nth: int
    counter: Path
    pids: tuple[int, ...] = ()

    def __call__(self, step: Step) -> None:
        if step is not self.step:
            return
        # One byte for each time, by whichever process: appends are not torn.
        with self.counter.open("ab") as counter:
            counter.write(b".")
            counter.flush()
            times = os.fstat(counter.fileno()).st_size
        if times == self.nth:
            for pid in self.pids or (os.getpid(),):
                os.kill(pid, signal.SIGKILL)
