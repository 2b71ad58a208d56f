"""What a watcher tells Prometheus. The rules in `holdfast/pipelines/watch/rules.yml` are made for these names."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.admin.prometheus import Family, Labels, gauge, gauges

if TYPE_CHECKING:
    from holdfast.pipelines.watch.journal import Journal
    from holdfast.pipelines.watch.world import Forwarding


def families(journal: "Journal") -> Iterator[Family]:
    """All of it; lag also under the name that other exporters use."""
    of = (("pipeline", journal.pipeline),)
    yield gauge(
        "holdfast_watch_last_look_timestamp_seconds",
        "When the watcher last looked, be it that it saw nothing.",
        journal.last_look_ms / 1000,
        of,
    )
    yield gauges(
        "holdfast_watch_alarm",
        "1 for everything that is wrong now.",
        [
            (
                (
                    *of,
                    ("kind", alarm.kind.value),
                    ("severity", alarm.severity.value),
                    ("group", alarm.group or ""),
                    ("topic", alarm.topic or ""),
                    ("partition", "" if alarm.partition is None else str(alarm.partition)),
                ),
                1,
            )
            for alarm in journal.alarms
        ],
    )
    if journal.world is None:
        return
    forwardings, now_ms = journal.world.forwardings, journal.world.now_ms
    yield gauges(
        "holdfast_watch_waiting_messages",
        "Messages that a group could have forwarded and has not.",
        [((*of, *_labels(each, "group")), each.waiting) for each in forwardings],
    )
    yield gauges(
        "holdfast_watch_oldest_age_seconds",
        "The age of the oldest of them; 0 if there is none.",
        [
            (
                (*of, *_labels(each, "group")),
                0 if each.oldest_ms is None else max(0, now_ms - each.oldest_ms) / 1000,
            )
            for each in forwardings
        ],
    )
    yield gauges(
        "kafka_consumergroup_lag",
        "The same as holdfast_watch_waiting_messages, for boards that know this name.",
        [(_labels(each, "consumergroup"), each.waiting) for each in forwardings],
    )


def _labels(each: "Forwarding", group: str) -> Labels:
    return ((group, each.group), ("topic", each.topic), ("partition", str(each.partition)))
