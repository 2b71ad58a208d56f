"""Verdicts in words and as JSON."""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast.pipelines.recon.day import Counts, DayState, Verdict
from holdfast.pipelines.recon.law import Finding, Kind, Sighting
from holdfast.pipelines.recon.positions import can_be_made_up_for

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def headlines(verdict: Verdict) -> tuple[str, str]:
    """The state and the law in numbers; what else was found."""
    total, found = verdict.total, verdict.evidence.found
    parts = " + ".join(f"{state.value} {count:,}" for state, count in total.audited.items())
    missing = f" + MISSING {found[Kind.MISSING]:,}" if found.get(Kind.MISSING) else ""
    sign = "=" if total.ingested == total.ended + found.get(Kind.MISSING, 0) else "≠"
    others = " · ".join(_count(kind, found.get(kind, 0)) for kind in Kind if kind is not Kind.MISSING)
    law = f"ingested {total.ingested:,} {sign} {parts}{missing}"
    return f"{verdict.tenant} {verdict.day.date}  {verdict.state.value}  {law}", others


def _count(kind: Kind, number: int) -> str:
    """Late and unparsable are records, of which a message may have several."""
    is_of_records = kind in {Kind.LATE, Kind.UNPARSABLE} and number
    return f"{kind} {number:,}{' records' if is_of_records else ''}"


def next_step(verdict: Verdict, options: Sequence[str] = ()) -> str | None:
    """The command that makes up for what can be made up for; None where there is none.

    `options` are those that name the pipeline and the cluster that were judged.
    """
    evidence = verdict.evidence
    if verdict.state is not DayState.OPEN or not any(
        can_be_made_up_for(finding, evidence.positions) for finding in evidence.findings
    ):
        return None
    return shlex.join(["holdfast", "recon", "repair", verdict.tenant, verdict.day.date.isoformat(), *options])


def tell_finding(finding: Finding) -> str:
    """One message and where its records are."""
    places = "; ".join(f"{each.stage} {each.place}" for each in finding.sightings)
    return f"{finding.kind}  {finding.id}  {finding.why}: {places}"


def tell_json(verdict: Verdict) -> dict[str, Any]:
    """All of it."""
    return {
        "tenant": verdict.tenant,
        "day": verdict.day.date.isoformat(),
        "state": verdict.state.value,
        "reasons": list(verdict.reasons),
        "judged": moment(verdict.evidence.now_ms),
        "total": _counts(verdict.total),
        "found": {kind.value: verdict.evidence.found.get(kind, 0) for kind in Kind},
        "findings": [
            {
                "kind": finding.kind.value,
                "id": finding.id,
                "why": finding.why,
                "records": [sighting_json(each) for each in finding.sightings],
            }
            for finding in verdict.evidence.findings
        ],
        "windows": [
            {"start": moment(start), **_counts(counts)} for start, counts in verdict.evidence.windows.items()
        ],
    }


def sighting_json(sighting: Sighting) -> dict[str, Any]:
    """One record of a message."""
    return {
        "stage": sighting.stage.value,
        "end_state": sighting.end_state.value if sighting.end_state is not None else None,
        "topic": sighting.place.topic,
        "partition": sighting.place.partition,
        "offset": sighting.place.offset,
        "arrived": moment(sighting.arrived_ms),
        "happened": moment(sighting.time_ms),
    }


def moment(time_ms: int) -> str:
    """As people read it; times that no calendar has stay numbers."""
    try:
        found = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return str(time_ms)
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _counts(counts: Counts) -> dict[str, Any]:
    return {
        "ingested": counts.ingested,
        "audited": {state.value: count for state, count in counts.audited.items()},
        "delivered": {state.value: count for state, count in counts.delivered.items()},
    }
