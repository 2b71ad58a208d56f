"""The brokers of the engine `kafka`: how many, with which settings, and gone at the end, however that comes."""

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Final

from holdfast.client.cluster import Cluster
from holdfast.client.topics import create_topic
from holdfast.errors import UsageError
from holdfast.lab import steps
from holdfast.lab.engines.kafka import HANDLERS, PATIENCE_SECONDS, KafkaEngine
from holdfast.lab.engines.kafka_guard import beside
from holdfast.lab.engines.kafka_options import KafkaOptions
from holdfast.lab.engines.kafka_timing import timing_of
from holdfast.lab.engines.kafka_writers import TOPIC, open_writers
from holdfast.lab.kafka_broker import STARTS_FAST, KafkaCluster, find_release
from holdfast.lab.scenario import Scenario

HEAP_MB: Final = 400
ANSWER_SECONDS_MAX: Final = 20.0


@contextmanager
def open_engine(scenario: Scenario, options: KafkaOptions) -> Iterator[KafkaEngine]:
    """The engine on brokers of its own, which are gone afterwards, however that comes."""
    check_steps(scenario)
    timing = timing_of(scenario, options.within_ms)
    jars = find_release(options.version)
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-lab-", ignore_cleanup_errors=True) as directory,
        KafkaCluster(
            Path(directory),
            jars=jars,
            nodes=nodes_of(scenario),
            properties=timing.broker_properties(scenario.config),
            heap_mb=HEAP_MB,
            log_level="ERROR",
            java_options=STARTS_FAST,
        ) as brokers,
        Cluster(brokers.bootstrap, timeout=ANSWER_SECONDS_MAX, patience_s=PATIENCE_SECONDS) as clients,
    ):
        create_topic(
            clients,
            TOPIC,
            assignments={0: range(1, scenario.replicas + 1)},
            configs=timing.topic_configs(scenario.config),
        )
        with (
            closing(open_writers(options.client, clients, jars=jars, directory=Path(directory))) as writers,
            beside(Path(directory), brokers.bootstrap) if options.guard else nullcontext() as guard,
        ):
            yield KafkaEngine(
                scenario, brokers=brokers, clients=clients, writers=writers, timing=timing, guard=guard
            )


def check_steps(scenario: Scenario) -> None:
    """UsageError that names the first line with a step that nobody can make real brokers take."""
    for line in scenario.lines:
        for step in line.steps:
            partly = isinstance(step, steps.Fetch) and step.batches is not None
            if type(step) not in HANDLERS or partly:
                raise UsageError(
                    f"scenario {scenario.name}, line {line.number} ({line.text}):"
                    f" the engine kafka has no step {type(step).__name__}{' of some batches' if partly else ''}"
                )


def nodes_of(scenario: Scenario) -> int:
    """A broker for each replica, and as many more as it takes for most to be up: each has a vote as controller."""
    away: set[int] = set()
    most = 0
    for step in (step for line in scenario.lines for step in line.steps):
        if isinstance(step, steps.Kill | steps.Lag):
            away.add(step.replica)
        elif isinstance(step, steps.Return | steps.Fetch):
            away.discard(step.replica)
        most = max(most, len(away))
    return max(scenario.replicas, 2 * most + 1)
