"""What runs on Spark, on brokers behind SASL_SSL: with the rights that `docs/pipelines.md` lists, and no others."""

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import ResourcePatternType, ResourceType
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from examples.compliance.generator import DAY, TENANTS, Message
from holdfast.client.cluster import Cluster
from holdfast.client.java_names import to_java
from holdfast.client.producer import Producer
from holdfast.client.topics import create_topic
from holdfast.pipelines.loading import load_pipeline
from holdfast.records.record import Record
from holdfast.spark.sink import Sink, by_output_partition
from tests.cli.commands import run_here, run_holdfast
from tests.kafka.secured import WORKER, Secured, password_of
from tests.pipelines.files import write_pipeline
from tests.pipelines.runs import expected, fill, read_once, run_adapters, run_service
from tests.spark.streams import SHORT_LIVED, consume, read_files, run, wanted, write_files

MESSAGES = 120
BATCH = 60
FILES = 2
PREFIXED = ResourcePatternType.PREFIXED
SECRET = password_of(WORKER)

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module", autouse=True)
def rights(secured: Secured) -> None:
    """On what is a pipeline's own, by its name."""
    secured.let_in(WORKER)
    for prefix in ("work", "rows"):
        secured.allow(WORKER, "READ WRITE CREATE DESCRIBE_CONFIGS", prefix, pattern=PREFIXED)
        for group in (prefix, f"holdfast-sink.holdfast.{prefix}"):
            secured.allow(WORKER, "READ", group, kind=ResourceType.GROUP, pattern=PREFIXED)
        for name in (prefix, f"holdfast.{prefix}"):
            secured.allow(WORKER, "WRITE", name, kind=ResourceType.TRANSACTIONAL_ID, pattern=PREFIXED)


@pytest.fixture
def options(secured: Secured, tmp_path: Path) -> dict[str, Any]:
    """As Spark's own connector is told, by Java's names."""
    given = secured.properties(WORKER, "SCRAM-SHA-512")
    both = tmp_path / "ours.pem"
    both.write_text(
        "".join(Path(given[f"ssl.{each}.location"]).read_text() for each in ("key", "certificate"))
    )
    told = {name: value for name, value in to_java(given).items() if "keystore" not in name}
    told |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(both)}
    return {"kafka.bootstrap.servers": secured.bootstrap} | {
        f"kafka.{name}": each for name, each in told.items()
    }


def write(
    secured: Secured, directory: Path, mode: str, prefix: str
) -> tuple[Path, dict[str, tuple[Message, str]]]:
    """A pipeline that says in its file how its cluster is spoken to; its topics, with messages to be judged."""
    path = write_pipeline(directory, mode=mode, prefix=prefix, bootstrap=secured.bootstrap, records=BATCH)
    path.write_text(path.read_text() + "client_config: client.properties\n")
    options = "".join(f"{name}={value}\n" for name, value in secured.properties(WORKER).items())
    (directory / "client.properties").write_text(options)
    with Cluster(secured.plain) as cluster:
        return path, fill(cluster, prefix, MESSAGES)


@pytest.mark.parametrize("form", ["sink", "format"])
def test_written_and_read(
    secured: Secured, options: dict[str, Any], spark: SparkSession, tmp_path: Path, form: str
) -> None:
    """By streams and in batches, every row once; what Spark shows of its plans holds no password."""
    topic, writer_id = f"rows.{form}", f"holdfast.rows.{form}"
    with Cluster(secured.plain) as cluster:
        for name in (topic, f"{topic}.copy"):
            create_topic(cluster, name, partitions=3)
    write_files(tmp_path / "in", FILES)
    frame = read_files(spark, tmp_path / "in")

    def start() -> StreamingQuery:
        if form == "sink":
            writer = frame.writeStream.foreachBatch(Sink(**options, topic=topic, transactional_id=writer_id))
        else:
            placed = by_output_partition(frame, **options, topic=topic)
            writer = placed.writeStream.format("holdfast").options(**options).option("topic", topic)
            writer = writer.option("transactionalId", writer_id)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.trigger(availableNow=True).start()

    run(start)
    assert consume(secured.plain, topic) == wanted(FILES)
    stored = spark.read.format("holdfast").options(**options).option("topic", topic).load()
    assert Counter(bytes(row.value).decode() for row in stored.select("value").collect()) == wanted(FILES)
    stored.select("value").write.format("holdfast").mode("append").options(**options).option(
        "topic", f"{topic}.copy"
    ).save()
    assert consume(secured.plain, f"{topic}.copy") == wanted(FILES)
    source = spark.readStream.format("holdfast").options(**options).option("topic", topic)
    copied = source.option("startingOffsets", "earliest").option("group", f"rows.{form}").load()
    counted = run(
        lambda: (
            copied.writeStream.format("memory")
            .queryName(f"copied_{form}")
            .option("checkpointLocation", str(tmp_path / "copied"))
            .trigger(availableNow=True)
            .start()
        )
    )
    assert spark.table(f"copied_{form}").count() == wanted(FILES).total()
    plans = [stored._jdf.queryExecution().toString(), counted._jsq.explainInternal(True)]
    assert all("holdfast" in plan and SECRET not in plan for plan in plans)


