"""Rows of a topic → end states, headers, topics and books, against the plain Python oracle of the example."""

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from examples.compliance.checks import assess
from examples.compliance.generator import Message, messages
from examples.compliance.oracle import judge
from holdfast.errors import UsageError
from holdfast.pipelines.books import add_up
from holdfast.pipelines.counting import count_noted
from holdfast.pipelines.frames import end, ingested, route, with_identity
from holdfast.pipelines.identity import EPOCH_MS, INSTANT, Identity, Location, Part, identify
from holdfast.pipelines.tally import Sums
from holdfast.records.record import Record
from holdfast.spark.schema import KEY_HASH, SCHEMA
from tests.pipelines.files import make_pipeline
from tests.pipelines.values import DOCUMENTS, NO_JSON, NO_TEXT, SOUND

STAMP = datetime(2026, 2, 1, tzinfo=UTC)
ODD = [
    Message(key=b"k", value=b"{}", headers=()),
    Message(key=b"k", value=b"{}", headers=(("ce_id", b"1"), ("ce_time", b"noon"))),
    Message(key=b"k", value=b"{}", headers=(("ce_id", b"\xff"), ("tenant", b"acme"))),
    Message(
        key=b"k",
        value=b'{"order": {"id": "x1", "n": [7]}}',
        headers=(("ce_id", b"2"), ("tenant", b"acme"), ("ce_time", b"1969-12-31T23:59:59.9999Z")),
    ),
    Message(
        key=b"", value=b"not JSON", headers=(("ce_id", b"3"), ("tenant", b""), ("ce_time", b"1769860800000"))
    ),
]

BY_ORDER = Identity(
    id=Location(part=Part.VALUE, json_path="$.order.id"),
    source=Location(part=Part.VALUE, json_path="$.order.n[0]"),
    tenant=Location(part=Part.KEY),
    time=Location(part=Part.TIMESTAMP),
)
BY_VALUE = Identity(
    id=Location(part=Part.VALUE, json_path="$.id"),
    source=Location(part=Part.VALUE, json_path="$.id[0]"),
    tenant=Location(part=Part.VALUE, json_path="$.id.id"),
    time=Location(part=Part.VALUE, json_path="$.id"),
)


def as_frame(spark: SparkSession, made: list[Message]) -> DataFrame:
    """As the source gives them."""
    rows = [
        (m.key, m.value, "in", 0, offset, STAMP, 0, list(m.headers) or None) for offset, m in enumerate(made)
    ]
    return spark.createDataFrame(rows, SCHEMA)


def headers_of(row: Any) -> dict[str, str]:
    """By name; no name may stand there twice."""
    names = [each.key for each in row.headers]
    assert len(set(names)) == len(names)
    return {each.key: bytes(each.value).decode("utf-8", "replace") for each in row.headers}


def check_identity(spark: SparkSession, made: list[Message], identity: Identity) -> None:
    """Spark and plain Python come to the same for each of them."""
    frame = with_identity(as_frame(spark, made), identity).withColumn("time_ms", sql.unix_millis("time"))
    rows = frame.drop("time", "timestamp").orderBy("offset").collect()
    for message, row in zip(made, rows, strict=True):
        record = Record(key=message.key, value=message.value, headers=message.headers)
        found = identify(record, identity)
        assert (row.id, row.source, row.tenant) == (found.id, found.source, found.tenant), message
        known_ms = int(STAMP.timestamp() * 1000) if found.time_ms is None else found.time_ms
        assert row.time_ms == known_ms, message
        assert row.origin == f"in/0@{row.offset}"


@pytest.mark.parametrize("identity", [Identity(), BY_ORDER, BY_VALUE])
def test_identity_is_that_of_plain_python(spark: SparkSession, identity: Identity) -> None:
    """What Spark makes of a message and the function that `check` uses come to the same, for odd messages too."""
    in_values = [Message(key=b"acme", value=value, headers=()) for value in (*SOUND, *NO_JSON, *NO_TEXT)]
    check_identity(spark, [*messages(20), *ODD, *in_values], identity)


