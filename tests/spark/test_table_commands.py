"""`sql`, `topic export` and `log diff` as people run them, on one node and on its stores' files."""

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import duckdb
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyarrow import parquet
from pyspark.sql import SparkSession

from holdfast.cli import spark_work
from holdfast.errors import QueryFailed
from holdfast.spark.export import export, new_directory
from tests.cli.commands import Answer, run_here
from tests.process import HoldfastProcess

ROWS = 1000
LARGE_BYTES = 4_000_000
FIRST_MS = 1_700_000_000_000
PROCESS_SECONDS_MAX = 110.0


@pytest.fixture(autouse=True)
def in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine lets a job last long enough for a line on how far it is."""
    monkeypatch.setattr(spark_work, "LINE_SECONDS", 1e9)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HoldfastProcess]:
    """Two nodes, with a topic of two partitions and one whose name is no plain word."""
    with HoldfastProcess(tmp_path_factory.mktemp("commands") / "data", "--nodes", "2") as process:
        client = AdminClient({"bootstrap.servers": process.bootstrap, "log_level": 0})
        for name, partitions in (("orders", 2), ("Orders", 1), ("web.clicks-1", 1), ("empty", 1)):
            client.create_topics([NewTopic(name, partitions, 2)])[name].result()
        producer = Producer({"bootstrap.servers": process.bootstrap, "log_level": 0, "linger.ms": 50})
        for number in range(ROWS):
            producer.produce(
                "orders",
                key=b"k%d" % (number % 7),
                value=None if number % 10 == 0 else b"%d" % number,
                timestamp=FIRST_MS + number,
                headers=[("n", b"%d" % number)] if number % 3 == 0 else None,
            )
        producer.produce("Orders", key=b"k", value=b"another topic", timestamp=FIRST_MS)
        producer.produce("web.clicks-1", key=b"\xff\x00", value="grün".encode(), timestamp=FIRST_MS)
        assert producer.flush(30) == 0
        yield process
        assert process.stop() == 0
        assert "Traceback" not in process.log


def run(*arguments: str) -> Answer:
    """In this process, which has a session already; what it says and its exit code."""
    answered = run_here(*arguments)
    assert "Traceback" not in answered.err
    return answered


def refused(*arguments: str, code: int) -> str:
    """The one line that it says."""
    answer = run(*arguments)
    assert (answer.code, answer.out) == (code, b""), answer
    (line,) = answer.err.splitlines()
    return line.removeprefix("holdfast: ")


def test_a_query_and_how_it_is_shown(spark: SparkSession, log: HoldfastProcess) -> None:
    """Topics are tables of their names; two of them in one query; text where bytes are text."""
    where = ("-b", log.bootstrap)
    found = run(
        "sql", "SELECT count(*) AS n, sum(offset) AS s FROM orders WHERE key = 'k3'", "--json", *where
    )
    assert (found.code, found.err) == (0, "")
    assert found.lines[0]["n"] == len(range(3, ROWS, 7))
    joined = "SELECT c.value, o.key FROM `web.clicks-1` c CROSS JOIN orders o WHERE o.value = '995' -- a pair"
    assert run("sql", joined, "--json", *where).lines == [{"value": "grün", "key": f"k{995 % 7}"}]
    clicks = "SELECT key, value, array(struct(key, date '2026-01-31' AS d)) AS a FROM `web.clicks-1`;"
    titles, row = run("sql", clicks, *where).text.splitlines()
    assert titles.split() == ["key", "value", "a"]
    assert row.split()[:2] == ["0xff00", "grün"]
    assert row.endswith('[{"key": {"base64": "/wA="}, "d": "2026-01-31"}]')
    assert run("sql", "SELECT 1 + 1 AS two", "--json", *where).lines == [{"two": 2}]


def test_topics_whose_names_differ_in_case(spark: SparkSession, log: HoldfastProcess) -> None:
    """Each is itself, together or alone; columns are found in any case as long as no topic is mistaken for another."""
    where = ("-b", log.bootstrap, "--json")
    both = "SELECT (SELECT count(*) FROM orders) AS lower, (SELECT count(*) FROM Orders) AS upper"
    assert run("sql", both, *where).lines == [{"lower": ROWS, "upper": 1}]
    joined = "SELECT o.value FROM orders l RIGHT JOIN Orders o ON l.key = o.key"
    assert run("sql", joined, *where).lines == [{"value": "another topic"}]
    alone = "SELECT COUNT(KEY) AS Found FROM Orders WHERE VALUE != 'orders' HAVING found > 0"
    assert run("sql", alone, *where).lines == [{"Found": 1}]
    mixed = "SELECT a.key FROM (SELECT KEY FROM orders) a JOIN Orders b"
    line = refused("sql", mixed, "-b", log.bootstrap, code=2)
    assert line.startswith(
        "orders and Orders may be two topics: write the name everywhere as the topic has it"
    )
    assert spark.conf.get("spark.sql.caseSensitive") == "false"


def test_json_loses_nothing(spark: SparkSession, log: HoldfastProcess) -> None:
    """Columns of the same name are numbered, also within rows, and numbers that JSON has no word for are strings."""
    query = (
        "SELECT a.offset, b.offset, b.offset + 5 AS offset_2, double('NaN') AS n, array(double('-inf'), 1.5D) AS i,"
        " struct(a.offset, b.offset) AS s FROM orders a JOIN orders b ON b.offset = a.offset + 1"
        " AND a.partition = b.partition WHERE a.offset = 3 LIMIT 1"
    )
    found = run("sql", query, "--json", "-b", log.bootstrap)
    assert found.lines == [
        {
            "offset": 3,
            "offset_3": 4,
            "offset_2": 9,
            "n": "NaN",
            "i": ["-Infinity", 1.5],
            "s": {"offset": 3, "offset_2": 4},
        }
    ]
    assert found.err == "columns of the same name are numbered: offset, offset_3, offset_2, n, i, s\n"


def test_moments_are_in_utc(
    spark: SparkSession, log: HoldfastProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever one is, and said so; what has no time zone is given none. The session's own is left as it was."""
    query = (
        "SELECT timestamp, hour(timestamp) AS h, array(timestamp) AS a, timestamp_ntz'2026-01-31 01:02:03' AS n"
        " FROM `web.clicks-1`"
    )
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        (row,) = run("sql", query, "--json", "-b", log.bootstrap).lines
        shown = run("sql", query, "-b", log.bootstrap).text
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Kolkata"
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
        monkeypatch.undo()
        time.tzset()
    first = "2023-11-14T22:13:20Z"
    assert row == {"timestamp": first, "h": 22, "a": [first], "n": "2026-01-31T01:02:03"}
    assert shown.splitlines()[1].split() == [first, "22", f'["{first}"]', "2026-01-31T01:02:03"]


