"""The delivery modes, run to the end of what is there and held against the plain Python oracle, record by record."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from examples.compliance.checks import assess
from examples.compliance.generator import Message
from holdfast.client.cluster import Cluster
from holdfast.client.groups import fetch_group_offsets
from holdfast.client.topics import alter_configs
from holdfast.errors import UsageError
from holdfast.pipelines import delivery
from holdfast.pipelines.loading import load_pipeline
from holdfast.pipelines.outage import passing
from holdfast.pipelines.status import find_lag
from holdfast.pipelines.tally import decode_tally, merge
from holdfast.spark.sink import Sink
from tests.pipelines.files import make_pipeline, write_pipeline
from tests.pipelines.runs import (
    consume,
    end_states,
    expected,
    fill,
    read_once,
    run_adapters,
    run_service,
)

MESSAGES = 300


class Fault(Exception):
    """What a test lets happen."""


def test_transaction(spark: SparkSession, cluster: Cluster, bootstrap: str, tmp_path: Path) -> None:
    """Both topics equal the oracle, in several micro-batches; the books agree with them, and balance."""
    pipeline = make_pipeline(tmp_path, mode="transaction", prefix="txn", bootstrap=bootstrap, records=120)
    filled = fill(cluster, "txn", MESSAGES)
    ran = run_service(spark, pipeline)
    qualified, audit = expected(filled)
    assert read_once(bootstrap, "txn.qualified") == qualified
    assert read_once(bootstrap, "txn.audit") == audit
    records = [decode_tally(message.value()) for message in consume(bootstrap, "txn.tally")]
    assert len({record.batch_id for record in records}) == 3
    books = merge(records)
    assert all(record.is_balanced for record in books.values())
    states = end_states(audit.values())
    for state, number in {**states, "ingested": MESSAGES}.items():
        assert (
            sum(record.stages[state].count for record in books.values() if state in record.stages) == number
        )
        assert ran.messages[state] == number
    assert ran.rows == MESSAGES
    assert {tenant for tenant, _ in books} == {"acme", "globex", "initech"}
    # The group of the service tells lag tools how far it is.
    positions = fetch_group_offsets(cluster, pipeline.service_group)
    assert set(find_lag(cluster, "txn.in", {p.partition: o for p, o in positions.items()}).values()) == {0}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda frame: frame.where(sql.col("offset") % 2 == 0),
            r"gives back \d\d rows for 40 messages: one row",
        ),
        (
            lambda frame: frame.withColumn("copy", sql.explode(sql.array(sql.lit(1), sql.lit(2)))),
            "gives back 80 rows for 40 messages: one row for each is wanted",
        ),
        (
            lambda frame: frame.withColumn("id", sql.concat("id", sql.lit("x"))),
            "gives back 40 rows for as many messages, but not of the same source and id",
        ),
    ],
    ids=["drops", "multiplies", "renames"],
)
def test_one_row_for_each_message(
    spark: SparkSession,
    cluster: Cluster,
    bootstrap: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
    change: Callable[[DataFrame], DataFrame],
    told: str,
) -> None:
    """Else nothing of the batch is committed; it is not tried again, as if the log were away."""
    prefix = request.node.callspec.id
    pipeline = make_pipeline(tmp_path, mode="transaction", prefix=prefix, bootstrap=bootstrap)
    filled = fill(cluster, prefix, 40)
    with pytest.raises(
        StreamingQueryException, match=f"holdfast.errors.UsageError: the transform {told}"
    ) as caught:
        run_service(spark, pipeline, lambda frame: change(assess(frame)))
    assert passing(caught.value) is None
    told_by_sink = [each.getMessage() for each in caplog.records if each.name == "holdfast.spark.sink"]
    assert not [each for each in told_by_sink if "the transform" in each], "it was tried again"
    for name in ("qualified", "audit", "tally"):
        assert consume(bootstrap, f"{prefix}.{name}") == []
    run_service(spark, pipeline)
    compare(bootstrap, prefix, filled)


def test_service_fails_before_its_send(
    spark: SparkSession, cluster: Cluster, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the next service nor audit gets the message; the next start makes up for it."""
    pipeline = make_pipeline(tmp_path, mode="adapter", prefix="early", bootstrap=bootstrap)
    filled = fill(cluster, "early", 40)

    def fail(self: object, identified: object, ended: DataFrame, batch_id: int) -> None:
        raise Fault("before the send")

    with monkeypatch.context() as patched:
        patched.setattr(delivery.ExactDelivery, "__call__", fail)
        with pytest.raises(StreamingQueryException, match="before the send"):
            run_service(spark, pipeline)
    run_adapters(spark, pipeline)
    assert consume(bootstrap, "early.qualified") == consume(bootstrap, "early.audit") == []
    run_service(spark, pipeline)
    run_adapters(spark, pipeline)
    compare(bootstrap, "early", filled)


