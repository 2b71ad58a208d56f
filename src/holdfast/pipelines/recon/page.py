"""A tenant's day as one self-contained HTML page: no script, no font, no picture from elsewhere."""

from collections import defaultdict
from html import escape
from itertools import accumulate
from typing import Final

from holdfast.pipelines.config import DAY_MS, Budget, EndState
from holdfast.pipelines.recon.day import DayState, Verdict
from holdfast.pipelines.recon.law import Finding, Kind
from holdfast.pipelines.recon.telling import headline, moment

ROWS_MAX: Final = 1_000
WIDTH: Final = 900
HEIGHT: Final = 200

_WORST_FIRST: Final = (
    Kind.MISSING, Kind.CONFLICTING, Kind.ORPHAN, Kind.DUPLICATE, Kind.UNPARSABLE, Kind.LATE,
)  # fmt: skip
_COLOURS: Final = {
    Kind.MISSING: "#c62828", Kind.CONFLICTING: "#ad1457", Kind.ORPHAN: "#6a1b9a",
    Kind.DUPLICATE: "#ef6c00", Kind.UNPARSABLE: "#5d4037", Kind.LATE: "#f9a825",
}  # fmt: skip
_STATE_COLOURS: Final = {
    DayState.CLOSED: "#2e7d32", DayState.OPEN: "#c62828", DayState.NOT_YET: "#1565c0", DayState.BLIND: "#455a64",
}  # fmt: skip
_STYLE: Final = """\
:root { color-scheme: light dark } body { font: 15px/1.5 system-ui, sans-serif; margin: 0 } main { max-width: 940px;
margin: 0 auto; padding: 24px } h1 b { color: #fff; padding: 2px 12px; border-radius: 4px } h2 { font-size: 17px;
margin: 28px 0 6px } svg { width: 100%; height: auto; display: block } svg text { font: 12px system-ui, sans-serif;
fill: currentColor } table { border-collapse: collapse; width: 100%; font-size: 13px } th, td { text-align: left;
padding: 3px 8px; border-bottom: 1px solid #8884; vertical-align: top; overflow-wrap: anywhere } .legend span {
margin-right: 14px; white-space: nowrap } .legend i { display: inline-block; width: 11px; height: 11px; margin-right:
4px } .quiet { opacity: .7 }
"""


def render(verdict: Verdict, budget: Budget) -> str:
    """The page."""
    title = f"{verdict.tenant} {verdict.day.date}: {verdict.state.value}"
    law, others = headline(verdict).split("\n")
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in verdict.reasons)
    body = (
        f"<h1>{escape(verdict.tenant)} {verdict.day.date} "
        f'<b style="background:{_STATE_COLOURS[verdict.state]}">{verdict.state.value}</b></h1>'
        f"<p>{escape(law.split(verdict.state.value, 1)[1].strip())}<br>{escape(others)}</p><ul>{reasons}</ul>"
        f"<h2>Ingested and ended, over the day</h2>{_cumulative(verdict)}"
        f"<h2>Windows</h2>{_strip(verdict)}{_legend()}"
        f"<h2>Error budget</h2>{_burn(verdict, budget)}"
        f"<h2>What was found</h2>{_findings(verdict)}"
        f'<p class="quiet">Judged {moment(verdict.evidence.now_ms)} from what was read of {_read(verdict)}.</p>'
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        "</body>\n</html>\n"
    )


def _cumulative(verdict: Verdict) -> str:
    """Two rising lines; the gap between them is what has not ended."""
    windows = [verdict.evidence.windows[start] for start in sorted(verdict.evidence.windows)]
    ingested = list(accumulate((counts.ingested for counts in windows), initial=0))
    ended = list(accumulate((counts.ended for counts in windows), initial=0))
    highest = max(ingested[-1], ended[-1], 1)
    upper, lower = _points(ingested, highest), _points(ended, highest)
    return _chart(
        f'<polygon points="{upper} {" ".join(reversed(lower.split()))}" fill="#c62828" opacity=".35"/>'
        f'<polyline points="{upper}" fill="none" stroke="#1565c0" stroke-width="2"/>'
        f'<polyline points="{lower}" fill="none" stroke="#2e7d32" stroke-width="2" stroke-dasharray="6 3"/>'
        f'<text x="8" y="16">blue: {ingested[-1]:,} ingested · green, dashed: {ended[-1]:,} ended</text>'
    )


