"""The plots of a day's report as SVG: no script, no font, no picture from elsewhere."""

from collections import defaultdict
from collections.abc import Sequence
from html import escape
from itertools import accumulate, pairwise
from typing import Final

from holdfast.pipelines.config import Budget, EndState
from holdfast.pipelines.recon.axes import (
    Axes,
    clock_ticks,
    duration,
    duration_ticks,
    legend,
    line,
    number_ticks,
)
from holdfast.pipelines.recon.day import Counts, Verdict
from holdfast.pipelines.recon.flow import PER_DECADE, Flow
from holdfast.pipelines.recon.law import Finding, Kind
from holdfast.pipelines.recon.telling import moment
from holdfast.pipelines.watch.profile import Profile

STRIP_HEIGHT: Final = 40
WORST_FIRST: Final = (
    Kind.MISSING,
    Kind.CONFLICTING,
    Kind.ORPHAN,
    Kind.DUPLICATE,
    Kind.UNPARSABLE,
    Kind.LATE,
)
HOURS: Final = [(hour / 24, f"{hour:02d}:00") for hour in range(0, 25, 3)]


def cumulative(verdict: Verdict) -> str:
    """Two rising lines; the gap between them is what has not ended."""
    windows = _windows(verdict)
    came = list(accumulate((counts.ingested for counts in windows), initial=0))
    ended = list(accumulate((counts.ended for counts in windows), initial=0))
    axes = Axes(highest=max(came[-1], ended[-1], 1))
    upper, lower = axes.points(came), axes.points(ended)
    gap = (
        f'<polygon points="{upper} {" ".join(reversed(lower.split()))}" fill="var(--missing)" opacity=".35"/>'
    )
    inside = gap + line(upper, "--came") + line(lower, "--ended", dashed=True)
    return axes.draw(inside, HOURS, number_ticks(axes.highest), "ingested and ended, over the day") + legend(
        ("--came", f"{came[-1]:,} ingested"),
        ("--ended", f"{ended[-1]:,} ended, as audit has it"),
        ("--missing", f"{abs(came[-1] - ended[-1]):,} between them"),
        dashed={1},
    )


def strip(verdict: Verdict) -> str:
    """A cell for each window, in the colour of the worst that was found in it."""
    by_window: dict[int, list[Finding]] = defaultdict(list)
    for finding in verdict.evidence.findings:
        for window in {each.time_ms - each.time_ms % verdict.day.window_ms for each in finding.sightings}:
            by_window[window].append(finding)
    starts = list(verdict.day.windows)
    axes = Axes(highest=1, height=STRIP_HEIGHT)
    step = axes.width / len(starts)
    cells = []
    for number, start in enumerate(starts):
        ingested = verdict.evidence.windows.get(start, Counts()).ingested
        kinds = {finding.kind for finding in by_window[start]}
        worst = next((kind for kind in WORST_FIRST if kind in kinds), None)
        colour = f"--{worst}" if worst else "--good" if ingested else "--none"
        title = f"{moment(start)}: {ingested:,} ingested"
        if worst:
            title += f", {len(by_window[start]):,} found, worst {worst}"
        cells.append(
            f'<rect x="{axes.left + number * step:.2f}" y="{axes.top}" width="{step * 0.88:.2f}" '
            f'height="{STRIP_HEIGHT}" fill="var({colour})"><title>{escape(title)}</title></rect>'
        )
    return axes.draw("".join(cells), HOURS, [], "windows of the day") + legend(
        ("--good", "all ended"), *((f"--{kind}", kind.value) for kind in WORST_FIRST), ("--none", "no input")
    )


