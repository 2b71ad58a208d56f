"""A tenant's day as one self-contained HTML page, and as JSON."""

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any, Final

from holdfast.pipelines.config import Budget
from holdfast.pipelines.recon import plots
from holdfast.pipelines.recon.day import Verdict
from holdfast.pipelines.recon.flow import PER_DECADE, Flow
from holdfast.pipelines.recon.telling import headlines, moment, next_step, tell_json
from holdfast.pipelines.watch.profile import Profile

ROWS_MAX: Final = 1_000


def render(
    verdict: Verdict,
    budget: Budget,
    *,
    flow: Flow | None = None,
    profile: Profile | None = None,
    options: Sequence[str] = (),
) -> str:
    """The page; what cannot be told of the flow is said. For `options` see `next_step`."""
    head = f"<h1>{escape(verdict.tenant)} {verdict.day.date} {badge(verdict.state.value)}</h1>{law(verdict)}"
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in verdict.reasons)
    body = (
        f"{head}{f'<ul>{reasons}</ul>' if reasons else ''}{_step(verdict, options)}"
        f"{section('Ingested and ended', plots.cumulative(verdict))}"
        f"{section('Windows', plots.strip(verdict))}"
        f"{section('Error budget', plots.burn(verdict, budget))}"
        f"{flow_sections(flow, profile)}"
        f"<h2>What was found</h2>{findings(verdict, ROWS_MAX)}"
        f'<p class="quiet">Judged {moment(verdict.evidence.now_ms)} from what was read of {_read(verdict)}.</p>'
    )
    return document(f"{verdict.tenant} {verdict.day.date}: {verdict.state.value}", body)


def to_json(verdict: Verdict, flow: Flow) -> dict[str, Any]:
    """What the page shows, for programs."""
    shares = dict(zip(("half_ms", "p99_ms", "max_ms"), flow.shares_ms, strict=False))
    return tell_json(verdict) | {
        "flow": {
            "one_in": flow.one_in,
            "audit_has_log_time": flow.is_stamped,
            "latency": shares
            | {"bars": [{"from_ms": bar_ms(bar), "messages": count} for bar, count in flow.bars.items()]},
            "oldest": [
                {"at": moment(flow.start_ms + step * flow.step_ms), "age_ms": age_ms}
                for step, age_ms in enumerate(flow.ages_ms)
            ],
        }
    }


def bar_ms(bar: int) -> float:
    """Where a bar of the histogram begins."""
    return 0 if bar < 0 else round(10 ** (bar / PER_DECADE), 1)


def document(title: str, body: str) -> str:
    """Everything around the body."""
    style = (files("holdfast.pipelines.recon") / "page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        "</body>\n</html>\n"
    )


def section(title: str, inside: str, *, quiet: str = "") -> str:
    """A plot under its title."""
    said = f'<p class="quiet">{escape(quiet)}</p>' if quiet else ""
    return f'<h2>{escape(title)}</h2>{said}<div class="card">{inside}</div>'


def badge(state: str) -> str:
    """The state, in its colour."""
    return f'<span class="state {state}">{state}</span>'


def law(verdict: Verdict) -> str:
    """The law in numbers."""
    first, others = headlines(verdict)
    return (
        f'<p class="law">{escape(first.split(verdict.state.value, 1)[1].strip())}</p>'
        f'<p class="quiet">{escape(others)}</p>'
    )


def flow_sections(flow: Flow | None, profile: Profile | None) -> str:
    """How messages moved."""
    if flow is None or profile is None:
        return ""
    ages, times = "Age of the oldest message that audit did not have", "From ingest to audit"
    if not flow.ages_ms or not flow.bars:
        return f"<h2>{times}</h2><p>No message of the day was seen at both ends.</p>"
    if not flow.is_stamped:
        return (
            f"<h2>{times}</h2><p>Audit's records bear the time of the messages that they tell of, so when they "
            "arrived is not known. A topic with <code>message.timestamp.type=LogAppendTime</code> tells it.</p>"
        )
    sampled = f"One message of {flow.one_in} was looked at." if flow.one_in > 1 else ""
    return section(ages, plots.age(flow, profile), quiet=sampled) + section(
        times, plots.latencies(flow), quiet=sampled
    )


def findings(verdict: Verdict, rows_max: int, *, others: str = "the JSON beside this page") -> str:
    """What was found, row by row; `others` is where all of it stands."""
    found = verdict.evidence.findings
    if not found:
        return "<p>Nothing.</p>"
    rows = "".join(
        f'<tr><td class="kind">{finding.kind}</td><td>{escape(finding.id)}</td><td>{escape(finding.why)}</td>'
        '<td class="records">'
        + "<br>".join(
            f"{each.stage} {escape(str(each.place))}, {moment(each.arrived_ms)}" for each in finding.sightings
        )
        + "</td></tr>"
        for finding in found[:rows_max]
    )
    more = len(found) - rows_max
    left_out = f'<p class="quiet">{more:,} more stand in {escape(others)}.</p>' if more > 0 else ""
    return f"<table><tr><th>Kind</th><th>Id</th><th>Why</th><th>Records</th></tr>{rows}</table>{left_out}"


def _step(verdict: Verdict, options: Sequence[str]) -> str:
    step = next_step(verdict, options)
    return f"<p>What is missing is made up for by <code>{escape(step)}</code>.</p>" if step else ""


def _read(verdict: Verdict) -> str:
    return ", ".join(
        f"{escape(str(view))} [{view.start}, {view.read_to})" for view in verdict.evidence.partitions
    )
