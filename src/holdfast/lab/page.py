"""An account or a sweep as one self-contained HTML page: no script, no font, no picture from elsewhere."""

from html import escape
from importlib import resources

from holdfast.lab.account import Account, Frame
from holdfast.lab.layout import LEGEND, Row, clock, rows


def document(title: str, body: str) -> str:
    """A page around `body`, with the stylesheet inside."""
    style = (resources.files("holdfast.lab") / "page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def account_page(account: Account) -> str:
    """The whole run: story, verdict, and a strip per replica after every step."""
    scenario = account.scenario
    frames = "\n".join(_frame(number, frame) for number, frame in enumerate(account.frames, start=1))
    body = (
        f"<header><h1>{escape(scenario.title)}</h1><p>{escape(scenario.about)}</p>"
        f'<p class="facts">scenario <b>{escape(scenario.name)}</b>, engine <b>{account.engine.name}</b>, '
        f"policy <b>{account.policy}</b>, {scenario.replicas} replicas</p></header>\n"
        f"{_verdict(account)}\n{_legend()}\n<ol>\n{frames}\n</ol>"
    )
    return document(f"{scenario.name} under {account.policy}", body)


def _verdict(account: Account) -> str:
    removed = account.removed()
    forgot = f"Cleaners removed {removed['tombstones']} tombstones and {removed['outcomes']} outcomes in all."
    if account.agreed:
        lines = ["Through every replica a consumer gets what was written."]
    else:
        lines = [f"Replica {finding.replica}: {finding.what}." for finding in account.findings]
        lines += [f"Replica {replica.id} stopped itself: {replica.halted}." for replica in account.halted]
    told = "".join(f"<p>{escape(line)}</p>" for line in lines)
    kind = "good" if account.agreed else "bad"
    return (
        f'<section class="verdict {kind}"><h2>{account.verdict.capitalize()}</h2>{told}'
        f'<p class="quiet">{forgot}</p></section>'
    )


def _legend() -> str:
    samples = "".join(
        f'<span><i class="cell {look}">{escape(sample)}</i> {escape(meaning)}</span>'
        for look, sample, meaning in LEGEND
    )
    return f'<p class="legend">{samples}</p>'


def _frame(number: int, frame: Frame) -> str:
    grid, drawn = rows(frame)
    heads = "".join(f"<th>{column.heading}</th>" for column in grid)
    coordinated = frame.strips[0].removable is not None
    heads += "<th>LSO / end</th>" + ("<th>MTRO / MXRO</th>" if coordinated else "")
    heads += '<th class="seen">read_committed gets</th>'
    lines = "".join(_row(row) for row in drawn)
    remark = f'<p class="quiet">{escape(frame.remark)}</p>' if frame.remark else ""
    wrong = "".join(
        f'<p class="wrong">Replica {finding.replica}: {escape(finding.what)}</p>'
        for finding in frame.findings
    )
    table = (
        f'<div class="scroll"><table><thead><tr><th></th>{heads}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )
    return (
        f'<li id="step-{number}"><h3><code>{escape(frame.line.text)}</code>'
        f"<time>{clock(frame.now_ms)}</time></h3><p>{escape(frame.sentence)}</p>{remark}"
        f"{'' if frame.is_still else table}{wrong}</li>"
    )


def _row(row: Row) -> str:
    strip = row.strip
    away = strip.state in ("down", "stopped")
    cells = "".join(
        f'<td><i class="cell {square.look}">{escape(square.text)}</i></td>' for square in row.squares
    )
    stable = f'<b class="wrong">{strip.last_stable_offset}</b>' if row.is_stuck else strip.last_stable_offset
    cells += f'<td class="number">{stable} / {strip.log_end}</td>'
    if strip.removable is not None:
        cells += f'<td class="number">{strip.removable[0]} / {strip.removable[1]}</td>'
    seen = ", ".join(f"{key}={value}" for key, value in strip.seen.items()) or "nothing"
    cells += f'<td class="seen">{"" if away else escape(seen)}</td>'
    state = strip.state.replace(" ", "-")
    return f'<tr class="{state}"><th>{strip.replica} <small>{strip.state}</small></th>{cells}</tr>'
