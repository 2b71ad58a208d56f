"""One look after the other → alarms. It knows no clock but the looks', and no world but what they show.

Each alarm catches what others miss. A group that stands still is stalled, unless a transaction holds it back; one
that commits and forwards nothing is seen by its canaries and its books; one that is gone, or cannot be seen, is no
healthy one.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple

from holdfast.pipelines.watch.commands import Commands
from holdfast.pipelines.watch.profile import Profile
from holdfast.pipelines.watch.world import Canary, Forwarding, Mismatch, Spending, World

SAMPLES_MAX: Final = 4_096
MINUTE_MS: Final = 60_000
DAY_MINUTES: Final = 1_440


class AlarmKind(StrEnum):
    """What can be wrong with a pipeline."""

    STALLED = "stalled"
    AGE = "age"
    CANARY = "canary"
    CONSERVATION = "conservation"
    BLOCKED = "blocked-by-transaction"
    RUNWAY = "runway"
    NO_PROGRESS = "no-progress"
    BLIND = "blind"
    BUDGET = "budget"


class Severity(StrEnum):
    """Whether it can wait for the morning."""

    WARN = "warn"
    PAGE = "page"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """One thing that is wrong now."""

    kind: AlarmKind
    severity: Severity
    what: str
    run: str
    """The command to begin with."""
    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    waiting: int = 0
    tenants: tuple[str, ...] = ()
    budget_minutes_left: int | None = None


class _Key(NamedTuple):
    group: str
    topic: str
    partition: int


@dataclass(slots=True)
class _Track:
    """What is remembered of one partition of one group."""

    seen_ms: int
    """When it was first looked at."""
    committed: int | None = None
    """The last position that is known, of a group that is gone, too."""
    stuck_since_ms: int | None = None
    gone_since_ms: int | None = None
    was_there: bool = False
    times_ms: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """The stable end at these times."""


class Evaluator:
    """Alarms of one pipeline. Looks have to come in the order of their times."""

    def __init__(self, profile: Profile, commands: Commands) -> None:
        self._profile = profile
        self._commands = commands
        self._tracks: dict[_Key, _Track] = {}
        self._started_ms: int | None = None

    def look(self, world: World) -> list[Alarm]:
        """What is wrong now, the worst first."""
        if self._started_ms is None:
            self._started_ms = world.now_ms
        in_doubt = 0
        alarms: list[Alarm] = []
        for each in world.forwardings:
            track = self._remember(each, world.now_ms)
            in_doubt += self._in_doubt(each, track, world.now_ms)
            alarms += self._judge(each, track, world.now_ms)
        alarms += self._unseen(world)
        alarms += [found for each in world.canaries for found in self._canary(each, world)]
        alarms += [self._mismatch(each) for each in world.mismatches]
        alarms += self._no_progress(world)
        alarms = [self._with_budget(alarm, world, in_doubt) for alarm in alarms]
        alarms += [found for each in world.spendings for found in self._budget(each, world, in_doubt)]
        return sorted(alarms, key=lambda alarm: (alarm.severity is Severity.WARN, alarm.kind))

    def _remember(self, each: Forwarding, now_ms: int) -> _Track:
        track = self._tracks.setdefault(_Key(each.group, each.topic, each.partition), _Track(seen_ms=now_ms))
        if each.committed is None:
            track.gone_since_ms = now_ms if track.gone_since_ms is None else track.gone_since_ms
        else:
            track.gone_since_ms = None
            track.was_there = True
        if not each.waiting or each.committed is None:
            track.stuck_since_ms = None
        elif each.committed != track.committed or track.stuck_since_ms is None:
            track.stuck_since_ms = now_ms
        track.committed = track.committed if each.committed is None else each.committed
        track.times_ms.append(now_ms)
        track.ends.append(each.stable_end)
        _forget_before(track, now_ms - self._profile.in_doubt_ms)
        return track

    def _judge(self, each: Forwarding, track: _Track, now_ms: int) -> Iterator[Alarm]:
        yield from self._blocked(each, now_ms)
        if each.committed is None:
            yield from self._gone(each, track, now_ms)
            return
        stuck_ms = 0 if track.stuck_since_ms is None else now_ms - track.stuck_since_ms
        if stuck_ms >= self._profile.stall_ms:
            yield _about(
                each,
                AlarmKind.STALLED,
                Severity.PAGE,
                f"{each.group} has not moved in {each.topic}-{each.partition} for {stuck_ms // 1000} s",
                self._commands.on_cluster("group", "describe", each.group),
            )
        yield from self._old(each, now_ms)
        yield from self._runway(each, now_ms)

    def _old(self, each: Forwarding, now_ms: int) -> Iterator[Alarm]:
        if not each.waiting or each.oldest_ms is None:
            return
        age_ms = now_ms - each.oldest_ms
        allowed = self._profile.ages[each.step]
        if age_ms >= allowed.warn_ms:
            yield _about(
                each,
                AlarmKind.AGE,
                Severity.PAGE if age_ms >= allowed.page_ms else Severity.WARN,
                f"the oldest message in {each.topic}-{each.partition} that {each.group} has not forwarded is "
                f"{age_ms // 1000} s old",
                self._commands.on_cluster("group", "describe", each.group),
            )

    def _runway(self, each: Forwarding, now_ms: int) -> Iterator[Alarm]:
        """Retention counts from a record's own time."""
        if not each.waiting or each.oldest_ms is None or each.retention_ms is None:
            return
        left_ms = each.oldest_ms + each.retention_ms - now_ms
        if (
            left_ms < self._profile.runway_warn_ms < each.retention_ms
            or left_ms < self._profile.runway_page_ms
        ):
            yield _about(
                each,
                AlarmKind.RUNWAY,
                Severity.PAGE if left_ms < self._profile.runway_page_ms else Severity.WARN,
                f"retention takes the first message of {each.topic}-{each.partition} that {each.group} has not "
                f"forwarded in {max(0, left_ms) // MINUTE_MS} min",
                self._commands.on_cluster("topic", "config", each.topic, "retention.ms=-1"),
            )

    def _blocked(self, each: Forwarding, now_ms: int) -> Iterator[Alarm]:
        if each.stable_end >= each.log_end or each.transaction is None:
            return
        open_ms = now_ms - each.transaction.opened_ms
        if open_ms >= self._profile.blocked_ms:
            name = each.transaction.transactional_id
            who = (
                f"{name} (producer {each.transaction.producer_id})"
                if name
                else f"producer {each.transaction.producer_id}"
            )
            yield Alarm(
                kind=AlarmKind.BLOCKED,
                severity=Severity.PAGE,
                what=f"a transaction of {who} has held {each.topic}-{each.partition} back for {open_ms // 1000} s",
                run=self._commands.on_cluster("txn", *(("describe", name) if name else ("hanging",))),
                group=each.group,
                topic=each.topic,
                partition=each.partition,
                offset=each.transaction.first_offset,
                waiting=each.log_end - each.stable_end,
            )

    def _gone(self, each: Forwarding, track: _Track, now_ms: int) -> Iterator[Alarm]:
        since_ms = track.seen_ms if track.gone_since_ms is None else track.gone_since_ms
        patience_ms = self._profile.blind_ms if track.was_there else self._profile.never_seen_ms
        if now_ms - since_ms >= patience_ms and each.log_end > each.log_start:
            yield _about(
                replace(each, committed=track.committed),
                AlarmKind.BLIND,
                Severity.PAGE,
                f"{each.group} has no position in {each.topic}-{each.partition}: deleted, expired or never there",
                self._commands.on_cluster("group", "describe", each.group),
            )

    def _unseen(self, world: World) -> Iterator[Alarm]:
        """A partition that was there and is no longer looked at."""
        looked = {_Key(each.group, each.topic, each.partition) for each in world.forwardings}
        for key, track in self._tracks.items():
            if (
                key not in looked
                and world.now_ms - (track.times_ms or [track.seen_ms])[-1] >= self._profile.blind_ms
            ):
                yield Alarm(
                    kind=AlarmKind.BLIND,
                    severity=Severity.PAGE,
                    what=f"{key.topic}-{key.partition} cannot be seen any more",
                    run=self._commands.on_cluster("topic", "describe", key.topic),
                    group=key.group,
                    topic=key.topic,
                    partition=key.partition,
                )

    def _canary(self, each: Canary, world: World) -> Iterator[Alarm]:
        """Where the group has not come to it yet, other alarms know better why; but not for ever."""
        passed = any(
            (found.topic, found.partition) == (each.topic, each.partition)
            and (found.committed or 0) > each.offset
            for found in world.forwardings
        )
        patience_ms = self._profile.canary_wait_ms + (0 if passed else self._profile.stall_ms)
        age_ms = world.now_ms - each.sent_ms
        if each.seen_ms is None and age_ms >= patience_ms:
            yield Alarm(
                kind=AlarmKind.CANARY,
                severity=Severity.PAGE,
                what=f"a canary that was sent to {each.topic}-{each.partition} {age_ms // 1000} s ago has not arrived "
                "in audit",
                run=self._commands.status,
                topic=each.topic,
                partition=each.partition,
                offset=each.offset,
            )

    def _mismatch(self, each: Mismatch) -> Alarm:
        ended = f"{each.ended:,} ended"
        if each.ended == each.ingested:
            ended = "as many ended, but not the same ones, or not everywhere"
        return Alarm(
            kind=AlarmKind.CONSERVATION,
            severity=Severity.PAGE,
            what=f"in the sealed window of {_clock(each.window_ms)}, {each.ingested:,} of {each.tenant}'s messages "
            f"came in, and {ended}",
            run=self._commands.on_pipeline("recon", "close", each.tenant, _date(each.window_ms)),
            tenants=(each.tenant,),
        )

    def _no_progress(self, world: World) -> Iterator[Alarm]:
        if world.progressed_ms is None:
            return
        silent_ms = world.now_ms - world.progressed_ms
        if silent_ms >= self._profile.no_progress_ms:
            yield Alarm(
                kind=AlarmKind.NO_PROGRESS,
                severity=Severity.PAGE,
                what=f"{world.silent} has been silent for {silent_ms // 1000} s: it was killed, or hangs",
                run=self._commands.status,
            )

    def _in_doubt(self, each: Forwarding, track: _Track, now_ms: int) -> int:
        """What could have been forwarded for longer than a healthy pipeline needs, and was not."""
        known = bisect_right(track.times_ms, now_ms - self._profile.in_doubt_ms) - 1
        if known < 0:
            return 0
        return max(0, track.ends[known] - max(track.committed or 0, each.log_start))

    def _budget(self, each: Spending, world: World, in_doubt: int) -> Iterator[Alarm]:
        allowed, spent = self._allowed(each), _spent(each, in_doubt)
        if spent > allowed:
            yield Alarm(
                kind=AlarmKind.BUDGET,
                severity=Severity.PAGE,
                what=f"{each.tenant} has spent {spent:,.0f} of the {allowed:,.0f} messages that may fail today: "
                f"{each.failed:,} failed, the others are in doubt",
                run=self._commands.on_pipeline("recon", "report", each.tenant, _date(world.now_ms)),
                tenants=(each.tenant,),
                budget_minutes_left=0,
            )

    def _with_budget(self, alarm: Alarm, world: World, in_doubt: int) -> Alarm:
        """Whom it concerns, and for how long they can bear it: at a day's rate, were nothing forwarded from now on."""
        hit = [each for each in world.spendings if not alarm.tenants or each.tenant in alarm.tenants]
        if not hit:
            return alarm
        minutes = [
            max(0.0, self._allowed(each) - _spent(each, in_doubt)) * DAY_MINUTES / max(1, each.expected)
            for each in hit
        ]
        return replace(
            alarm,
            tenants=alarm.tenants or tuple(each.tenant for each in hit),
            budget_minutes_left=int(min(minutes)),
        )

    def _allowed(self, each: Spending) -> float:
        return self._profile.budget * each.expected


def _spent(each: Spending, in_doubt: int) -> float:
    return each.failed + in_doubt * each.share_of_waiting


def _about(each: Forwarding, kind: AlarmKind, severity: Severity, what: str, run: str) -> Alarm:
    return Alarm(
        kind=kind,
        severity=severity,
        what=what,
        run=run,
        group=each.group,
        topic=each.topic,
        partition=each.partition,
        offset=each.committed,
        waiting=each.waiting,
        tenants=each.tenants,
    )


def _clock(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%H:%M UTC")


def _date(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).date().isoformat()


def _forget_before(track: _Track, time_ms: int) -> None:
    """Keeps the last sample before the time, and all after it."""
    first = max(bisect_right(track.times_ms, time_ms) - 1, len(track.times_ms) - SAMPLES_MAX, 0)
    del track.times_ms[:first], track.ends[:first]
