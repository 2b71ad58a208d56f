"""The pipeline's file: what it means, and what is refused with the line that is wrong."""

from pathlib import Path

import pytest

from holdfast.client.endpoint import Endpoint
from holdfast.errors import UsageError
from holdfast.pipelines.config import Adapter, Alarms, Budget, EndState, Mode, Reader, Trigger
from holdfast.pipelines.frames import CONTRACT, OPTIONAL
from holdfast.pipelines.identity import Identity, Location, Part
from holdfast.pipelines.loading import load_pipeline
from holdfast.spark.schema import COLUMNS, KEY_HASH

EXAMPLE = Path(__file__).parents[2] / "examples" / "compliance" / "pipeline.yaml"

LEAST = """\
pipeline: orders
ingest: {topic: orders.in}
transform: checks:assess
end_states:
  qualified: orders.qualified
audit: {topic: orders.audit}
delivery: adapter
checkpoint: ./checkpoint
"""


def write(tmp_path: Path, text: str) -> Path:
    """The file."""
    path = tmp_path / "pipeline.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def refused(tmp_path: Path, text: str) -> str:
    """What is said of the file, without its directory."""
    with pytest.raises(UsageError) as caught:
        load_pipeline(write(tmp_path, text))
    assert caught.value.exit_code == 2
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(f"{tmp_path}/", "")


def test_the_least_that_is_enough(tmp_path: Path) -> None:
    """Everything else has a default: CloudEvents, an adapter for the qualified topic, a day to recover."""
    found = load_pipeline(write(tmp_path, LEAST))
    assert found.identity == Identity()
    assert found.identity.id == Location(part=Part.HEADER, header="ce_id")
    assert found.topics == {EndState.QUALIFIED: "orders.qualified"}
    assert found.adapters == (
        Adapter(name="qualified", topic="orders.qualified", group="orders.adapter.qualified"),
    )
    assert (found.trigger, found.budget, found.alarms) == (Trigger(), Budget(), Alarms())
    assert (found.mode, found.tally, found.reader) == (Mode.ADAPTER, None, Reader.HOLDFAST)
    assert (found.starting, found.recovery_window_ms) == ("earliest", 86_400_000)
    assert found.checkpoint == tmp_path / "checkpoint"
    assert found.outputs == ("orders.qualified", "orders.audit")
    assert found.at("end_states.qualified") == f"{tmp_path}/pipeline.yaml:5"


def test_the_example() -> None:
    """It is read as it stands, with books and all."""
    found = load_pipeline(EXAMPLE)
    assert found.mode is Mode.TRANSACTION
    assert found.outputs == ("payments.qualified", "payments.audit", "payments.tally")
    assert found.adapters == ()
    assert found.budget == Budget(failed=0.01)


