"""Reads a pipeline from its file and checks whatever can be checked without asking anybody."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from holdfast.client import BOOTSTRAP_DEFAULT
from holdfast.client.cluster import parse_bootstrap
from holdfast.client.endpoint import Endpoint
from holdfast.client.security import PLAINTEXT, Security, parse_security, read_properties
from holdfast.errors import UsageError
from holdfast.pipelines.config import (
    AUDIT,
    DAY_MS,
    OWN_COLUMNS,
    WINDOW_MS,
    Adapter,
    Alarms,
    Budget,
    EndState,
    Mode,
    Pipeline,
    Reader,
    Tally,
    Trigger,
)
from holdfast.pipelines.document import Section, Value, read_document
from holdfast.pipelines.identity import Identity, Location, parse_location

EARLIEST: Final = "earliest"

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_FUNCTION: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_COLUMN: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def load_pipeline(path: Path) -> Pipeline:
    """Reads the file; UsageError names the line that is wrong."""
    root = read_document(path)
    name = _matching(
        root.require("pipeline", "orders"), _NAME, "letters, digits, dots, dashes and underscores"
    )
    ingest = root.section("ingest") or root.refuse("ingest is missing: `ingest: {topic: orders.in}`")
    audit = root.section("audit") or root.refuse("audit is missing: `audit: {topic: orders.audit}`")
    audit_topic = _topic(audit.require("topic", "orders.audit"))
    column, topics = _end_states(root, audit_topic)
    mode = Mode(root.require("delivery", "transaction").as_choice(tuple(each.value for each in Mode)))
    client_config, security = _client_config(root.find("client_config"))
    pipeline = Pipeline(
        path=path,
        name=name,
        endpoint=Endpoint(root.get("bootstrap", _bootstrap, BOOTSTRAP_DEFAULT), security),
        client_config=client_config,
        identity=_identity(root.section("identity")),
        ingest=_topic(ingest.require("topic", "orders.in")),
        starting=ingest.get("starting", _starting, EARLIEST),
        transform=_matching(root.require("transform", "checks:assess"), _FUNCTION, "module:function"),
        column=column,
        topics=topics,
        audit=audit_topic,
        adapters=_adapters(root, name, topics, mode),
        mode=mode,
        reader=root.get("reader", _reader, Reader.HOLDFAST),
        trigger=_trigger(root.section("trigger")),
        tally=_tally(root.section("tally"), root, mode),
        checkpoint=path.parent / _directory(root.require("checkpoint", "./checkpoint")),
        recovery_window_ms=root.get("recovery_window", Value.as_duration_ms, DAY_MS),
        budget=_budget(root.section("budget")),
        alarms=_alarms(root.section("alarms")),
        lines=_lines(root),
    )
    for section in (root, ingest, audit):
        section.close()
    _check_topics(pipeline)
    return pipeline


def _identity(section: Section | None) -> Identity:
    known = Identity()
    if section is None:
        return known
    source = section.find("source")
    found = Identity(
        id=section.get("id", _location, known.id),
        source=None
        if source is not None and source.text == "none"
        else section.get("source", _location, known.source),
        tenant=section.get("tenant", _location, known.tenant),
        time=section.get("time", lambda value: _location(value, may_be_timestamp=True), known.time),
    )
    section.close()
    return found


def _end_states(root: Section, audit: str) -> tuple[str, dict[EndState, str]]:
    section = root.section("end_states")
    if section is None:
        root.refuse("end_states is missing: `end_states: {qualified: orders.qualified}`")
    column = section.get("column", _column, "end_state")
    topics: dict[EndState, str] = {}
    for state in EndState:
        value = (
            section.require(state.value, "orders.qualified")
            if state is EndState.QUALIFIED
            else section.find(state.value)
        )
        if value is None or value.text == AUDIT:
            if value is not None and state is EndState.QUALIFIED:
                value.refuse("qualified messages have a topic of their own: that is what the pipeline is for")
            continue
        if _topic(value) == audit:
            value.refuse(f"this is the audit topic: say `{state.value}: {AUDIT}`, or name another topic")
        if value.text in topics.values():
            value.refuse(f"the topic {value.text!r} belongs to another end state already")
        topics[state] = value.text
    section.close()
    return column, topics


def _adapters(root: Section, name: str, topics: Mapping[EndState, str], mode: Mode) -> tuple[Adapter, ...]:
    section = root.section("adapters")
    if section is None:
        made = [
            Adapter(name=state.value, topic=topic, group=f"{name}.adapter.{state.value}")
            for state, topic in topics.items()
        ]
        return tuple(made) if mode is Mode.ADAPTER else ()
    if mode is not Mode.ADAPTER:
        section.refuse(
            f"adapters are for `delivery: adapter`; delivery {mode.value} tells the audit topic itself"
        )
    found: list[Adapter] = []
    for key in section.entries:
        entry = section.section(key)
        assert entry is not None
        if not _NAME.fullmatch(key):
            entry.refuse(f"adapters: {key!r} is not a name: letters, digits, dots, dashes and underscores")
        source = entry.require("from", next(iter(topics.values())))
        if source.text not in topics.values():
            source.refuse(
                f"{source.text!r} is not a topic of end_states, so that it has nothing for the audit topic"
            )
        if any(source.text == other.topic for other in found):
            source.refuse(f"two adapters for {source.text!r} would tell the audit topic everything twice")
        group = entry.get("group", lambda value: _matching(value, _TOPIC, "the name of a group"), "")
        starting = entry.get("starting", _starting, EARLIEST)
        group = group or f"{name}.adapter.{key}"
        found.append(Adapter(name=key, topic=source.text, group=group, starting=starting))
        entry.close()
    for topic in topics.values():
        if topic not in {adapter.topic for adapter in found}:
            section.refuse(f"adapters: none is for {topic!r}, so that what goes there would never be audited")
    return tuple(found)


def _trigger(section: Section | None) -> Trigger:
    known = Trigger()
    if section is None:
        return known
    found = Trigger(
        interval_ms=section.get("interval", Value.as_duration_ms, known.interval_ms),
        records_max=section.get("records", Value.as_count, known.records_max),
    )
    section.close()
    return found


def _tally(section: Section | None, root: Section, mode: Mode) -> Tally | None:
    if section is None:
        if mode is Mode.TRANSACTION:
            root.refuse("tally is missing: delivery transaction keeps books, `tally: {topic: orders.tally}`")
        return None
    window_ms = section.get("window", _window_ms, WINDOW_MS)
    found = Tally(topic=_topic(section.require("topic", "orders.tally")), window_ms=window_ms)
    section.close()
    return found


def _window_ms(value: Value) -> int:
    window_ms = value.as_duration_ms()
    if DAY_MS % window_ms:
        value.refuse(f"a day does not have a whole number of windows of {value.text}")
    return window_ms


def _budget(section: Section | None) -> Budget:
    known = Budget()
    if section is None:
        return known
    found = Budget(
        failed=section.get("failed", Value.as_share, known.failed),
        missing=section.get("missing", Value.as_share, known.missing),
        duplicate=section.get("duplicate", Value.as_share, known.duplicate),
        late=section.get("late", Value.as_share, known.late),
    )
    section.close()
    return found


def _alarms(section: Section | None) -> Alarms:
    known = Alarms()
    if section is None:
        return known
    age, runway = section.section("age"), section.section("runway")
    found = Alarms(
        stall_ms=section.get("stall", Value.as_duration_ms, known.stall_ms),
        age_warn_ms=_level(age, "warn", known.age_warn_ms),
        age_page_ms=_level(age, "page", known.age_page_ms),
        canary_ms=section.get("canary", Value.as_duration_ms, known.canary_ms),
        runway_warn_ms=_level(runway, "warn", known.runway_warn_ms),
        runway_page_ms=_level(runway, "page", known.runway_page_ms),
    )
    for each in filter(None, (section, age, runway)):
        each.close()
    if age is not None and found.age_warn_ms > found.age_page_ms:
        age.refuse("alarms.age: somebody is paged before they are warned; warn is the shorter one")
    if runway is not None and found.runway_warn_ms < found.runway_page_ms:
        runway.refuse("alarms.runway: somebody is paged before they are warned; warn is the longer one")
    return found


def _level(section: Section | None, key: str, otherwise: int) -> int:
    return otherwise if section is None else section.get(key, Value.as_duration_ms, otherwise)


def _check_topics(pipeline: Pipeline) -> None:
    """No topic may have two parts to play: the pipeline would read what it writes, or count books as messages."""
    parts = {pipeline.ingest: "ingest"}
    roles = [("audit.topic", pipeline.audit)]
    roles += [(f"end_states.{state.value}", topic) for state, topic in pipeline.topics.items()]
    roles += [("tally.topic", pipeline.tally.topic)] if pipeline.tally else []
    for key, topic in roles:
        part = key.partition(".")[0]
        other = parts.setdefault(topic, part)
        if other != part:
            raise UsageError(f"{pipeline.at(key)}: {key}: the topic {topic!r} is that of {other} already")


def _location(value: Value, *, may_be_timestamp: bool = False) -> Location:
    try:
        return parse_location(value.text, may_be_timestamp=may_be_timestamp)
    except ValueError as failure:
        value.refuse(str(failure))


def _reader(value: Value) -> Reader:
    return Reader(value.as_choice(tuple(each.value for each in Reader)))


def _starting(value: Value) -> str:
    return value.as_choice((EARLIEST, "latest"))


def _client_config(value: Value | None) -> tuple[Path | None, Security]:
    if value is None:
        return None, PLAINTEXT
    path = value.path.parent / value.as_text()
    try:
        return path, parse_security(read_properties(path))
    except UsageError as failure:
        value.refuse(str(failure))


def _bootstrap(value: Value) -> str:
    try:
        parse_bootstrap(value.text)
    except UsageError as failure:
        value.refuse(str(failure))
    return value.text


def _column(value: Value) -> str:
    column = _matching(value, _COLUMN, "the name of a column")
    # As Spark has it, case makes no difference.
    if column.lower() in {each.lower() for each in OWN_COLUMNS}:
        value.refuse(f"the column {column!r} is the pipeline's own: name another one for the end state")
    return column


def _directory(value: Value) -> str:
    directory = value.as_text()
    if "://" in directory:
        value.refuse(
            f"{directory!r} is a URL: a checkpoint is a directory, of this machine or one that is mounted"
        )
    return directory


def _topic(value: Value) -> str:
    return _matching(value, _TOPIC, "the name of a topic")


def _matching(value: Value, pattern: re.Pattern[str], what: str) -> str:
    text = value.as_text()
    if not pattern.fullmatch(text) or text in {".", ".."}:
        value.refuse(f"{text!r} is not {what}")
    return text


def _lines(section: Section) -> dict[str, int]:
    lines: dict[str, int] = {}
    for key, entry in section.entries.items():
        lines[f"{section.name}.{key}" if section.name else key] = entry.line
        if isinstance(entry, Section):
            lines |= _lines(entry)
    return lines
