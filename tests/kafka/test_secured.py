"""Doctor and guard on real brokers that let nobody in without TLS, a certificate and a password, and tell little."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.client.cluster import Cluster
from holdfast.client.endpoint import Endpoint
from holdfast.client.producer import Producer
from holdfast.client.security import parse_security
from holdfast.client.topics import create_topic
from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.records.record import Record
from tests.kafka.secured import BLIND, MECHANISMS, REAUTHENTICATION_MS, VIEWER, Secured

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module", autouse=True)
def written(secured: Secured) -> None:
    """Two topics; `viewer` may look at all of them, `blind` knows of one that it is there."""
    _write(secured.plain)
    secured.let_in(VIEWER)
    secured.allow(VIEWER, "DESCRIBE DESCRIBE_CONFIGS READ", "*")
    secured.allow(BLIND, "DESCRIBE", "table")


def _write(bootstrap: str) -> None:
    with Cluster(bootstrap) as cluster:
        for name in ("table", "other"):
            create_topic(
                cluster, name, assignments={0: [1, 2], 1: [2, 1]}, configs={"cleanup.policy": "compact"}
            )
        Producer(cluster, "table").send({0: [Record(key=b"k", value=b"v"), Record(key=b"k", value=None)]})
        producer = TransactionalProducer(cluster, "p")
        producer.init()
        producer.begin()
        producer.send("table", 1, [Record(key=b"t", value=b"1")])
        producer.commit()


def _patiently(look: Callable[[], bool]) -> None:
    """Rights and passwords reach each broker a moment after they were granted."""
    deadline = time.monotonic() + 60
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_viewer_sees_all_replicas(secured: Secured, mechanism: str) -> None:
    """With the rights to look, and nothing more, on each broker through its own secured connection."""
    arguments = ("doctor", "--topic", "table", "--json", *secured.options(VIEWER, mechanism))
    _patiently(lambda: secured.command.run(*arguments).code == 0)
    answer = secured.command.run(*arguments)
    assert (answer.code, answer.json["not_examined"]) == (0, [])
    assert [each["replicas"] for each in answer.json["examined"]] == [[1, 2], [1, 2]]


def test_other_commands_come_in_by_the_same_options(secured: Secured) -> None:
    """Topics are listed and read; what the user may not do is refused in one line."""
    options = secured.options(VIEWER)
    assert "table" in [each["name"] for each in secured.command.ok("topic", "list", "--json", *options).json]
    records = secured.command.ok("consume", "table", "--json", *options).lines
    assert {each["key"] for each in records} == {"k", "t"}
    for verb in (("group", "list"), ("txn", "list")):
        assert secured.command.ok(*verb, *options).text == ""
    told = secured.command.refused("produce", "table", "--key", "k", "--value", "v", *options)
    assert "AUTHORIZATION" in told


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"sasl_password": "wrong"},
            "does not take user 'viewer' and the password for it (Authentication failed",
        ),
        ({"sasl_mechanism": "SCRAM-SHA-512", "sasl_password": "wrong"}, "does not take user 'viewer'"),
        ({"ssl_ca_location": ""}, "its certificate: "),
        ({"ssl_certificate_location": "", "ssl_key_location": "", "ssl_key_password": ""}, "TLS"),
        (
            {"security_protocol": "SSL", "sasl_mechanism": "", "sasl_username": "", "sasl_password": ""},
            "broke off",
        ),
    ],
)
def test_strangers(secured: Secured, changed: dict[str, str], said: str, tmp_path: Path) -> None:
    """One line that says what does not fit, and exit code 3, of the repair and of the guard, too."""
    options = secured.options(VIEWER, **changed)
    guard = ("guard", "--state", str(tmp_path / "guard.json"))
    for verb in (("doctor",), ("doctor", "repair", "table:0:1", "--dry-run"), guard):
        line = secured.command.refused(*verb, *options, code=3)
        assert said in line
        assert "wrong" not in line


def test_rights_that_are_missing(secured: Secured) -> None:
    """Which one, and on what: of the topics and, for a repair, of the cluster."""
    blind = secured.options(BLIND)
    answer = secured.command.run("doctor", *blind)
    assert (answer.code, answer.text.splitlines()) == (
        3,
        [
            "table (2 partitions)  not examined: the right DescribeConfigs on topic 'table' is missing",
            "0 partitions compared, 0 differences",
        ],
    )
    said = secured.command.refused("doctor", "--topic", "other", *blind, code=3)
    assert said == "the right Describe on topic 'other' is missing"
    secured.allow(BLIND, "DESCRIBE_CONFIGS", "table")
    wanted = "table (2 partitions)  not examined: the right Read on topic 'table' is missing"
    _patiently(lambda: wanted in secured.command.run("doctor", *blind).text)
    answer = secured.command.run("doctor", "repair", "table:0:2", "--yes", *secured.options(VIEWER))
    assert (answer.code, answer.err.splitlines()[-1]) == (
        3,
        "holdfast: the right Alter on the cluster is missing",
    )


def test_a_guard_that_may_only_look(secured: Secured, tmp_path: Path) -> None:
    """It is told so before anything is paused."""
    arguments = ("guard", "--state", str(tmp_path / "guard.json"), "--topic", "table")
    said = secured.command.refused(*arguments, *secured.options(VIEWER), code=3)
    assert said == "the right AlterConfigs on topic 'table' is missing"


def test_the_brokers_ask_again_who_we_are(secured: Secured) -> None:
    """They hang up on a client that does not prove it anew in time (KIP-368)."""
    with Cluster(Endpoint(secured.bootstrap, parse_security(secured.properties(VIEWER)))) as cluster:
        connection = cluster.any_broker()
        deadline = time.monotonic() + 2.5 * REAUTHENTICATION_MS / 1000
        while time.monotonic() < deadline:
            assert "table" in cluster.metadata().topics
            assert cluster.any_broker() is connection
            time.sleep(0.2)
