"""How a pipeline is, for people: a line that lives on a terminal, lines now and then in a log, the table of status."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict

import click

from holdfast.cli import present
from holdfast.cli.duration import told
from holdfast.client.cluster import Cluster
from holdfast.client.endpoint import Endpoint
from holdfast.errors import HoldfastError
from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.state import PartState, QueryState
from holdfast.pipelines.status import PartStatus, find_lag

LINE_S = 10.0
ANSWER_S_MAX = 2.0


class LiveView:
    """Shows rate, lag and end states of a part as it runs. The lag is asked of the cluster, not of the part."""

    def __init__(self, part: str, endpoint: Endpoint, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._part = part
        self._clock = clock
        self._cluster = Cluster(endpoint, client_id="holdfast-cli", timeout=ANSWER_S_MAX, patience_s=0)
        self._is_terminal = sys.stderr.isatty()
        self._phase = ""
        self._shown_at = 0.0
        self._rows: dict[str, int] = {}
        self._ui = ""

    def show(self, state: PartState) -> None:
        """What is new is told at once; how far it is every second on a terminal, every ten elsewhere."""
        if state.spark_ui and state.spark_ui != self._ui:
            self._ui = state.spark_ui
            self._say(f"Spark UI at {state.spark_ui}")
        is_new = state.phase != self._phase
        self._phase = state.phase
        elapsed_s = self._clock() - self._shown_at
        if not state.queries or not (is_new or self._is_terminal or elapsed_s >= LINE_S):
            return
        self._shown_at = self._clock()
        told_parts = []
        for query in state.queries:
            rows = query.rows - self._rows.get(query.name, 0)
            self._rows[query.name] = query.rows
            told_parts.append(self._tell(query, rows / elapsed_s if elapsed_s < 10 * LINE_S else 0.0))
        self._say("   ".join(told_parts), is_passing=not is_new)

    def close(self) -> None:
        """The last line stays."""
        if self._is_terminal:
            click.echo(err=True)
        self._cluster.close()

    def _tell(self, query: QueryState, rate: float) -> str:
        # A service is one query and bears its name; adapters are several.
        whose = "" if query.name == self._part else f"{query.name}: "
        batch = f"batch {query.batch_id}" if query.batch_id >= 0 else "no batch yet"
        parts = [f"{whose}{batch}", f"{rate:,.0f} messages/s", f"lag {self._lag(query)}"]
        parts += [f"{stage} {number:,}" for stage, number in query.messages.items() if stage != "ingested"]
        parts += [f"GIVEN UP {number:,} for {topic}" for topic, number in query.given_up.items()]
        return " · ".join(parts)

    def _lag(self, query: QueryState) -> str:
        if not query.positions:
            return "-"
        try:
            positions = {int(partition): offset for partition, offset in query.positions.items()}
            return f"{sum(find_lag(self._cluster, query.topic, positions).values()):,}"
        except HoldfastError:
            return "unknown"

    def _say(self, line: str, *, is_passing: bool = False) -> None:
        told_line = f"{self._part}: {present.printable(line)}"
        if self._is_terminal:
            click.echo(f"\r\x1b[K{told_line}", err=True, nl=not is_passing)
        else:
            click.echo(told_line, err=True)


def print_status(pipeline: Pipeline, parts: Sequence[PartStatus], *, as_json: bool) -> None:
    """Every part with its groups."""
    if as_json:
        fields = [{**asdict(part), "phase": part.phase} for part in parts]
        present.print_json({"pipeline": pipeline.name, "delivery": pipeline.mode.value, "parts": fields})
        return
    now_ms = time.time_ns() // 1_000_000
    rows = []
    for part in parts:
        state = part.state
        queries = {query.name: query for query in state.queries} if state is not None else {}
        for lag in part.lags:
            query = queries.get(lag.name)
            rows.append(
                [
                    part.part,
                    part.phase,
                    state.pid if state is not None and part.is_running else None,
                    told(now_ms - state.updated_ms) if state is not None else None,
                    lag.topic,
                    lag.group,
                    lag.lag,
                    query.batch_id if query is not None else None,
                    _counts(query),
                ]
            )
    titles = ("PART", "PHASE", "PID", "HEARD", "TOPIC", "GROUP", "LAG", "BATCH", "MESSAGES SINCE ITS START")
    present.print_table(titles, rows)
    for part in parts:
        if part.state is not None and part.state.error:
            what = "waits and tries again" if part.is_running else "failed"
            click.echo(f"the {part.part} {what}: {present.printable(part.state.error)}")


def _counts(query: QueryState | None) -> str | None:
    if query is None:
        return None
    told_parts = [f"{stage} {number:,}" for stage, number in query.messages.items()]
    told_parts += [f"GIVEN UP {number:,} for {topic}" for topic, number in query.given_up.items()]
    return ", ".join(told_parts)