@pytest.mark.parametrize("way", [["--replica", "2"], ["--through", "agent"]])
def test_the_same_by_every_way(spark: SparkSession, log: HoldfastProcess, way: list[str]) -> None:
    """A replica's files, and through an agent."""
    query = "SELECT partition, count(*) AS n, max(offset) AS m FROM orders GROUP BY 1 ORDER BY 1"
    found = run("sql", query, "--json", "-b", log.bootstrap, *way).lines
    assert sum(row["n"] for row in found) == ROWS
    assert [row["m"] + 1 for row in found] == [row["n"] for row in found]


def test_a_limit(spark: SparkSession, log: HoldfastProcess) -> None:
    """What is left out is said."""
    some = run("sql", "SELECT offset FROM orders", "--limit", "3", "--data", str(log.data), "--json")
    assert (len(some.lines), some.err) == (3, "only the first 3 rows are shown: --limit 0 shows all\n")
    everything = run("sql", "SELECT offset FROM orders", "--limit", "0", "--data", str(log.data), "--json")
    assert len(everything.lines) == ROWS


def test_what_is_wrong_is_said_in_one_line(spark: SparkSession, log: HoldfastProcess, tmp_path: Path) -> None:
    """Bad SQL, unknown topics, stores out of reach: no stack, and the exit code for it."""
    where = ("-b", log.bootstrap)
    assert "Syntax error" in refused("sql", "SELEC 1", *where, code=2)
    assert "not a query" in refused("sql", "CREATE TABLE x AS SELECT 1 AS a", *where, code=2)
    assert "`nothing` cannot be resolved" in refused("sql", "SELECT nothing FROM orders", *where, code=2)
    assert "`web.clicks-1`" in refused("sql", "SELECT * FROM web.`clicks-1`", *where, code=2)
    for name in ("web.clicks-1", "web-clicks", "a.b.c-d"):
        query = f"SELECT * FROM {name} WHERE key = 'from a-b'"
        assert f"write the topic in backticks: `{name}`" in refused("sql", query, *where, code=2)
    assert "backticks" not in refused("sql", "SELEC 'x' FROM orders -- from 'a-b'", *where, code=2)
    assert "there is no query" in refused("sql", " ;", *where, code=2)
    no_name = "cannot be the name of a topic"
    assert no_name in refused("sql", "SELECT * FROM `orders,Orders`", *where, code=2)
    assert no_name in refused("topic", "export", "orders,Orders", str(tmp_path / "new"), *where, code=2)
    assert no_name in refused("topic", "export", "", str(tmp_path / "new"), "--data", str(log.data), code=2)
    agent = ("--through", "agent", "--data", str(log.data))
    assert "name an agent, with --bootstrap" in refused("sql", "SELECT * FROM orders", *agent, code=2)
    assert "'absent'" in refused("sql", "SELECT * FROM absent", *where, code=1)
    assert "'absent'" in refused("sql", "SELECT * FROM absent", "--through", "agent", *where, code=1)
    assert "store 9" in refused("sql", "SELECT * FROM orders", "--replica", "9", *where, code=1)
    assert str(tmp_path) in refused("sql", "SELECT * FROM orders", "--data", str(tmp_path), code=1)
    assert "127.0.0.1:1" in refused("sql", "SELECT * FROM orders", "-b", "127.0.0.1:1", code=1)
    assert str(tmp_path) in refused("log", "diff", "orders", "--data", str(tmp_path), code=3)
    assert "'absent'" in refused("log", "diff", "absent", "--data", str(log.data), code=3)


