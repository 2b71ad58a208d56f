"""A report as one self-contained HTML page: no script, no font, no picture from elsewhere."""

from html import escape
from importlib import resources

from holdfast.doctor.findings import Finding
from holdfast.doctor.report import CLEAN, DIVERGED, Report, by_reason


def report_page(report: Report, *, about: str, when: str) -> str:
    """What was found, what could not be looked at, and what was compared; `about` names the cluster."""
    style = (resources.files("holdfast.doctor") / "page.css").read_text(encoding="utf-8")
    body = (
        f"<h1>Do the replicas of {escape(about)} show the same?</h1>\n"
        f'<p class="quiet">Looked at on <time>{escape(when)}</time> by <code>holdfast doctor</code>: every replica '
        "read by itself, differences confirmed when nobody could be behind any more.</p>\n"
        f"{_verdict(report)}\n{_findings(report)}{_missed(report)}{_compared(report)}"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Replicas of {escape(about)}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )


def _verdict(report: Report) -> str:
    kind, title = {
        CLEAN: ("good", "All replicas show the same"),
        DIVERGED: ("bad", f"{_count(len(report.findings), 'difference')} found"),
    }.get(report.code, ("warn", "Not everything could be examined"))
    compared = (
        f"{_count(report.compared, 'partition')} compared, {_count(len(report.findings), 'difference')}"
    )
    if report.alone:
        compared += (
            f"; {_count(report.alone, 'partition')} with one replica, where there is nothing to compare"
        )
    told = compared if report.failure is None else report.failure
    return f'<section class="verdict {kind}"><h2>{title}</h2><p>{escape(told)}</p></section>'


def _findings(report: Report) -> str:
    if not report.findings:
        return ""
    return "<h2>Differences</h2>\n" + "\n".join(map(_finding, report.findings)) + "\n"


def _finding(finding: Finding) -> str:
    place = f"{finding.place.topic}:{finding.place.partition}"
    head = (
        f"<h3><code>{escape(place)}</code><span>replica {escape(str(finding.replica))}</span>"
        f'<span class="variant">{escape(finding.variant or "differs")}</span></h3>'
    )
    advice = f'<p class="quiet">{escape(finding.advice)}</p>'
    return f"<article>{head}<p>{escape(finding.what)}</p>{advice}</article>"


def _missed(report: Report) -> str:
    lines = [
        f"<tr><td><code>{escape(where)}</code></td><td>{escape(why)}</td></tr>"
        for where, why in by_reason(report.missed)
    ]
    return _table("Not examined", ("Where", "Why"), lines)


def _compared(report: Report) -> str:
    lines = [
        f"<tr><td><code>{escape(f'{each.place.topic}:{each.place.partition}')}</code></td>"
        f"<td>{escape(', '.join(map(str, each.replicas)))}</td><td>{len(each.findings)}</td></tr>"
        for each in report.examined
        if len(each.replicas) > 1
    ]
    return _table("Compared", ("Partition", "Replicas", "Differences"), lines)


def _table(title: str, heads: tuple[str, ...], lines: list[str]) -> str:
    if not lines:
        return ""
    head = "".join(f"<th>{each}</th>" for each in heads)
    rows = "\n".join(lines)
    return (
        f'<h2>{title}</h2>\n<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n'
        "</tbody></table></div>\n"
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
