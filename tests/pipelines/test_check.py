"""What `holdfast pipeline check` refuses, asked of a real cluster; the transform is tried in tests of the frames."""

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.client.cluster import Cluster
from holdfast.client.producer import Producer
from holdfast.client.topics import alter_configs, create_topic
from holdfast.errors import ClusterAuthorizationFailed, UsageError
from holdfast.pipelines.check import Finding, check_cluster, told
from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.transform import find_transform
from holdfast.records.record import Record
from tests.pipelines.files import make_pipeline

TOPICS = ("in", "qualified", "audit", "tally")
WHOLE = [("ce_id", b"1"), ("tenant", b"acme"), ("ce_time", b"2026-01-31T12:00:00Z")]


def prepare(cluster: Cluster, prefix: str, *, without: str = "", retention_ms: int = 604_800_000) -> None:
    """The topics of the example."""
    for name in TOPICS:
        if name != without:
            configs = {"retention.ms": str(retention_ms)}
            create_topic(cluster, f"{prefix}.{name}", partitions=2, configs=configs)


def refused(pipeline: Pipeline, cluster: Cluster) -> list[str]:
    """What stands against it, without the directory."""
    findings = list(check_cluster(pipeline, cluster))
    assert all(isinstance(each, Finding) and "\n" not in str(each) for each in findings)
    return [str(each).replace(f"{pipeline.path.parent}/", "") for each in findings if not each.is_good]


def test_good(cluster: Cluster, tmp_path: Path) -> None:
    """Topics that are there, kept for long enough, with messages that say who they are."""
    pipeline = make_pipeline(tmp_path, mode="transaction", prefix="good")
    prepare(cluster, "good")
    findings = list(check_cluster(pipeline, cluster))
    assert [each.what for each in findings if not each.is_good] == []
    assert "'good.in' is empty: whether messages have ids is not known yet" in findings[-1].what
    Producer(cluster, "good.in").send(
        {0: [Record(headers=WHOLE, value=b"x")] * 3, 1: [Record(headers=WHOLE)]}
    )
    assert (
        "all of the newest 4 messages of 'good.in' have id, tenant"
        in list(check_cluster(pipeline, cluster))[-1].what
    )


@pytest.mark.parametrize("missing", TOPICS)
def test_unknown_topic(cluster: Cluster, tmp_path: Path, missing: str) -> None:
    """Named with its line; the tally topic is needed where books are kept."""
    prefix = f"without-{missing}"
    pipeline = make_pipeline(tmp_path, mode="transaction", prefix=prefix)
    prepare(cluster, prefix, without=missing)
    key = {"in": "ingest.topic", "qualified": "end_states.qualified"}.get(missing, f"{missing}.topic")
    place = f"pipeline.yaml:{pipeline.lines[key]}"
    assert refused(pipeline, cluster) == [
        f"{place}: there is no topic '{prefix}.{missing}' at {cluster.bootstrap}:"
        f" `holdfast topic create {prefix}.{missing} -b {cluster.bootstrap}` makes it"
    ]


