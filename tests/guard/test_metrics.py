"""What Prometheus is told of a guard."""

from dataclasses import replace as with_fields

from msgspec.structs import replace

from holdfast.admin.prometheus import render
from holdfast.cli.guard_metrics import families
from holdfast.guard.run import Guard
from tests.guard.cluster_model import RETENTION_MS, TOPIC, ClusterModel
from tests.guard.test_decide import guard_of, turn


def told(guard: Guard, now_ms: int) -> list[str]:
    """The samples alone."""
    page = render(families(guard, now_ms)).decode()
    return [line for line in page.splitlines() if not line.startswith("#")]


def test_a_guard_with_nothing_to_do() -> None:
    """Nothing is paused, and that it looks is told; before its first look that is told, too."""
    model = ClusterModel()
    guard = guard_of(model)
    assert "holdfast_guard_last_look_timestamp_seconds 0" in told(guard, model.now_ms)
    turn(model, guard)
    assert told(guard, model.now_ms) == [
        "holdfast_guard_last_look_timestamp_seconds 1000.0",
        "holdfast_guard_topics 1",
    ]


def test_a_topic_that_is_held() -> None:
    """Its age, its growth, who is out, who is tainted, and that it could not be changed."""
    model = ClusterModel()
    guard = guard_of(model)
    turn(model, guard)
    model.take_away(3, cut_off=False)
    model.pass_time(RETENTION_MS)
    model.refuses = True
    turn(model, guard)
    assert guard.last_look is not None
    seen = with_fields(guard.last_look.topics[TOPIC], size_bytes=70)
    guard.last_look = with_fields(guard.last_look, topics={TOPIC: seen})
    guard.state = replace(guard.state, holds=(replace(guard.state.holds[0], size_bytes_then=50),))
    lines = told(guard, guard.state.holds[0].since_ms + 2_500)
    assert lines[2:] == [
        'holdfast_guard_paused{topic="orders",stage="pausing"} 1',
        'holdfast_guard_pause_age_seconds{topic="orders"} 2.5',
        'holdfast_guard_held_back_bytes{topic="orders"} 20',
        'holdfast_guard_out_of_sync_replicas{topic="orders"} 1',
        'holdfast_guard_tainted{topic="orders",partition="0",replica="3",examined="no"} 1',
        'holdfast_guard_refused{topic="orders"} 1',
    ]
