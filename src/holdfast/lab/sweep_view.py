"""A sweep as a table in the terminal, and as a page with a plot."""

import math
from collections.abc import Sequence
from html import escape

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from holdfast.lab.page import document
from holdfast.lab.sweep import OUTAGES_MS, RETENTIONS_MS, SweepCell
from holdfast.rules.policy import DAY_MS, HOUR_MS

_WIDTH, _HEIGHT, _MARGIN = 760, 320, 46
_QUESTION = "Which delete.retention.ms is long enough?"
_METHOD = "Share of random runs in which a replica, back after an outage, does not show what was written."
_COLOURS = ("#2f6fd0", "#16a3a3", "#3c9a3c", "#c79a00", "#d86a1f", "#b3261e")


def short(ms: int) -> str:
    """`6h`, `3d`."""
    return f"{ms // DAY_MS}d" if ms % DAY_MS == 0 else f"{ms // HOUR_MS}h"


def table(cells: Sequence[SweepCell]) -> RenderableType:
    """Kafka's shares, cell by cell, and what coordination makes of the same runs."""
    grid = Table(box=box.SIMPLE, title_justify="left", caption_justify="left")
    grid.add_column("retention ↓  outage →", style="bold")
    for outage_ms in OUTAGES_MS:
        grid.add_column(short(outage_ms), justify="right")
    for retention_ms in RETENTIONS_MS:
        row = _row(cells, "kafka", retention_ms)
        grid.add_row(short(retention_ms), *(Text(f"{cell.share:.0%}", style=_style(cell)) for cell in row))
    return Group(Text(_QUESTION, style="bold"), Text(_METHOD, style="dim"), grid, Text(conclusion(cells)))


def conclusion(cells: Sequence[SweepCell]) -> str:
    """The sweep in two sentences, from its own figures."""
    worst = max(
        (cell for cell in cells if cell.policy == "kafka" and cell.diverged),
        key=lambda cell: cell.retention_ms,
        default=None,
    )
    coordinated = [cell for cell in cells if cell.policy == "coordinated"]
    told = f"Coordinated: {sum(c.diverged for c in coordinated)} of {sum(c.runs for c in coordinated)} runs."
    if worst is None:
        return f"No run diverged under kafka. {told}"
    return f"Under kafka no retention here is enough: even {short(worst.retention_ms)} diverges. {told}"


def sweep_page(cells: Sequence[SweepCell]) -> str:
    """The sweep as one self-contained page."""
    heads = "".join(f"<th>{short(outage_ms)}</th>" for outage_ms in OUTAGES_MS)
    lines = "".join(
        f"<tr><th>{short(retention_ms)}</th>"
        + "".join(_cell(cell) for cell in _row(cells, "kafka", retention_ms))
        + "</tr>"
        for retention_ms in RETENTIONS_MS
    )
    runs = cells[0].runs
    body = (
        f"<header><h1>{_QUESTION}</h1><p>{_METHOD}</p>"
        f'<p class="facts">engine <b>model</b>, policy <b>kafka</b>, {runs} runs per cell</p></header>'
        f'<section class="verdict bad"><h2>None</h2><p>{escape(conclusion(cells))}</p></section>'
        '<div class="scroll"><table class="sweep"><thead><tr><th>retention ↓ outage →</th>'
        f"{heads}</tr></thead>"
        f"<tbody>{lines}</tbody></table></div>{_plot(cells)}"
    )
    return document("Outage and retention", body)


def _row(cells: Sequence[SweepCell], policy: str, retention_ms: int) -> list[SweepCell]:
    return [cell for cell in cells if (cell.policy, cell.retention_ms) == (policy, retention_ms)]


def _style(cell: SweepCell) -> str:
    if cell.share == 0:
        return "green"
    return "yellow" if cell.share < 0.5 else "bold red"


def _cell(cell: SweepCell) -> str:
    tint = (
        "transparent" if cell.share == 0 else f"color-mix(in srgb, var(--bad) {cell.share:.0%}, var(--card))"
    )
    ink = "var(--card)" if cell.share >= 0.6 else "var(--ink)"
    return f'<td class="rate" style="background:{tint};color:{ink}">{cell.share:.0%}</td>'


def _plot(cells: Sequence[SweepCell]) -> str:
    """Share over outage length (logarithmic), one line per retention."""
    lines, labels = [], []
    for number, (retention_ms, colour) in enumerate(zip(RETENTIONS_MS, _COLOURS, strict=True)):
        points = [(_x(cell.outage_ms), _y(cell.share)) for cell in _row(cells, "kafka", retention_ms)]
        path = " ".join(f"{x:.0f},{y:.0f}" for x, y in points)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        x = _MARGIN + number * 110
        labels.append(
            f'<rect x="{x}" y="4" width="16" height="4" fill="{colour}"/>'
            f'<text x="{x + 22}" y="11">kept {short(retention_ms)}</text>'
        )
    ticks = "".join(
        f'<text x="{_x(ms):.0f}" y="{_HEIGHT - 22}" text-anchor="middle">{short(ms)}</text>'
        for ms in OUTAGES_MS
    )
    levels = "".join(
        f'<line x1="{_MARGIN}" x2="{_WIDTH - 20}" y1="{_y(share):.0f}" y2="{_y(share):.0f}" '
        f'stroke="var(--line)"/><text x="{_MARGIN - 8}" y="{_y(share) + 4:.0f}" text-anchor="end">'
        f"{share:.0%}</text>"
        for share in (0, 0.25, 0.5, 0.75, 1)
    )
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(_METHOD)}">'
        f"{levels}{ticks}{''.join(lines)}{''.join(labels)}</svg>"
        "<figcaption>Diverged runs by length of the outage. A longer retention moves the line to the right; "
        "none keeps it at zero.</figcaption></figure>"
    )


def _x(outage_ms: int) -> float:
    span = math.log(OUTAGES_MS[-1] / OUTAGES_MS[0])
    return _MARGIN + math.log(outage_ms / OUTAGES_MS[0]) / span * (_WIDTH - _MARGIN - 20)


def _y(share: float) -> float:
    return _HEIGHT - 44 - share * (_HEIGHT - 80)