def test_the_command_names_the_cluster(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is not the one that commands ask of themselves."""
    pipeline = make_pipeline(tmp_path, mode="transaction", prefix="none", bootstrap=cluster.bootstrap)
    pipeline = replace(pipeline, client_config=tmp_path / "client.properties")
    assert refused(pipeline, cluster)[0].endswith(
        f": `holdfast topic create none.in -b {cluster.bootstrap} --client-config client.properties` makes it"
    )
    monkeypatch.setattr("holdfast.pipelines.check.BOOTSTRAP_DEFAULT", cluster.bootstrap)
    pipeline = replace(pipeline, client_config=None)
    assert refused(pipeline, cluster)[0].endswith(": `holdfast topic create none.in` makes it")


@pytest.mark.parametrize("mode", ["adapter", "transaction", "dual"])
def test_tokens_that_are_forgotten(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Which batch was committed is a group's offset, kept for a week: a longer absence may double a batch."""
    prefix, week_ms = f"forgotten-{mode}", 7 * 86_400_000
    pipeline = make_pipeline(tmp_path, mode=mode, prefix=prefix)
    prepare(cluster, prefix, retention_ms=-1)
    assert refused(replace(pipeline, recovery_window_ms=week_ms), cluster) == []
    longer = replace(pipeline, recovery_window_ms=week_ms + 1)
    if mode == "dual":
        assert refused(longer, cluster) == []
        return
    (line,) = refused(longer, cluster)
    assert "may write its last batch twice: the cluster keeps groups' offsets for 7d; raise its" in line
    assert line.startswith(f"pipeline.yaml:{pipeline.lines['recovery_window']}: ")

    def keep_silent(cluster: Cluster, node: int, name: str) -> None:
        raise ClusterAuthorizationFailed("configs of a broker")

    monkeypatch.setattr("holdfast.pipelines.check.find_broker_config", keep_silent)
    assert refused(longer, cluster) == []
    assert any(
        "the brokers do not tell offsets.retention" in str(each) for each in check_cluster(longer, cluster)
    )


@pytest.mark.parametrize("topic", ["in", "qualified"])
def test_short_retention(cluster: Cluster, tmp_path: Path, topic: str) -> None:
    """Whoever is away for the recovery window would find a gap; a millisecond less is too little."""
    prefix = f"short-{topic}"
    pipeline = make_pipeline(tmp_path, mode="transaction", prefix=prefix)
    prepare(cluster, prefix)
    name = f"{prefix}.{topic}"
    alter_configs(cluster, name, put={"retention.ms": "86400000"}, unset=[])
    assert refused(pipeline, cluster) == []
    alter_configs(cluster, name, put={"retention.ms": "86399999"}, unset=[])
    (line,) = refused(pipeline, cluster)
    assert f"{name!r} keeps records for 86399999ms, less than the recovery window of 1d: raise its" in line
    alter_configs(cluster, name, put={"retention.ms": "-1"}, unset=[])
    assert refused(pipeline, cluster) == []
    alter_configs(
        cluster, name, put={"retention.bytes": "1000000", "cleanup.policy": "compact,delete"}, unset=[]
    )
    first, second = refused(pipeline, cluster)
    assert "cleanup.policy=compact,delete: compaction may take records away" in first
    assert "retention.bytes=1,000,000: a busy hour may push records out" in second


def test_missing_ids(cluster: Cluster, tmp_path: Path) -> None:
    """Counted, and named by their places."""
    pipeline = make_pipeline(tmp_path, mode="transaction", prefix="anonymous")
    prepare(cluster, "anonymous")
    nameless = Record(headers=[("tenant", b"acme")], value=b"x")
    Producer(cluster, "anonymous.in").send({0: [Record(headers=WHOLE), nameless], 1: [nameless] * 4})
    (line,) = refused(pipeline, cluster)
    assert "5 of the newest 6 messages have no id (header:ce_id): anonymous.in/0@1, anonymous.in/1@0" in line
    assert "5 of the newest 6 messages have no time (header:ce_time)" in line
    assert "tenant" not in line


@pytest.mark.parametrize(
    ("transform", "told_so"),
    [
        ("nowhere:assess", "cannot import 'nowhere': ModuleNotFoundError"),
        ("checks:missing", "'missing' is not there in"),
        ("checks:LIMIT_CENTS", "'LIMIT_CENTS' is not a function in"),
        ("broken:assess", "cannot import 'broken': ZeroDivisionError"),
    ],
)
def test_no_transform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transform: str, told_so: str) -> None:
    """Named with the line that names it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "broken.py").write_text("1 / 0\n")
    pipeline = make_pipeline(tmp_path, mode="transaction", prefix="p")
    text = pipeline.path.read_text().replace("checks:assess", transform)
    pipeline.path.write_text(text)
    from holdfast.pipelines.loading import load_pipeline

    with pytest.raises(UsageError, match=told_so) as caught:
        find_transform(load_pipeline(pipeline.path))
    assert str(caught.value).startswith(f"{pipeline.at('transform')}: ")


@pytest.mark.parametrize(
    ("duration_ms", "text"), [(1, "1ms"), (90_000, "90s"), (7_200_000, "2h"), (604_800_000, "7d")]
)
def test_durations(duration_ms: int, text: str) -> None:
    """As the file would have them."""
    assert told(duration_ms) == text