def _strip(verdict: Verdict) -> str:
    """A cell for each window, in the colour of the worst that was found in it."""
    worst: dict[int, Kind] = {}
    by_window: dict[int, list[Finding]] = defaultdict(list)
    for finding in verdict.evidence.findings:
        for window in {each.time_ms - each.time_ms % verdict.day.window_ms for each in finding.sightings}:
            by_window[window].append(finding)
            kinds = {each.kind for each in by_window[window]}
            worst[window] = next(kind for kind in _WORST_FIRST if kind in kinds)
    starts = list(verdict.day.windows)
    step = WIDTH / len(starts)
    cells = []
    for number, start in enumerate(starts):
        counts = verdict.evidence.windows.get(start)
        ingested = counts.ingested if counts else 0
        colour = _COLOURS[worst[start]] if start in worst else "#2e7d32" if ingested else "#9e9e9e"
        title = f"{moment(start)}: {ingested:,} ingested"
        if start in worst:
            title += f", {len(by_window[start])} found, worst {worst[start]}"
        cells.append(
            f'<rect x="{number * step:.2f}" y="0" width="{step * 0.9:.2f}" height="34" fill="{colour}">'
            f"<title>{escape(title)}</title></rect>"
        )
    return f'<svg viewBox="0 0 {WIDTH} 34" role="img" aria-label="windows of the day">{"".join(cells)}</svg>'


def _burn(verdict: Verdict, budget: Budget) -> str:
    """How much of what may fail has failed by when; what never ended counts as failed."""
    windows = [verdict.evidence.windows[start] for start in sorted(verdict.evidence.windows)]
    allowed = budget.failed * verdict.total.ingested
    spent = list(
        accumulate(
            (
                counts.audited.get(EndState.FAILED, 0) + max(0, counts.ingested - counts.ended)
                for counts in windows
            ),
            initial=0,
        )
    )
    left = [max(0.0, allowed - each) for each in spent]
    share = 100 * spent[-1] / allowed if allowed else 0.0
    return _chart(
        f'<polyline points="0,0 {WIDTH},{HEIGHT}" fill="none" stroke="#888" stroke-dasharray="4 4"/>'
        f'<polyline points="{_points(left, allowed or 1)}" fill="none" stroke="#ef6c00" stroke-width="2"/>'
        f'<text x="{WIDTH - 8}" y="16" text-anchor="end">{share:.1f} % of {allowed:,.0f} '
        f"({budget.failed:.1%} of what was ingested) spent; dotted: spent evenly</text>"
    )


def _findings(verdict: Verdict) -> str:
    findings = verdict.evidence.findings
    if not findings:
        return "<p>Nothing.</p>"
    rows = "".join(
        f"<tr><td>{finding.kind}</td><td>{escape(finding.id)}</td><td>{escape(finding.why)}</td><td>"
        + "<br>".join(
            f"{each.stage} {escape(str(each.place))}, {moment(each.arrived_ms)}" for each in finding.sightings
        )
        + "</td></tr>"
        for finding in findings[:ROWS_MAX]
    )
    more = len(findings) - ROWS_MAX
    left_out = f"<p>{more:,} more stand in the JSON beside this page.</p>" if more > 0 else ""
    return f"<table><tr><th>Kind</th><th>Id</th><th>Why</th><th>Records</th></tr>{rows}</table>{left_out}"


def _legend() -> str:
    kinds = "".join(
        f'<span><i style="background:{_COLOURS[kind]}"></i>{kind}</span>' for kind in _WORST_FIRST
    )
    return (
        f'<p class="legend"><span><i style="background:#2e7d32"></i>all ended</span>{kinds}'
        '<span><i style="background:#9e9e9e"></i>no input</span></p>'
    )


def _read(verdict: Verdict) -> str:
    return ", ".join(
        f"{escape(str(view))} [{view.start}, {view.read_to})" for view in verdict.evidence.partitions
    )


def _points(values: list[int] | list[float], highest: float) -> str:
    last = max(1, len(values) - 1)
    return " ".join(
        f"{WIDTH * number / last:.1f},{HEIGHT - (HEIGHT - 24) * value / highest:.1f}"
        for number, value in enumerate(values)
    )


def _chart(inside: str) -> str:
    hours = "".join(
        f'<text x="{WIDTH * hour / 24:.0f}" y="{HEIGHT + 16}" text-anchor="middle">{hour:02d}:00</text>'
        for hour in range(3, DAY_MS // 3_600_000, 3)
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT + 22}" role="img">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="currentColor" opacity=".3"/>{inside}{hours}</svg>'
    )
