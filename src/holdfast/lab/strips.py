"""An account in the terminal: aligned, coloured strips, one per replica, and a verdict."""

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from holdfast.lab.account import Account, Frame, Look
from holdfast.lab.layout import ABSENT, HOLE, LEGEND, Row, Square, clock, rows

_STYLES = {
    Look.VALUE.value: "black on green",
    Look.TOMBSTONE.value: "white on magenta",
    Look.OPEN.value: "black on yellow",
    Look.ABORTED.value: "white on red",
    Look.COMMIT.value: "black on cyan",
    Look.ABORT.value: "bold white on red",
    Look.EMPTY.value: "dim reverse",
    Look.FILLER.value: "dim",
    HOLE: "dim",
    ABSENT: "",
}


def opening(account: Account) -> RenderableType:
    """What is going to be told."""
    scenario = account.scenario
    legend = Text()
    for look, sample, meaning in LEGEND:
        legend.append(f" {sample} ", style=_STYLES[look])
        legend.append(f" {meaning}   " if meaning else "  ")
    head = Text.assemble(
        (scenario.title, "bold"), ("   policy ", "dim"), (account.policy, "bold cyan"), style=""
    )
    return Group(head, Text(scenario.about, style="dim"), Text(), legend, Text())


def frame(number: int, account: Account, shown: Frame) -> RenderableType:
    """One line of the scenario: its text, its sentence, and the strips after it."""
    total = len(account.scenario.lines)
    head = Text.assemble(
        (f"{number:>2}/{total} ", "dim"),
        (shown.line.text, "bold"),
        (f"   {clock(shown.now_ms)}", "dim"),
    )
    parts: list[RenderableType] = [head, Padding(shown.sentence, (0, 0, 0, 3), expand=False)]
    if shown.remark:
        parts.append(Padding(Text(f"({shown.remark})", style="dim italic"), (0, 0, 0, 3), expand=False))
    if not shown.is_still:
        parts.append(_strips(shown))
    parts += [
        Text(f"   ✗ replica {finding.replica}: {finding.what}", style="bold red")
        for finding in shown.findings
    ]
    return Group(*parts, Text())


def _strips(shown: Frame) -> Table:
    grid, drawn = rows(shown)
    table = Table(box=None, padding=(0, 1, 0, 0), show_edge=False, header_style="dim")
    table.add_column("", min_width=12, no_wrap=True)
    for column in grid:
        table.add_column(column.heading, no_wrap=True, justify="center")
    table.add_column("LSO/end", justify="right", no_wrap=True)
    coordinated = shown.strips[0].removable is not None
    if coordinated:
        table.add_column("MTRO/MXRO", justify="right", no_wrap=True)
    table.add_column("read_committed gets", overflow="fold")
    for row in drawn:
        table.add_row(*_row(row, coordinated))
    return table


def _row(row: Row, coordinated: bool) -> list[RenderableType]:
    strip = row.strip
    away = strip.state in ("down", "stopped")
    name = Text(
        f"   {strip.replica} {strip.state}",
        style="red" if away else "bold" if strip.state == "leader" else "",
    )
    offsets = Text.assemble(
        (str(strip.last_stable_offset), "bold red" if row.is_stuck else ""), f"/{strip.log_end}"
    )
    cells: list[RenderableType] = [name, *(_drawn(square, away) for square in row.squares), offsets]
    if coordinated:
        assert strip.removable is not None
        cells.append(Text(f"{strip.removable[0]}/{strip.removable[1]}", style="dim"))
    seen = "  ".join(f"{key}={value}" for key, value in strip.seen.items()) or "-"
    cells.append(Text("" if away else seen, style="dim" if seen == "-" else ""))
    return cells


def _drawn(square: Square, away: bool) -> Text:
    if square.look == HOLE:
        return Text(square.text, style="dim")
    if square.look == ABSENT:
        return Text("")
    style = _STYLES[square.look]
    return Text(f" {square.text} ", style=f"dim {style}" if away else style)


def closing(account: Account) -> RenderableType:
    """The verdict."""
    removed = account.removed()
    forgot = f"Cleaners removed {removed['tombstones']} tombstones and {removed['outcomes']} outcomes in all."
    if account.agreed:
        body = Group(
            Text("Through every replica a consumer gets what was written."), Text(forgot, style="dim")
        )
        return Panel(body, title="AGREED", title_align="left", border_style="green", box=box.HEAVY)
    lines = [Text(f"Replica {finding.replica}: {finding.what}.") for finding in account.findings]
    lines += [Text(f"Replica {replica.id} stopped itself: {replica.halted}.") for replica in account.halted]
    lines.append(Text(forgot, style="dim"))
    if account.policy == "kafka":
        name, engine = account.scenario.name, account.engine.name
        # Real brokers know Kafka's way alone.
        chosen = "" if engine == "model" else " --engine holdfast"
        cured = f"The same story, cured: holdfast lab run {name}{chosen} --policy coordinated"
        lines.append(Text(cured, style="dim"))
    word, colon, variants = account.verdict.partition(":")
    title = f"{word.upper()}{colon}{variants}"
    return Panel(Group(*lines), title=title, title_align="left", border_style="red", box=box.HEAVY)
