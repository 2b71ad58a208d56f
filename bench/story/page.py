"""The story as one page that needs nothing but a browser: what was broken when, and what each mode made of it."""

from collections.abc import Mapping
from html import escape
from typing import Final

from bench.story.audit import Audited, Closing
from bench.story.day import Ran
from holdfast.pipelines.config import Mode
from holdfast.pipelines.recon import page, plots
from holdfast.pipelines.recon.axes import Axes, duration_ticks, line, number_ticks
from holdfast.pipelines.recon.law import Kind
from holdfast.pipelines.watch.profile import derive

FINDINGS_MAX: Final = 12
FINDINGS: Final = "findings.json"
"""Beside the page."""
WAYS: Final = {
    Mode.DUAL: "Each message is sent to its topic, then to audit: two sends that know nothing of each other.",
    Mode.ADAPTER: "A message is sent once. A second group, in a process of its own, forwards it to audit.",
    Mode.TRANSACTION: "Topic, audit and books are written by one Kafka transaction for each micro-batch.",
}
LANE: Final = 15
"""Between two words about faults that happened close to each other."""


def render(messages: int, ran: Mapping[Mode, Ran], audited: Mapping[Mode, Audited]) -> str:
    """All of it."""
    body = (
        f"<h1>{messages:,} messages, three ways to tell audit</h1>"
        "<p>Payments of three tenants are checked on Spark; those that pass go on to the next service, and audit has "
        "to know of every one. The same things are broken in each mode: a process of the pipeline is killed in the "
        "middle of a batch, audit refuses sends for a while, the log is killed and comes back. Then reconciliation "
        "is asked whether the day is complete, and held against a plain consumer that counts ids.</p>"
        f"{_summary(messages, ran, audited)}"
    )
    for mode, day in ran.items():
        body += _chapter(messages, day, audited[mode])
    return page.document(f"{messages:,} messages, three ways", body)


def _summary(messages: int, ran: Mapping[Mode, Ran], audited: Mapping[Mode, Audited]) -> str:
    rows = ""
    for mode, day in ran.items():
        found = audited[mode]
        rows += _row(mode.value, found.closing, messages / day.seconds, day.undisturbed_per_s)
        if found.repair is not None:
            rows += _row(f"{mode.value}, repaired", found.repair.closing, None, None)
    titles = ("Missing", "Doubled", "Messages a second, faults included", "After the last fault")
    heads = "".join(f'<th class="number">{title}</th>' for title in titles)
    head = f"<tr><th>Mode</th><th>Day</th><th>Named exactly</th>{heads}</tr>"
    return (
        f'<div class="card"><table>{head}{rows}</table></div>'
        '<p class="quiet">Missing and doubled are numbers of ids. Named exactly: what reconciliation names is what a '
        "plain consumer has counted, id by id. What is doubled nobody can take back: a repaired day is closed by a "
        "budget that bears it.</p>"
    )


def _row(name: str, closing: Closing, rate: float | None, undisturbed: float | None) -> str:
    numbers = [
        f"{closing.count(Kind.MISSING):,}",
        f"{closing.count(Kind.DUPLICATE):,}",
        *("" if each is None else f"{each:,.0f}" for each in (rate, undisturbed)),
    ]
    cells = "".join(f'<td class="number">{each}</td>' for each in numbers)
    exact = "yes" if closing.is_exact else "NO"
    return (
        f"<tr><td>{escape(name)}</td><td>{page.badge(closing.state.value)}</td><td>{exact}</td>{cells}</tr>"
    )


def _chapter(messages: int, ran: Ran, audited: Audited) -> str:
    tenant, verdict = next(iter(audited.closing.verdicts.items()))
    pipeline = ran.pipeline
    profile = derive(pipeline.trigger, pipeline.alarms, pipeline.budget, pipeline.mode)
    body = (
        f"<h2>{ran.mode.value.capitalize()} {page.badge(audited.closing.state.value)}</h2><p>{WAYS[ran.mode]}</p>"
        f'<h3>How far the service was</h3><div class="card">{_progress(messages, ran)}</div>'
        f"<h3>{escape(tenant)}, the largest tenant</h3>{page.law(verdict)}"
        f'<div class="card">{plots.strip(verdict)}</div>'
    )
    if verdict.evidence.findings:
        body += page.findings(verdict, FINDINGS_MAX, others=f"{FINDINGS}, with those of the other tenants")
    if audited.repair is not None:
        closing = audited.repair.closing
        after = closing.verdicts[tenant]
        reasons = "; ".join(after.reasons)
        body += (
            f"<h3>{escape(tenant)}, repaired {page.badge(after.state.value)}</h3>{page.law(after)}"
            f"<p>{audited.repair.forwarded:,} messages of all tenants were forwarded from where they stood, "
            f"{audited.repair.ended_anew:,} that stood in ingest alone were ended anew. "
            f"{escape(reasons[:1].upper() + reasons[1:])}{'.' if reasons else ''}</p>"
            f'<div class="card">{plots.strip(after)}</div>'
        )
    if audited.flow.bars:
        body += (
            f'<h3>The oldest message that audit did not have</h3><div class="card">{plots.age(audited.flow, profile)}'
            f'</div><h3>From ingest to audit</h3><div class="card">{plots.latencies(audited.flow)}</div>'
        )
    return body


def _progress(messages: int, ran: Ran) -> str:
    """A rising line, and a mark for everything that was broken."""
    axes = Axes(highest=messages * 1.02)
    points = " ".join(axes.at(seconds / ran.seconds, passed) for seconds, passed in ran.samples)
    inside = line(points, "--came")
    for number, (seconds, what) in enumerate(ran.faults):
        share = seconds / ran.seconds
        x = float(axes.at(share, 0).split(",")[0])
        is_late = share > 0.75
        inside += (
            f'<line x1="{x}" x2="{x}" y1="{axes.top}" y2="{axes.top + axes.height}" stroke="var(--missing)" '
            f'stroke-dasharray="3 3"/><text x="{x + (-6 if is_late else 6)}" y="{axes.top + 16 + number % 8 * LANE}" '
            f'text-anchor="{"end" if is_late else "start"}">{escape(what)}</text>'
        )
    across = [(value / ran.seconds, text) for value, text in duration_ticks(ran.seconds)]
    return axes.draw(inside, across, number_ticks(messages), "how far the service was")