def burn(verdict: Verdict, budget: Budget) -> str:
    """How much of what may fail is left by when; what never ended counts as failed. Ahead, a forecast at that rate."""
    windows = _windows(verdict)
    allowed = budget.failed * verdict.total.ingested
    spent = list(accumulate(map(_spent, windows), initial=0))
    past = min(len(windows), max(0, verdict.evidence.now_ms - verdict.day.start_ms) // verdict.day.window_ms)
    highest = max(allowed, 1.0)
    lowest = min(0.0, allowed - spent[past])
    axes = Axes(highest=highest, lowest=lowest)
    left = [allowed - each for each in spent]
    inside = line(f"{axes.at(0, allowed)} {axes.at(1, 0)}", "--quiet", dashed=True)
    inside += line(
        " ".join(axes.at(n / len(windows), each) for n, each in enumerate(left[: past + 1])), "--spent"
    )
    if 0 < past < len(windows):
        end = allowed - spent[past] * len(windows) / past
        forecast = f"{axes.at(past / len(windows), left[past])} {axes.at(1, max(end, lowest))}"
        inside += line(forecast, "--spent", dashed=True)
    share = 100 * spent[past] / allowed if allowed else 0.0
    told = f"{spent[past]:,} of {allowed:,.0f} spent ({share:.0f} %): failed, or never ended"
    return axes.draw(inside, HOURS, number_ticks(highest), "what is left of the error budget") + legend(
        ("--spent", told),
        ("--quiet", f"{budget.failed:.1%} of what was ingested, spent evenly"),
        dashed={1},
    )


def age(flow: Flow, profile: Profile) -> str:
    """The age of the oldest message that audit does not have, with the bands in which somebody is told."""
    seconds = [each / 1000 for each in flow.ages_ms]
    axes = Axes(highest=max(*seconds, 1.0) * 1.12)
    allowed = profile.ages[-1]
    bands = (
        ("warn", allowed.warn_ms / 1000, allowed.page_ms / 1000, "--late"),
        ("page", allowed.page_ms / 1000, axes.highest, "--missing"),
    )
    inside = ""
    for name, floor, ceiling, colour in bands:
        if floor < axes.highest:
            top, bottom = axes.y(min(ceiling, axes.highest)), axes.y(floor)
            inside += (
                f'<rect x="{axes.left}" y="{top:.1f}" width="{axes.width}" height="{bottom - top:.1f}" '
                f'fill="var({colour})" opacity=".16"/>'
                f'<text x="{axes.left + axes.width - 6}" y="{bottom - 5:.1f}" text-anchor="end">{name}</text>'
            )
    inside += line(axes.points(seconds), "--came")
    marks = [
        (step, colour)
        for _, floor, _, colour in bands
        for step, (before, after) in enumerate(pairwise(seconds), 1)
        if before < floor <= after
    ]
    for step, colour in marks:
        x, _, y = axes.at(step / (len(seconds) - 1), seconds[step]).partition(",")
        inside += f'<circle cx="{x}" cy="{y}" r="5" fill="var({colour})" stroke="var(--card)"/>'
    end_ms = flow.start_ms + (len(seconds) - 1) * flow.step_ms
    told = f"at most {duration(max(flow.ages_ms))}"
    alarms = f"alarms: warn from {duration(allowed.warn_ms)} on, page from {duration(allowed.page_ms)} on"
    ticks = duration_ticks(axes.highest)
    return axes.draw(
        inside, clock_ticks(flow.start_ms, end_ms), ticks, "age of the oldest message on its way"
    ) + legend(("--came", told), ("--late", alarms))


def latencies(flow: Flow) -> str:
    """How many messages took how long, on a scale of powers of ten."""
    first, last = min(flow.bars), max(flow.bars)
    bars = range(first, last + 1)
    axes = Axes(highest=max(flow.bars.values()) * 1.08)
    step = axes.width / len(bars)
    inside, ticks = "", []
    for number, bar in enumerate(bars):
        count = flow.bars.get(bar, 0)
        y = axes.y(count)
        floor, ceiling = (10 ** ((bar + more) / PER_DECADE) for more in (0, 1))
        title = "at once" if bar < 0 else f"{duration(round(floor))} to {duration(round(ceiling))}"
        inside += (
            f'<rect x="{axes.left + (number + 0.06) * step:.2f}" y="{y:.1f}" width="{step * 0.88:.2f}" '
            f'height="{axes.y(0) - y:.1f}" fill="var(--came)"><title>{title}: {count:,}</title></rect>'
        )
        ticks.append((number / len(bars), "0" if bar < 0 else duration(round(floor))))
    every = 1 + len(bars) // 10
    half, most, longest = flow.shares_ms
    told = f"half within {duration(half)}, 99 % within {duration(most)}, all within {duration(longest)}"
    return axes.draw(inside, ticks[::every], number_ticks(axes.highest), "ingest to audit") + legend(
        ("--came", told)
    )


def _spent(counts: Counts) -> int:
    return counts.audited.get(EndState.FAILED, 0) + max(0, counts.ingested - counts.ended)


def _windows(verdict: Verdict) -> Sequence[Counts]:
    return [verdict.evidence.windows.get(start, Counts()) for start in verdict.day.windows]
