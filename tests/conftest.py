"""What all tests share: kafka-python imported quietly, fixed examples, the broker that clients talk to."""

import gc
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.process import HoldfastProcess
from tests.turns import Turns, put_in_turn

with warnings.catch_warnings():
    # kafka-python reads its schemas in a way that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.protocol.admin
    import kafka.protocol.consumer
    import kafka.protocol.metadata
    import kafka.protocol.producer

if TYPE_CHECKING:
    from holdfast.lab.kafka_broker import KafkaCluster

assert kafka

# The same examples in every run, and no verdict on how long one takes: that a machine is busy is no fault of the code.
settings.register_profile(
    "tests", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tests")

# A shell that runs the tests in the background lets them ignore ^C, and with them every process that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

DAY_MS = "86400000"
KAFKA_PROPERTIES = {
    "group.min.session.timeout.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    # Records of these tests bear fixed times of years ago: no round of retention may come in between.
    "log.initial.task.delay.ms": DAY_MS,
    "log.retention.check.interval.ms": DAY_MS,
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make test-kafka` names a version here."""
    parser.addoption(
        "--kafka", metavar="VERSION", help="run client tests against this Apache Kafka, and tests/kafka too"
    )
    parser.addoption(
        "--cluster", action="store_true", help="run tests/cluster, which needs a Java of the system"
    )
    parser.addoption("--connector", metavar="DIR", help="run tests/connector with the jars that are there")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """tests/kafka, tests/cluster and tests/connector need more than others: they are there for those who ask."""
    wanted = {
        "kafka": config.getoption("kafka") is not None,
        "cluster": config.getoption("cluster"),
        "connector": config.getoption("connector") is not None,
    }
    return None if wanted.get(collection_path.name, True) else True


def pytest_configure(config: pytest.Config) -> None:
    """Markers."""
    config.addinivalue_line("markers", "holdfast_only: not what Kafka does; docs/unsupported.md says why")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Kafka is not asked for what only Holdfast does; several processes take their turns."""
    if config.getoption("kafka") is not None:
        items[:] = [item for item in items if item.get_closest_marker("holdfast_only") is None]
    if hasattr(config, "workerinput"):
        put_in_turn(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Turns | None:
    """What `tests/turns.py` says."""
    return Turns(config, log) if config.getoption("dist") == "loadfile" else None


def let_go_of_clients() -> None:
    """An error that a test expected keeps the client that raised it, which would say for ever that nobody answers."""
    gc.collect()


@pytest.fixture(scope="module")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator["KafkaCluster | HoldfastProcess"]:
    """What client tests talk to: a Holdfast process, or with `--kafka` Apache Kafka."""
    if request.config.getoption("kafka") is not None:
        yield request.getfixturevalue("kafka_cluster")
        return
    with HoldfastProcess(tmp_path_factory.mktemp("broker") / "data") as process:
        yield process
        let_go_of_clients()
        assert process.stop() == 0
        assert "Traceback" not in process.log


@pytest.fixture(scope="session")
def kafka_cluster(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator["KafkaCluster"]:
    """One node of the Apache Kafka that `--kafka` names."""
    from holdfast.lab.kafka_broker import KafkaCluster, find_release

    jars = find_release(pytestconfig.getoption("kafka"), pytestconfig.rootpath / "build" / "kafka")
    with KafkaCluster(tmp_path_factory.mktemp("kafka"), jars=jars, properties=KAFKA_PROPERTIES) as cluster:
        yield cluster
        let_go_of_clients()