def test_an_export_that_fails_leaves_nothing(
    spark: SparkSession, log: HoldfastProcess, tmp_path: Path
) -> None:
    """Before Spark starts where that can be known; what was there before stays, what was made for it goes."""
    where = ("-b", log.bootstrap)
    assert "'absent'" in refused("topic", "export", "absent", str(tmp_path / "new" / "er"), *where, code=1)
    assert not (tmp_path / "new").exists()
    (tmp_path / "empty").mkdir()
    assert "'absent'" in refused("topic", "export", "absent", str(tmp_path / "empty"), *where, code=1)
    assert list(tmp_path.iterdir()) == [tmp_path / "empty"]
    nowhere = ("--master", "no master is asked", *where)
    assert "not an empty" in refused("topic", "export", "orders", str(tmp_path), *nowhere, code=2)
    (tmp_path / "file").touch()
    for directory, why in (
        ("/proc/x", "cannot write to /proc/x: No such file or directory"),
        (f"{tmp_path}/file/x", f"cannot write to {tmp_path}/file/x: Not a directory"),
        (f"{tmp_path}/\udcff", "a byte of it is not UTF-8"),
    ):
        assert why in refused("topic", "export", "orders", directory, *nowhere, code=2)
    assert len(list(tmp_path.iterdir())) == 2


def test_what_fails_takes_nothing_of_others_away(tmp_path: Path) -> None:
    """Somebody else may have made use of a directory that was made for it."""

    def fail() -> None:
        with new_directory(tmp_path / "out" / "here") as made:
            (made / "part").touch()
            (tmp_path / "out" / "beside").touch()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list((tmp_path / "out").iterdir()) == [tmp_path / "out" / "beside"]


@pytest.mark.parametrize("name", ["exp sp", "50%20 #1?é", "a*[b]{c,d}:\\e'\"~"])
def test_an_export_is_where_it_was_asked_for(
    spark: SparkSession, log: HoldfastProcess, tmp_path: Path, name: str
) -> None:
    """Whatever characters its directory has; a topic without records is a file without rows."""
    for topic, rows in (("web.clicks-1", 1), ("empty", 0)):
        directory = tmp_path / name / topic
        done = run("topic", "export", topic, str(directory), "-b", log.bootstrap, "--json")
        assert done.code == 0, done.err
        files = list(directory.glob("*.parquet"))
        assert (done.json["files"], sum(parquet.read_table(file).num_rows for file in files)) == (1, rows)
        assert done.json["bytes"] == sum(file.stat().st_size for file in files)
    assert list(tmp_path.iterdir()) == [tmp_path / name]


def test_an_export_that_nobody_sees_has_failed(tmp_path: Path) -> None:
    """Such as one of tasks whose machines do not share the directory."""
    with pytest.raises(QueryFailed, match="no Parquet file"):
        export(Mock(), Mock(), "orders", tmp_path)