def test_every_key(tmp_path: Path) -> None:
    """What is written down is what counts."""
    text = LEAST.replace("delivery: adapter", "delivery: adapter\nbootstrap: 127.0.0.1:9092,[::1]:9093")
    text += """\
identity: {id: key, source: none, tenant: "value:$.order.tenant", time: timestamp}
adapters:
  to-audit: {from: orders.qualified, group: forwarders, starting: latest}
trigger: {interval: 250ms, records: 1_000}
recovery_window: 6h
reader: kafka
budget: {failed: 2%, missing: 0, duplicate: 0.001, late: 0.1%}
alarms: {stall: 90s, age: {warn: 1m, page: 2m}, canary: 10s, runway: {warn: 2d, page: 8h}}
"""
    found = load_pipeline(write(tmp_path, text))
    assert found.endpoint == Endpoint("127.0.0.1:9092,[::1]:9093")
    assert found.identity == Identity(
        id=Location(part=Part.KEY),
        source=None,
        tenant=Location(part=Part.VALUE, json_path="$.order.tenant"),
        time=Location(part=Part.TIMESTAMP),
    )
    assert found.adapters == (
        Adapter(name="to-audit", topic="orders.qualified", group="forwarders", starting="latest"),
    )
    assert found.trigger == Trigger(interval_ms=250, records_max=1000)
    assert found.reader is Reader.KAFKA
    assert found.recovery_window_ms == 6 * 3_600_000
    assert found.budget == Budget(failed=0.02, missing=0.0, duplicate=0.001, late=0.001)
    assert found.alarms == Alarms(
        stall_ms=90_000,
        age_warn_ms=60_000,
        age_page_ms=120_000,
        canary_ms=10_000,
        runway_warn_ms=172_800_000,
        runway_page_ms=28_800_000,
    )


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "pipeline: orders",
            "name: orders",
            "pipeline.yaml:1: pipeline is missing, for example `pipeline: orders`",
        ),
        (
            "checkpoint: ./",
            "chekpoint: ./",
            "pipeline.yaml:1: checkpoint is missing, for example `checkpoint: ./c",
        ),
        (
            "orders.audit}",
            "orders.audit, tpic: x}",
            "pipeline.yaml:6: audit.tpic is not known: did you mean 'topic'?",
        ),
        (
            "delivery: adapter",
            "delivery: adaptor",
            "pipeline.yaml:7: delivery: 'adaptor' is not one of adapter, tr",
        ),
        ("delivery: adapter", "delivery: transaction", "pipeline.yaml:1: tally is missing"),
        (
            "checks:assess",
            "checks.assess",
            "pipeline.yaml:3: transform: 'checks.assess' is not module:function",
        ),
        ("orders.in}", "orders in}", "pipeline.yaml:2: ingest.topic: 'orders in' is not the name of a topic"),
        (
            "orders.in}",
            "orders.in, starting: now}",
            "pipeline.yaml:2: ingest.starting: 'now' is not one of earliest",
        ),
        (
            "orders.in}",
            "orders.audit}",
            "pipeline.yaml:6: audit.topic: the topic 'orders.audit' is that of ingest",
        ),
        ("ingest: {topic: orders.in}", "ingest: orders.in", "pipeline.yaml:2: ingest: this is a section"),
        (
            "orders.qualified",
            "orders.audit",
            "pipeline.yaml:5: end_states.qualified: this is the audit topic",
        ),
        (
            "orders.qualified",
            "audit",
            "pipeline.yaml:5: end_states.qualified: qualified messages have a topic of",
        ),
        ("orders.qualified", "", "pipeline.yaml:5: end_states.qualified: there is nothing here"),
        (
            "./checkpoint",
            "s3a://bucket/cp",
            "pipeline.yaml:8: checkpoint: 's3a://bucket/cp' is a URL: a checkpoint is a directory",
        ),
        ("  qualified:", "  qualifed:", "pipeline.yaml:4: end_states.qualified is missing"),
        (
            "delivery: adapter",
            "delivery: adapter\npipeline: two",
            "pipeline.yaml:8: pipeline stands here a second",
        ),
        ("checkpoint:", "  checkpoint:", "pipeline.yaml:8: this is not YAML"),
        (
            "delivery: adapter",
            "delivery: [adapter]",
            "pipeline.yaml:7: delivery: neither a value nor a mapping",
        ),
        (
            "delivery: adapter",
            "delivery: dual\nadapters: {a: {from: orders.qualified}}",
            "pipeline.yaml:8: adapters",
        ),
    ],
)
def test_refused_by_line(tmp_path: Path, old: str, new: str, told: str) -> None:
    """One clear line, which begins with the place."""
    assert old in LEAST
    assert refused(tmp_path, LEAST.replace(old, new)).startswith(told)