TEXTS = st.one_of(
    st.binary(max_size=6),
    st.text("ab\x1f", max_size=4).map(str.encode),
    st.text(max_size=6).map(str.encode),
    st.from_regex(INSTANT, fullmatch=True).map(str.encode),
    st.from_regex(EPOCH_MS, fullmatch=True).map(str.encode),
    st.text("0123456789-:TZ. +", max_size=24).map(str.encode),
)
JSON = st.builds(
    lambda document, is_ascii: json.dumps({"id": document}, ensure_ascii=is_ascii).encode(),
    st.one_of(DOCUMENTS, TEXTS.map(lambda text: text.decode(errors="replace"))),
    st.booleans(),
)
BROKEN = st.builds(
    lambda value, at, put: value[: at % len(value)] + put + value[at % len(value) + 1 :],
    JSON,
    st.integers(0, 100),
    st.one_of(
        st.sampled_from([b"", b"'", b'"', b",", b"}", b"{", b"e1", b".5", b"\\"]), st.binary(max_size=1)
    ),
)
ANY_MESSAGE = st.builds(
    Message,
    key=TEXTS,
    value=st.one_of(JSON, BROKEN, TEXTS),
    headers=st.lists(
        st.tuples(st.sampled_from(["ce_id", "ce_source", "tenant", "ce_time"]), TEXTS), max_size=6
    ).map(tuple),
)


@pytest.mark.parametrize("identity", [Identity(), BY_VALUE])
def test_identity_is_that_of_plain_python_whatever_is_sent(spark: SparkSession, identity: Identity) -> None:
    """Any bytes, any JSON, and JSON with a byte of it changed: all in one frame, for the sake of time."""
    made: list[Message] = []

    @settings(max_examples=1_500)
    @given(message=ANY_MESSAGE)
    def make(message: Message) -> None:
        made.append(message)

    make()
    check_identity(spark, made, identity)


def test_end_states_and_headers(spark: SparkSession, tmp_path: Path) -> None:
    """Every message ends as the oracle says, and tells in headers who it is, where it came from and why."""
    pipeline = make_pipeline(tmp_path, mode="transaction", prefix="p")
    made = list(messages(300))
    frame = end(with_identity(as_frame(spark, made), pipeline.identity), pipeline, assess)
    rows = {headers_of(row)["ce_id"]: row for row in frame.collect()}
    assert len(rows) == len(made)
    states: Counter[str] = Counter()
    for offset, message in enumerate(made):
        expected = judge(message)
        told = {name: value.decode() for name, value in message.headers}
        row = rows[told["ce_id"]]
        told |= {"holdfast_end_state": expected.end_state, "holdfast_origin": f"in/0@{offset}"}
        told |= {"holdfast_reason": expected.reason} if expected.reason else {}
        assert (bytes(row.value), bytes(row.key)) == (expected.value, message.key)
        assert headers_of(row) == told
        states[row.end_state] += 1
    assert set(states) == {"qualified", "not_qualified", "failed"}


def test_who_says_nothing_has_failed(spark: SparkSession, tmp_path: Path) -> None:
    """Without an id or a tenant, and with an end state that is none: failed, with the reason; nothing gets lost."""
    pipeline = make_pipeline(tmp_path, mode="transaction", prefix="p")
    forged = (("ce_id", b"9"), ("tenant", b"acme"), ("holdfast_end_state", b"qualified"))
    made = [*ODD, Message(key=b"k", value=b"lost", headers=forged)]

    def transform(frame: DataFrame) -> DataFrame:
        state = sql.when(sql.col("value") == b"lost", "losst").when(sql.col("id") == "2", sql.lit(None))
        return frame.withColumn("end_state", state.otherwise("qualified")).drop("headers", "key", "timestamp")

    frame = end(with_identity(as_frame(spark, made), pipeline.identity), pipeline, transform)
    rows = sorted(frame.collect(), key=lambda row: headers_of(row)["holdfast_origin"])
    assert [row.end_state for row in rows] == ["failed"] * len(made)
    assert [headers_of(row)["holdfast_reason"] for row in rows] == [
        "no id",
        "no tenant",
        "no id",
        "unknown end state null",
        "no tenant",
        "unknown end state losst",
    ]
    # The transform has dropped the headers: the identity is written anew.
    assert headers_of(rows[3]) == {
        "ce_id": "2",
        "tenant": "acme",
        "ce_time": "-1",
        "holdfast_end_state": "failed",
        "holdfast_origin": "in/0@3",
        "holdfast_reason": "unknown end state null",
    }
    assert {row.key for row in rows} == {None}


