"""Java clients that consume, transform and produce, killed at random: what goes in comes out, once and in order."""

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.client.cluster import Cluster
from holdfast.client.offsets import Isolation
from holdfast.client.producer import Producer
from holdfast.client.topics import create_topic
from holdfast.lab.kafka_broker import find_release
from holdfast.records.build import Record
from tests.agent.reading import values
from tests.kafka.copier import Copier

COPIERS = 3
KILLS = 2
RECORDS = 400
TRANSACTION_SIZE = 20
LINES_MAX = 7
"""Of progress before a kill: a third of the work at most, so that each kill finds something to do."""
PAUSE_S_MAX = 0.2
SECONDS_MAX = 400


def work(copier: Copier, seed: str) -> int:
    """Runs, is killed and runs again; returns how the last run ended."""
    chance = random.Random(seed)
    for _ in range(KILLS):
        copier.run_until_killed(chance.randint(1, LINES_MAX), chance.uniform(0, PAUSE_S_MAX))
    return copier.run_to_the_end()


@pytest.mark.timeout(SECONDS_MAX)
@pytest.mark.parametrize("seed", [20_240_607])
@pytest.mark.parametrize("group_mode", [False, True], ids=["assigned", "group"])
def test_killed_copiers(
    transactional: str, group_mode: bool, seed: int, pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    """Each copier has a share; SIGKILL strikes between and within transactions, some of which abort."""
    jars = find_release(pytestconfig.getoption("kafka"), pytestconfig.rootpath / "build" / "kafka")
    source, target = (f"copiers.{group_mode}.{end}" for end in ("in", "out"))
    given = [[f"{partition}-{number}" for number in range(RECORDS)] for partition in range(COPIERS)]
    with Cluster(transactional) as cluster, ThreadPoolExecutor(COPIERS) as workers:
        for topic in (source, target):
            create_topic(cluster, topic, partitions=COPIERS)
        Producer(cluster, source).send(
            {
                partition: [Record(value=each.encode()) for each in all_]
                for partition, all_ in enumerate(given)
            }
        )
        copiers = [
            Copier(transactional, jars, tmp_path, source, target, partition, TRANSACTION_SIZE, group_mode)
            for partition in range(COPIERS)
        ]
        ended = list(workers.map(work, copiers, [f"{seed}/{partition}" for partition in range(COPIERS)]))
        assert ended == [0] * COPIERS, "".join(log.read_text()[-2000:] for log in tmp_path.iterdir())
        if group_mode:
            _finish(cluster, copiers[0])
        assert values(cluster, target, COPIERS) == given
        written = values(cluster, target, COPIERS, Isolation.READ_UNCOMMITTED)
        assert sum(map(len, written)) > COPIERS * RECORDS, "nothing was ever aborted: this proved little"


def _finish(cluster: Cluster, copier: Copier) -> None:
    """Until nothing is left to copy, in transactions that are open no more; the test's own time-out is the bound.

    A copier ends when its share is done. One that joined while the group took a killed member for alive may have had no
    share at all; and a share of the dead is given to nobody if all others have ended by then.
    """
    while any(len(each) < RECORDS for each in values(cluster, copier.target, COPIERS)):
        assert copier.run_to_the_end() == 0