@pytest.mark.parametrize("column", [*CONTRACT, *OPTIONAL, *COLUMNS, KEY_HASH, "Tenant", "holdfast_state"])
def test_the_end_state_has_a_column_of_its_own(tmp_path: Path, column: str) -> None:
    """What the pipeline gives or takes under a name cannot be an end state too."""
    text = LEAST.replace("end_states:\n", f"end_states:\n  column: {column}\n")
    assert refused(tmp_path, text).startswith(f"pipeline.yaml:5: end_states.column: the column {column!r} is")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("bootstrap: nowhere", "pipeline.yaml:9: bootstrap: "),
        (
            "identity: {id: headers:ce_id}",
            "pipeline.yaml:9: identity.id: 'headers:ce_id' is not a place in a record",
        ),
        ("identity: {id: timestamp}", "pipeline.yaml:9: identity.id: 'timestamp' is not a place in a record"),
        ("identity: {id: 'value:$.a[*]'}", "pipeline.yaml:9: identity.id: '$.a[*]' is not a JSON path"),
        ("trigger: {interval: 5}", "pipeline.yaml:9: trigger.interval: '5' is not a duration such as 500ms"),
        ("trigger: {interval: 0s}", "pipeline.yaml:9: trigger.interval: '0s' is not a duration"),
        ("trigger: {records: 0}", "pipeline.yaml:9: trigger.records: '0' is not a whole number above 0"),
        (
            "budget: {failed: 101%}",
            "pipeline.yaml:9: budget.failed: '101%' is not a share such as 1% or 0.01",
        ),
        ("alarms:\n  age: {warn: 10m, page: 1m}", "pipeline.yaml:10: alarms.age: somebody is paged before"),
        ("alarms:\n  runway: {warn: 1h}", "pipeline.yaml:10: alarms.runway: somebody is paged before"),
        (
            "tally: {topic: t, window: 7m}",
            "pipeline.yaml:9: tally.window: a day does not have a whole number of",
        ),
        (
            "tally: {topic: orders.audit}",
            "pipeline.yaml:9: tally.topic: the topic 'orders.audit' is that of audit",
        ),
        (
            "adapters: {a: {from: orders.in}}",
            "pipeline.yaml:9: adapters.a.from: 'orders.in' is not a topic of end_",
        ),
        ("adapters: {}", "pipeline.yaml:9: adapters: none is for 'orders.qualified'"),
        (
            "adapters: {a: {from: orders.qualified}, b: {from: orders.qualified}}",
            "pipeline.yaml:9: adapters.b.from: two adapters for 'orders.qualified'",
        ),
    ],
)
def test_refused_additions(tmp_path: Path, more: str, told: str) -> None:
    """The same for what need not be there."""
    assert refused(tmp_path, LEAST + more + "\n").startswith(told)


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "- a\n- b\n", "just words\n", "a: &x [*x]\n", "\x00\n", "? [a]\n: b\n"]
)
def test_not_a_pipeline(tmp_path: Path, text: str) -> None:
    """Whatever else is in a file is refused by name."""
    assert refused(tmp_path, text).startswith("pipeline.yaml")


def test_no_file(tmp_path: Path) -> None:
    """One that is not there."""
    with pytest.raises(UsageError, match=r"cannot read .*: No such file"):
        load_pipeline(tmp_path / "pipeline.yaml")


def test_an_end_state_with_a_topic_of_its_own(tmp_path: Path) -> None:
    """Then it needs an adapter too, or nobody would be told; no two may share a topic."""
    text = LEAST.replace(
        "  qualified: orders.qualified\n", "  qualified: orders.qualified\n  failed: orders.failed\n"
    )
    found = load_pipeline(write(tmp_path, text))
    assert [adapter.topic for adapter in found.adapters] == ["orders.qualified", "orders.failed"]
    more = "adapters: {a: {from: orders.qualified}}\n"
    assert refused(tmp_path, text + more).startswith(
        "pipeline.yaml:10: adapters: none is for 'orders.failed'"
    )
    same = text.replace("orders.failed", "orders.qualified")
    assert "pipeline.yaml:6: end_states.failed: the topic 'orders.qualified' belongs to" in refused(
        tmp_path, same
    )