@pytest.mark.parametrize(
    ("mode", "changes_key", "is_kept"),
    [("adapter", False, True), ("transaction", False, True), ("adapter", True, False)],
)
def test_the_hash_of_a_key_goes_with_it(
    spark: SparkSession, tmp_path: Path, mode: str, changes_key: bool, is_kept: bool
) -> None:
    """A transform that makes another key makes the hash of the old one useless."""
    pipeline = make_pipeline(tmp_path, mode=mode, prefix="p")

    def change(frame: DataFrame) -> DataFrame:
        made = assess(frame)
        return made.withColumn("key", sql.concat("key", sql.lit("x").cast("binary"))) if changes_key else made

    frame = as_frame(spark, list(messages(5))).withColumn(KEY_HASH, sql.hash("key"))
    routed = route(end(with_identity(frame, pipeline.identity), pipeline, change), pipeline)
    assert (KEY_HASH in routed.columns) is is_kept
    if is_kept:
        kept = routed.select(KEY_HASH, sql.hash("key").alias("due")).collect()
        assert kept
        assert all(row[KEY_HASH] == row.due for row in kept)


@pytest.mark.parametrize("mode", ["adapter", "transaction"])
def test_topics(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    """Qualified messages to their topic, the others to audit; in a transaction audit is told of all of them."""
    pipeline = make_pipeline(tmp_path, mode=mode, prefix="p")
    made = list(messages(100))
    frame = route(end(with_identity(as_frame(spark, made), pipeline.identity), pipeline, assess), pipeline)
    assert set(frame.columns) == {"key", "value", "timestamp", "headers", "topic"}
    found = Counter((row.topic, headers_of(row)["ce_id"]) for row in frame.collect())
    expected: Counter[tuple[str, str]] = Counter()
    for message in made:
        name = dict(message.headers)["ce_id"].decode()
        is_qualified = judge(message).end_state == "qualified"
        if is_qualified:
            expected["p.qualified", name] += 1
        if not is_qualified or mode == "transaction":
            expected["p.audit", name] += 1
    assert found == expected


def test_books(spark: SparkSession, tmp_path: Path) -> None:
    """Counted per tenant, window and stage; both sides of a window have the same fingerprint."""
    pipeline = make_pipeline(tmp_path, mode="transaction", prefix="p")
    made = list(messages(200))
    identified = with_identity(as_frame(spark, made), pipeline.identity)
    window_ms = 6 * 3_600_000
    routed = route(end(identified, pipeline, assess), pipeline, window_ms=window_ms)
    sides = [
        add_up(count_noted(batch["noted"]) for batch in frame.select("noted").dropna().toArrow().to_batches())
        for frame in (ingested(identified, window_ms), routed)
    ]
    expected: Counter[tuple[str, int, str]] = Counter()
    for message in made:
        record = Record(key=message.key, value=message.value, headers=message.headers)
        found = identify(record, pipeline.identity)
        assert found.tenant is not None
        assert found.time_ms is not None
        for stage in ("ingested", judge(message).end_state):
            expected[found.tenant, found.time_ms // window_ms * window_ms, stage] += 1
    assert {place: sums.count for side in sides for place, sums in side.items()} == expected
    went_in, ended = (sum(side.values(), Sums()) for side in sides)
    assert ended.has_the_messages_of(went_in)
    assert len(sides[0]) == len({"acme", "globex", "initech"}) * 4


@pytest.mark.parametrize(
    ("transform", "told"),
    [
        (lambda frame: frame, "no column 'end_state'"),
        (lambda frame: frame.withColumn("end_state", sql.lit(1)), "end_state as int, not as string"),
        (lambda frame: frame.withColumn("end_state", sql.lit("failed")).drop("tenant"), "no column 'tenant'"),
        (
            lambda frame: frame.withColumn("end_state", sql.lit("failed")).withColumn("value", sql.lit(1)),
            "value as int",
        ),
        (lambda frame: None, "NoneType, not a DataFrame"),
    ],
)
def test_transforms_that_break_the_contract(
    spark: SparkSession, tmp_path: Path, transform: Any, told: str
) -> None:
    """Seen from the schema alone, before any message is touched."""
    pipeline = make_pipeline(tmp_path, mode="adapter", prefix="p")
    with pytest.raises(UsageError, match=told):
        end(with_identity(spark.createDataFrame([], SCHEMA), pipeline.identity), pipeline, transform)
