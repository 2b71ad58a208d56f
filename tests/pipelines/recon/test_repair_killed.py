"""A repair that is killed in its transaction has forwarded nothing, and the next one everything, once."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from holdfast.cli.recon import recon
from holdfast.client.cluster import Cluster
from holdfast.pipelines.recon.looking import view_partitions
from tests.pipelines.recon.scenes import DAY, Scene
from tests.pipelines.runs import consume

NOON = DAY.start_ms + 43_200_000
LOST = 30
SENT = "everything is sent"
STOPPING_BEFORE_THE_COMMIT = f"""
import signal
from holdfast.cli.main import main
from holdfast.client.transactional_producer import TransactionalProducer

def commit(self):
    print({SENT!r}, flush=True)
    signal.pause()

TransactionalProducer.commit = commit
main()
"""


@pytest.mark.kills
@pytest.mark.timeout(600)
def test_a_repair_killed_in_its_transaction_is_made_up_for_by_the_next(
    spark: SparkSession, cluster: Cluster, bootstrap: str, tmp_path: Path
) -> None:
    assert spark is not None
    scene = Scene(cluster, tmp_path, "repair-killed")
    scene.create_topics()
    for number in range(LOST):
        scene.ingest("acme", f"id-{number}", NOON)
        scene.deliver("acme", f"id-{number}", NOON)
    scene.write()
    words = ["repair", "acme", DAY.date.isoformat(), "--pipeline", str(scene.pipeline.path)]
    log = tmp_path / "repair.log"
    command = [sys.executable, "-c", STOPPING_BEFORE_THE_COMMIT, "recon", *words]
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            assert SENT in process.stdout.readline(), log.read_text()
        finally:
            os.kill(process.pid, signal.SIGKILL)
    audit = scene.pipeline.audit
    views = [view for view in view_partitions(cluster, scene.pipeline) if view.topic == audit]
    assert sum(view.end - view.read_to for view in views) == LOST
    assert consume(bootstrap, audit) == []
    repaired = CliRunner().invoke(recon, words)
    assert repaired.exit_code == 0
    assert f"{LOST} messages forwarded" in repaired.stdout
    ids = sorted(dict(message.headers())["ce_id"].decode() for message in consume(bootstrap, audit))
    assert ids == sorted(f"id-{number}" for number in range(LOST))
    assert CliRunner().invoke(recon, ["close", *words[1:]]).exit_code == 0
