"""What a guard tells Prometheus; `docs/guard.md` says what to be alarmed at."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.admin.prometheus import Family, Labels, gauge, gauges

if TYPE_CHECKING:
    from holdfast.guard.run import Guard


def families(guard: "Guard", now_ms: int) -> Iterator[Family]:
    """All of it."""
    look, holds = guard.last_look, guard.state.holds
    yield gauge(
        "holdfast_guard_last_look_timestamp_seconds",
        "When the guard last saw the cluster; 0 before it has.",
        0 if look is None else look.at_ms / 1000,
    )
    yield gauge(
        "holdfast_guard_topics",
        "Compacted topics that are guarded.",
        0 if look is None else len(look.topics),
    )
    yield gauges(
        "holdfast_guard_paused",
        "1 for every topic that is held, by how far its pause is.",
        [((("topic", hold.topic), ("stage", hold.stage.value)), 1) for hold in holds],
    )
    yield gauges(
        "holdfast_guard_pause_age_seconds",
        "How long ago the pause of a topic began.",
        [(_of(hold.topic), max(0, now_ms - hold.since_ms) / 1000) for hold in holds],
    )
    sizes = {} if look is None else {name: seen.size_bytes for name, seen in look.topics.items()}
    yield gauges(
        "holdfast_guard_held_back_bytes",
        "What one copy of a topic has grown by since its pause began; absent where brokers do not tell.",
        [
            (_of(hold.topic), max(0, size - hold.size_bytes_then))
            for hold in holds
            if (size := sizes.get(hold.topic)) is not None and hold.size_bytes_then is not None
        ],
    )
    yield gauges(
        "holdfast_guard_out_of_sync_replicas",
        "Replicas that a topic is paused for.",
        [(_of(hold.topic), len(hold.outages)) for hold in holds],
    )
    yield gauges(
        "holdfast_guard_tainted",
        "1 for every replica that may be harmed; examined is failed once a doctor did not clear it.",
        [
            (
                (
                    *_of(hold.topic),
                    ("partition", str(taint.partition)),
                    ("replica", str(taint.replica)),
                    ("examined", "no" if taint.verdict is None else "failed"),
                ),
                1,
            )
            for hold in holds
            for taint in hold.taints
        ],
    )
    yield gauges(
        "holdfast_guard_refused",
        "1 for every topic whose settings could not be changed when that was last tried.",
        [(_of(topic), 1) for topic in sorted(guard.refused)],
    )


def _of(topic: str) -> Labels:
    return (("topic", topic),)