def test_adapter_fails(
    spark: SparkSession, cluster: Cluster, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next service has read the message; audit gets it when the adapter is back, and once."""
    pipeline = make_pipeline(tmp_path, mode="adapter", prefix="stuck", bootstrap=bootstrap)
    filled = fill(cluster, "stuck", 40)
    assert run_service(spark, pipeline).rows == len(filled)
    qualified, audit = expected(filled)
    assert read_once(bootstrap, "stuck.qualified") == qualified

    def fail(self: object, frame: DataFrame, batch_id: int) -> None:
        raise Fault("the adapter")

    with monkeypatch.context() as patched:
        patched.setattr(Sink, "__call__", fail)
        with pytest.raises(StreamingQueryException, match="the adapter"):
            run_adapters(spark, pipeline)
    told = read_once(bootstrap, "stuck.audit")
    assert told == {name: each for name, each in audit.items() if each.end_state != "qualified"}
    run_adapters(spark, pipeline)
    run_adapters(spark, pipeline)
    compare(bootstrap, "stuck", filled)


def test_downstream_consumer_fails(
    spark: SparkSession, cluster: Cluster, bootstrap: str, tmp_path: Path
) -> None:
    """Audit has the record; the next service finds it when it is back, from where it had come."""
    pipeline = make_pipeline(tmp_path, mode="adapter", prefix="down", bootstrap=bootstrap)
    filled = fill(cluster, "down", 40)
    run_service(spark, pipeline)
    first = consume_some(bootstrap, "down.qualified", number=5)
    run_adapters(spark, pipeline)
    compare(bootstrap, "down", filled)
    rest = consume_some(bootstrap, "down.qualified", number=None)
    qualified, _ = expected(filled)
    assert sorted(first + rest) == sorted(qualified)


def test_dual_loses_what_fails_beyond_the_retries(
    spark: SparkSession, cluster: Cluster, bootstrap: str, tmp_path: Path
) -> None:
    """The next service has every message, audit has none of a batch whose sends failed, and nobody stops."""
    pipeline = make_pipeline(tmp_path, mode="dual", prefix="dual", bootstrap=bootstrap)
    filled = fill(cluster, "dual", 40)
    qualified, audit = expected(filled)
    # One replica is all there is: every send to the topic is refused with NOT_ENOUGH_REPLICAS, and may be tried again.
    alter_configs(cluster, "dual.audit", put={"min.insync.replicas": "2"}, unset=[])
    ran = run_service(spark, pipeline)
    assert (ran.given_up, ran.rows) == ({"dual.audit": len(audit)}, len(audit))
    assert read_once(bootstrap, "dual.qualified") == qualified
    alter_configs(cluster, "dual.audit", put={}, unset=["min.insync.replicas"])
    assert run_service(spark, pipeline).given_up == {}
    assert consume(bootstrap, "dual.audit") == []


def test_connector_is_missing(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    """Who asks for Spark's own connector without its jar is told the line, and what to do."""
    path = write_pipeline(tmp_path, mode="dual", prefix="jarless", bootstrap=bootstrap)
    path.write_text(path.read_text() + "reader: kafka\n")
    line = len(path.read_text().splitlines())
    with pytest.raises(
        UsageError, match=rf"pipeline.yaml:{line}: reader: kafka .* spark.jars.packages=\S+:4"
    ):
        run_service(spark, load_pipeline(path))


def compare(bootstrap: str, prefix: str, filled: Mapping[str, tuple[Message, str]]) -> None:
    """Both topics against the oracle; every record once."""
    qualified, audit = expected(filled)
    assert read_once(bootstrap, f"{prefix}.qualified") == qualified
    assert read_once(bootstrap, f"{prefix}.audit") == audit


def consume_some(bootstrap: str, topic: str, *, number: int | None) -> list[str]:
    """The next service: reads so many, or all that is left, commits how far it is, and is gone."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"next.{topic}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.auto.offset.store": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    found: list[str] = []
    try:
        while number is None or len(found) < number:
            (message,) = consumer.consume(1, 30.0 if number is not None or not found else 3.0) or [None]
            if message is None:
                break
            assert message.error() is None
            found.append(dict(message.headers())["ce_id"].decode())
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found
