"""What people see of a running pipeline where there is no terminal: few lines, with rate, lag and end states."""

from dataclasses import replace

import pytest

from holdfast.cli.pipeline_view import LiveView, print_status
from holdfast.client.cluster import Cluster
from holdfast.client.endpoint import Endpoint
from holdfast.client.producer import Producer
from holdfast.client.topics import create_topic
from holdfast.pipelines.loading import load_pipeline
from holdfast.pipelines.state import PartState, QueryState
from holdfast.pipelines.status import PartStatus
from holdfast.records.record import Record
from tests.pipelines.files import EXAMPLE


def state(phase: str, rows: int) -> PartState:
    """A service that has read so many of a hundred."""
    query = QueryState(
        name="service",
        topic="view",
        group="g",
        batch_id=3,
        rows=rows,
        positions={"0": rows},
        messages={"ingested": rows, "qualified": rows - 1, "failed": 1},
        given_up={"view.audit": 2},
    )
    return PartState(
        pid=1, started_ms=0, updated_ms=0, phase=phase, spark_ui="http://127.0.0.1:4040", queries=(query,)
    )


def test_lines(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The address at once, a line when something begins, and then one every ten seconds."""
    create_topic(cluster, "view", partitions=1)
    Producer(cluster, "view").send({0: [Record(value=b"x")] * 100})
    now = 1000.0
    view = LiveView("service", Endpoint(cluster.bootstrap), clock=lambda: now)
    view.show(state("running", 40))
    for _ in range(9):
        now += 1.0
        view.show(state("running", 50))
    now += 1.0
    view.show(state("running", 90))
    view.close()
    assert capsys.readouterr().err.splitlines() == [
        "service: Spark UI at http://127.0.0.1:4040",
        "service: batch 3 · 0 messages/s · lag 60 · qualified 39 · failed 1 · GIVEN UP 2 for view.audit",
        "service: batch 3 · 5 messages/s · lag 10 · qualified 89 · failed 1 · GIVEN UP 2 for view.audit",
    ]


@pytest.mark.parametrize(("is_running", "what"), [(True, "waits and tries again"), (False, "failed")])
def test_status_says_what_is_wrong(is_running: bool, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a part that has ended, and of one that outlasts an outage."""
    told = replace(state("running", 40), error="nobody answers at 127.0.0.1:9092")
    part = PartStatus(part="service", is_running=is_running, state=told, lags=())
    print_status(load_pipeline(EXAMPLE / "pipeline.yaml"), [part], as_json=False)
    assert capsys.readouterr().out.endswith(f"the service {what}: nobody answers at 127.0.0.1:9092\n")