def test_no_way_in(secured: Secured, options: dict[str, Any], spark: SparkSession) -> None:
    """One line that says why, without the password that was wrong."""
    wrong = {name: value.replace(SECRET, "guessed") for name, value in options.items()}
    with pytest.raises(PySparkException) as caught:
        spark.read.format("holdfast").options(**wrong).option("topic", "rows.sink").load().count()
    told = str(caught.value)
    assert "does not take user 'worker' and the password for it" in told
    assert "guessed" not in told


@pytest.mark.parametrize("mode", ["adapter", "transaction", "dual"])
def test_every_message_once(secured: Secured, spark: SparkSession, tmp_path: Path, mode: str) -> None:
    """In each delivery mode, as the pipeline's file says."""
    path, filled = write(secured, tmp_path, mode, f"work-{mode}")
    pipeline = load_pipeline(path)
    run_service(spark, pipeline)
    run_adapters(spark, pipeline)
    qualified, audit = expected(filled)
    assert read_once(secured.plain, f"work-{mode}.qualified") == qualified
    assert read_once(secured.plain, f"work-{mode}.audit") == audit


def test_a_day_from_the_command_line(secured: Secured, spark: SparkSession, tmp_path: Path) -> None:
    """Run in both processes, looked at, watched and closed; the list of processes shows no password."""
    path, filled = write(secured, tmp_path, "adapter", "work-day")
    short = [word for name, value in SHORT_LIVED.items() for word in ("--conf", f"{name}={value}")]
    words = ["pipeline", "run", str(path), "--once", "--master", "local[1]", *short]
    shown: set[str] = set()
    with subprocess.Popen([sys.executable, "-m", "holdfast", *words], stderr=subprocess.DEVNULL) as running:
        while running.poll() is None:
            shown |= {command_line(each) for each in Path("/proc").glob("[0-9]*")}
            time.sleep(0.05)
    assert running.returncode == 0
    assert any("--only adapter" in line for line in shown)
    assert not [line for line in shown if SECRET in line]
    qualified, audit = expected(filled)
    assert read_once(secured.plain, "work-day.qualified") == qualified
    assert read_once(secured.plain, "work-day.audit") == audit
    # They do not run any more; that they wait for nothing is what the cluster tells.
    status = run_holdfast("pipeline", "status", str(path), "--json")
    lags = [lag["lag"] for part in json.loads(status.out)["parts"] for lag in part["lags"]]
    assert (status.code, lags) == (1, [0, 0]), status.err
    seen = run_here(
        "watch", "--pipeline", str(path), "--listen", "127.0.0.1:0", "--looks", "1", "--interval", "1s"
    )
    assert (seen.code, seen.err) == (0, "")
    told = path.parent / "client.properties"
    for tenant in TENANTS:
        day = ("recon", "close", tenant, DAY.date().isoformat(), "--pipeline", str(path))
        closed = run_here(*day, "--client-config", str(told), "-X", "sasl.mechanism=SCRAM-SHA-256")
        assert (closed.code, closed.text.split()[2]) == (0, "CLOSED"), closed


def test_asked_by_sql(secured: Secured, spark: SparkSession, tmp_path: Path) -> None:
    """And taken away as Parquet."""
    with Cluster(secured.plain) as cluster:
        create_topic(cluster, "rows", partitions=1)
        Producer(cluster, "rows").send({0: [Record(key=b"k", value=b"v", timestamp_ms=1)]})
    options = secured.options(WORKER)
    told = secured.command.ok(
        "sql", "SELECT string(key) k, count(*) n FROM rows GROUP BY k", "--json", *options
    )
    assert told.lines == [{"k": "k", "n": 1}]
    secured.command.ok("topic", "export", "rows", str(tmp_path / "rows"), *options)
    assert spark.read.parquet(str(tmp_path / "rows")).count() == 1


def command_line(process: Path) -> str:
    """What others can read of it."""
    try:
        return (process / "cmdline").read_text().replace("\0", " ")
    except (OSError, UnicodeDecodeError):
        return ""