def test_an_export_that_fails_in_the_middle(log: HoldfastProcess, tmp_path: Path) -> None:
    """A process that may not write large files: one line says it, and no word of Java's."""
    producer = Producer({"bootstrap.servers": log.bootstrap, "log_level": 0, "linger.ms": 50})
    chance = random.Random(5)
    for _ in range(LARGE_BYTES // 10_000):
        producer.produce("large", value=chance.randbytes(10_000))
    assert producer.flush(30) == 0
    words = ["topic", "export", "large", str(tmp_path / "out"), "-b", log.bootstrap, "--master", "local[1]"]
    limited = ["sh", "-c", f'ulimit -f {LARGE_BYTES // 2 // 512}; exec "$@"', "sh"]
    found = subprocess.run(
        [*limited, sys.executable, "-m", "holdfast", *words],
        capture_output=True,
        timeout=PROCESS_SECONDS_MAX,
        check=False,
    )
    assert (found.returncode, found.stdout) == (1, b"")
    # A busy machine lets it last long enough for a line on how far it is.
    said = [line for line in found.stderr.decode().splitlines() if not line.startswith("exporting large")]
    assert said == ["holdfast: IOException: File too large"]
    assert not (tmp_path / "out").exists()


def test_a_store_that_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    """A replica that is asked for is not asked of its agent, which has no more of it: one line says what to do."""
    (tmp_path / "patient.toml").write_text("return_seconds = 3600\n")
    patient = ("--config", str(tmp_path / "patient.toml"))
    with HoldfastProcess(tmp_path / "data", "--nodes", "2", *patient) as process:
        client = AdminClient({"bootstrap.servers": process.bootstrap, "log_level": 0})
        client.create_topics([NewTopic("orders", 1, 2)])["orders"].result()
        store = process.data / "stores" / "2"
        store.rename(tmp_path / "away")
        try:
            for where in (("-b", process.bootstrap), ("--data", str(process.data))):
                line = refused("sql", "SELECT * FROM orders", "--replica", "2", *where, code=1)
                assert line.startswith(f"replica 2 cannot be read here: {store}/store.json is missing")
                assert "read another one with the option replica" in line
        finally:
            (tmp_path / "away").rename(store)


def test_an_export_read_by_duckdb(spark: SparkSession, log: HoldfastProcess, tmp_path: Path) -> None:
    """Every column of every record, nulls included, as another engine reads it."""
    (tmp_path / "empty").mkdir()
    done = run("topic", "export", "orders", str(tmp_path / "empty"), "-b", log.bootstrap, "--json")
    assert done.code == 0, done.err
    assert done.json["files"] > 0
    with duckdb.connect() as database:
        found = database.execute(
            'SELECT partition, "offset", key, value, topic, epoch_ms(timestamp), timestampType, headers '
            f"FROM read_parquet('{tmp_path}/empty/*.parquet') ORDER BY 6"
        ).fetchall()
    assert [row[2:] for row in found] == [
        (
            b"k%d" % (number % 7),
            None if number % 10 == 0 else b"%d" % number,
            "orders",
            FIRST_MS + number,
            0,
            [{"key": "n", "value": b"%d" % number}] if number % 3 == 0 else None,
        )
        for number in range(ROWS)
    ]
    expected = spark.read.format("holdfast").option("bootstrap", log.bootstrap).option("topic", "orders")
    read = expected.option("through", "agent").load().select("partition", "offset").collect()
    assert sorted(row[:2] for row in found) == sorted(map(tuple, read))


def test_replicas_compared(spark: SparkSession, log: HoldfastProcess) -> None:
    """Equal ones, for people and for programs; then a byte is flipped in a journal, and is named."""
    equal = run("log", "diff", "orders", "--data", str(log.data))
    assert (equal.code, equal.err) == (0, "")
    assert equal.text.startswith(
        "orders, 2 partitions on stores 1, 2: equal up to the last stable offsets 0:"
    )
    (journal,) = (log.data / "stores" / "2" / "journal").iterdir()
    with journal.open("r+b") as file:
        position = journal.read_bytes().index("grün".encode())
        file.seek(position)
        file.write(b"G")
    try:
        found = run("log", "diff", "web.clicks-1", "--data", str(log.data))
        assert found.code == 1
        damaged, lacking, verdict = found.text.splitlines()
        assert f"store 2 is damaged: {journal} at byte " in damaged
        assert "CRC" in damaged
        assert lacking == (
            "web.clicks-1:0: key 0xff00: last written at offset 0, but store 2 has nothing of it"
        )
        assert verdict == "web.clicks-1, 1 partition on stores 1, 2: 2 differences"
        lines = run("log", "diff", "web.clicks-1", "--data", str(log.data), "--json").lines
        assert [line["kind"] for line in lines] == ["damage", "difference", "summary"]
        assert lines[1]["held"] == {"1": 0, "2": None}
        assert lines[2]["partitions"][0]["last_stable"] == 1
        line = refused("sql", "SELECT * FROM `web.clicks-1`", "--replica", "2", "-b", log.bootstrap, code=1)
        assert "replica 2 is damaged" in line
    finally:
        with journal.open("r+b") as file:
            file.seek(position)
            file.write(b"g")


def test_in_a_process_of_its_own(log: HoldfastProcess) -> None:
    """A session is started and ended in silence; of a job that fails no word of Java's reaches the terminal."""
    words = [
        "sql",
        "SELECT 1 / (offset - offset) FROM orders",
        "--data",
        str(log.data),
        "--master",
        "local[1]",
    ]
    found = subprocess.run(
        [sys.executable, "-m", "holdfast", *words],
        capture_output=True,
        timeout=PROCESS_SECONDS_MAX,
        check=False,
    )
    assert (found.returncode, found.stdout) == (1, b"")
    (line,) = found.stderr.decode().splitlines()
    assert line.startswith("holdfast: Division by zero.")
