"""Three brokers of Apache Kafka in a directory that goes with them."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from holdfast.lab.kafka_broker import STARTS_FAST, KafkaCluster, find_release


@contextmanager
def three_brokers(version: str, properties: Mapping[str, str]) -> Iterator[tuple[KafkaCluster, Path]]:
    """Running, with the directory that they are in."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name,
        KafkaCluster(
            Path(name),
            jars=find_release(version),
            nodes=3,
            properties=properties,
            heap_mb=400,
            log_level="ERROR",
            java_options=STARTS_FAST,
        ) as brokers,
    ):
        yield brokers, Path(name)
