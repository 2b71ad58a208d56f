"""The doctor's fingerprints as a Spark job: the same findings, whichever way."""

from dataclasses import replace

from pyspark.sql import SparkSession

from holdfast.client.cluster import Cluster
from holdfast.client.endpoint import Endpoint
from holdfast.client.groups import TopicPartition
from holdfast.doctor.cluster import Chosen, examine_topics
from holdfast.doctor.examine import Examination, Limits
from holdfast.doctor.live import BrokerSource, Meter
from holdfast.doctor.on_spark import Reach, SparkPrinter
from holdfast.doctor.ranges import Prints
from tests.doctor.replica_cluster import PLACE, logs, replica_cluster

LENGTH, KEYS = 600, 80
SIZE, TASK = 16, 304


def examine(cluster: Cluster, session: SparkSession | None = None) -> Examination:
    reach = Reach(endpoint=Endpoint(cluster.bootstrap), bytes_per_second_max=100_000_000)

    def printer_of(place: TopicPartition) -> SparkPrinter:
        assert session is not None
        return SparkPrinter(session, reach, place, task_offsets=TASK)

    (examined,) = examine_topics(
        cluster,
        Chosen(topics=(cluster.topic(PLACE.topic),)),
        meter=Meter(),
        wait_s_max=0.0,
        limits=Limits(range_offsets=SIZE),
        printer_of=None if session is None else printer_of,
    )
    return examined


def test_the_same_findings(spark: SparkSession) -> None:
    """Tasks read the brokers themselves; the driver then reads what differs."""
    with (
        replica_cluster(logs(1, LENGTH, KEYS)) as brokers,
        Cluster(brokers.bootstrap, timeout=30.0) as cluster,
    ):
        plain = examine(cluster)
        assert plain.findings
        found = examine(cluster, spark)
        assert sorted(map(str, found.findings)) == sorted(map(str, plain.findings))
        assert (found.replicas, found.not_examined) == (plain.replicas, [])


def test_a_replica_that_tasks_cannot_read(spark: SparkSession) -> None:
    """Is told with its reason; of the others there are fingerprints."""
    with replica_cluster(logs(1, LENGTH, KEYS)) as brokers, Cluster(brokers.bootstrap) as cluster:
        reach = Reach(endpoint=Endpoint(cluster.bootstrap))
        there = BrokerSource(name=1, cluster=cluster, place=PLACE, meter=Meter())
        printer = SparkPrinter(spark, reach, PLACE, task_offsets=TASK)
        told = printer([there, replace(there, name=7)], 0, LENGTH, size=SIZE)
        assert isinstance(told[1], Prints)
        assert told[7] == f"the cluster at {cluster.bootstrap} has no node 7 at present"
