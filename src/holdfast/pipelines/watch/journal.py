"""What a watcher knows now, and what has changed since it last told."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from holdfast.pipelines.watch.commands import Commands
from holdfast.pipelines.watch.evaluator import Alarm, AlarmKind, Evaluator, Severity
from holdfast.pipelines.watch.profile import Profile
from holdfast.pipelines.watch.world import World

ABOUT_TENANTS: Final = frozenset({AlarmKind.CONSERVATION, AlarmKind.BUDGET})
"""What is wrong with a tenant's messages; all else is wrong with a place, whoever's messages wait there."""


class Journal:
    """Looks and failures to look, turned into alarms."""

    def __init__(self, pipeline: str, profile: Profile, commands: Commands, *, interval_ms: int) -> None:
        self.pipeline = pipeline
        self.interval_ms = interval_ms
        self._known: list[Alarm] = []
        """What was wrong when it was last seen."""
        self._unseen: list[Alarm] = []
        """That it cannot be seen any more."""
        self.world: World | None = None
        self.last_look_ms = 0
        self._profile = profile
        self._commands = commands
        self._evaluator = Evaluator(profile, commands)
        self._failing_since_ms: int | None = None
        self._told: dict[tuple[object, ...], Alarm] = {}

    @property
    def is_failing(self) -> bool:
        """Whether the last look did not succeed."""
        return self._failing_since_ms is not None

    @property
    def alarms(self) -> list[Alarm]:
        """What is wrong now, as far as anybody knows: what was wrong is not over because nobody sees it."""
        return self._unseen + self._known

    def note(self, world: World) -> None:
        """A look that succeeded."""
        self._failing_since_ms = None
        self.world, self.last_look_ms = world, world.now_ms
        self._known, self._unseen = self._evaluator.look(world), []

    def fail(self, now_ms: int, why: str) -> None:
        """A look that did not: soon it is an alarm in itself, beside what was wrong before."""
        if self._failing_since_ms is None:
            self._failing_since_ms = now_ms
        self.last_look_ms = now_ms
        if now_ms - self._failing_since_ms >= self._profile.blind_ms:
            self._unseen = [
                Alarm(
                    kind=AlarmKind.BLIND,
                    severity=Severity.PAGE,
                    what=f"nothing can be seen of {self.pipeline}: {why}",
                    run=self._commands.on_cluster("topic", "list"),
                )
            ]

    def news(self) -> Iterator[str]:
        """Lines about each alarm that began or ended since the last time."""
        now = {_key(alarm): alarm for alarm in self.alarms}
        for key, alarm in now.items():
            if key not in self._told:
                yield from tell_alarm(asdict(alarm))
        for key, alarm in self._told.items():
            if key not in now:
                yield f"over  {alarm.kind}: {alarm.what}"
        self._told = now


def _key(alarm: Alarm) -> tuple[object, ...]:
    """What makes it the same alarm from look to look: whom it concerns may change while it goes on."""
    tenants = alarm.tenants if alarm.kind in ABOUT_TENANTS else ()
    return alarm.kind, alarm.severity, alarm.group, alarm.topic, alarm.partition, tenants


def tell_alarm(alarm: Mapping[str, Any]) -> tuple[str, str]:
    """Two lines of one alarm, as it stands in JSON: what is wrong, for whom and for how long; and what to run."""
    parts = []
    if alarm["offset"] is not None:
        parts.append(f"at offset {alarm['offset']:,}")
    if alarm["waiting"]:
        parts.append(f"{alarm['waiting']:,} {'message waits' if alarm['waiting'] == 1 else 'messages wait'}")
    if alarm["tenants"]:
        parts.append(f"tenants {', '.join(alarm['tenants'])}")
    if alarm["budget_minutes_left"] is not None:
        parts.append(f"{alarm['budget_minutes_left']} min of budget left")
    details = f" ({'; '.join(parts)})" if parts else ""
    return f"{alarm['severity'].upper()}  {alarm['kind']}: {alarm['what']}{details}", f"  {alarm['run']}"
