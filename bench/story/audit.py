"""The end of the day: reconciliation is asked, and held against the truth, id by id."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import SparkSession

from bench.story.failure import StoryFailed
from bench.story.truth import Fate, Truth, find_truth
from examples.compliance.generator import DAY, TENANTS
from holdfast.client.cluster import Cluster
from holdfast.client.endpoint import Endpoint
from holdfast.pipelines.config import Mode, Pipeline
from holdfast.pipelines.recon.book import to_record, write_day
from holdfast.pipelines.recon.close import Desk, close_day
from holdfast.pipelines.recon.day import Day, DayState, Verdict
from holdfast.pipelines.recon.flow import Flow, flow_of_day
from holdfast.pipelines.recon.law import Kind
from holdfast.pipelines.recon.repair import repair_day
from holdfast.pipelines.recon.telling import headlines

EXPECTED: Final = {
    Mode.DUAL: DayState.OPEN,
    Mode.ADAPTER: DayState.CLOSED,
    Mode.TRANSACTION: DayState.CLOSED,
}

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """What reconciliation says of a mode's day, by tenant, and whether that is the truth."""

    verdicts: Mapping[str, Verdict]
    is_exact: bool
    seconds: float

    @property
    def state(self) -> DayState:
        """Closed if every tenant's day is; else what the first of the others is."""
        states = [verdict.state for verdict in self.verdicts.values()]
        return next((state for state in states if state is not DayState.CLOSED), DayState.CLOSED)

    def count(self, kind: Kind) -> int:
        """Over all tenants."""
        return sum(verdict.evidence.found.get(kind, 0) for verdict in self.verdicts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What was made up for, and what reconciliation says then."""

    forwarded: int
    ended_anew: int
    closing: Closing


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """All of it for one mode."""

    closing: Closing
    flow: Flow
    """Of the largest tenant."""
    repair: Repair | None = None


class Auditor:
    """Whoever has to close the day."""

    def __init__(
        self, session: SparkSession, cluster: Cluster, fates: Mapping[str, Fate], *, tell: Tell
    ) -> None:
        self._session = session
        self._cluster = cluster
        self._fates = fates
        self._tell = tell

    def audit(self, pipeline: Pipeline) -> Audited:
        """Closes the day, repairs it if it is open, and closes it again."""
        desk = Desk(
            session=self._session,
            cluster=self._cluster,
            pipeline=replace(pipeline, endpoint=Endpoint(self._cluster.bootstrap)),
            named_max=len(self._fates),
        )
        closing = self._close(desk)
        flow = flow_of_day(desk, closing.verdicts[next(iter(TENANTS))])
        if closing.state is not DayState.OPEN:
            return Audited(closing=closing, flow=flow)
        forwarded = ended_anew = 0
        for tenant in TENANTS:
            plan = repair_day(desk, tenant, sealed_now()).plan
            forwarded, ended_anew = forwarded + len(plan.forwards), ended_anew + len(plan.endings)
        self._tell(f"{pipeline.name}: repaired: {forwarded:,} forwarded, {ended_anew:,} ended anew")
        repair = Repair(forwarded=forwarded, ended_anew=ended_anew, closing=self._close(desk))
        return Audited(closing=closing, flow=flow, repair=repair)

    def _close(self, desk: Desk) -> Closing:
        name = desk.pipeline.name
        truth = find_truth(self._cluster.bootstrap, name, self._fates)
        self._tell(
            f"{name}: a plain consumer counts {truth.count('missing'):,} missing, {truth.count('duplicate'):,} "
            "doubled"
        )
        began = time.monotonic()
        verdicts = {}
        for tenant in TENANTS:
            verdicts[tenant] = close_day(desk, tenant, sealed_now())
            if verdicts[tenant].state is DayState.CLOSED:
                write_day(desk.cluster, desk.pipeline, to_record(verdicts[tenant], desk.pipeline))
            self._tell(f"{name}: {'; '.join(headlines(verdicts[tenant]))}")
        seconds = time.monotonic() - began
        is_exact = all(tells_the_truth(verdict, truth) for verdict in verdicts.values())
        return Closing(verdicts=verdicts, is_exact=is_exact, seconds=seconds)


def tells_the_truth(verdict: Verdict, truth: Truth) -> bool:
    """Whether every id that is wrong is named for what it is, and no other."""
    named = {kind: {each.id for each in verdict.evidence.findings if each.kind is kind} for kind in Kind}
    wanted = {Kind.MISSING: truth.missing, Kind.DUPLICATE: truth.duplicate}
    return not truth.count("other") and all(
        ids == (wanted[kind].get(verdict.tenant, set()) if kind in wanted else set())
        for kind, ids in named.items()
    )


def sealed_now() -> Day:
    """The messages' day, sealed a moment ago: what is reconciled in minutes happened on a day that is long over."""
    day = Day(date=DAY.date())
    return replace(day, lateness_ms=time.time_ns() // 1_000_000 - day.end_ms)


def check(found: Mapping[Mode, Audited]) -> None:
    """StoryFailed tells all that is not as it should be."""
    wrong = list(_wrong(found))
    if wrong:
        raise StoryFailed("; ".join(wrong))


def _wrong(found: Mapping[Mode, Audited]) -> Iterable[str]:
    for mode, audited in found.items():
        closing = audited.closing
        if closing.state is not EXPECTED[mode]:
            yield f"{mode.value} is {closing.state.value}, not {EXPECTED[mode].value}"
        if not closing.is_exact:
            yield f"{mode.value}: what reconciliation names is not what is wrong"
        if mode is not Mode.DUAL:
            continue
        if not closing.count(Kind.MISSING) or not closing.count(Kind.DUPLICATE):
            yield "dual has lost nothing, or doubled nothing"
        repair = audited.repair
        if repair is None or repair.closing.state is not DayState.CLOSED or not repair.closing.is_exact:
            yield "repair has not closed dual"
