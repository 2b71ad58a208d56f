"""`holdfast log`: look into files of record batches, Holdfast's or Kafka's; compare replicas."""

import base64
import codecs
import json
import mmap
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from holdfast.cli.log_diff import diff
from holdfast.errors import CorruptBatch

if TYPE_CHECKING:
    from holdfast.records.batch import BatchView
    from holdfast.records.control import Control
    from holdfast.records.record import Record

_FIELD_CHARACTERS_MAX = 60


@click.group()
def log() -> None:
    """Look into log files, compare replicas."""


log.add_command(diff)


@log.command()
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object per batch and per record, a line each."
)
@click.option("--records/--no-records", default=True, help="Show the records of each batch, or headers only.")
@click.pass_context
def dump(ctx: click.Context, files: tuple[Path, ...], as_json: bool, records: bool) -> None:
    """Print the batches and records of segment files, control batches explained in words.

    Every batch is checked first. A corrupt one is named with its position, and ends its file; the exit code is then 1.
    """
    out = sys.stdout
    printer = _PRINTERS["json" if as_json else "prose"]
    corrupt = False
    for file in files:
        try:
            for line in _lines(printer, file, records):
                out.write(line + "\n")
        except CorruptBatch as error:
            corrupt = True
            out.flush()
            click.echo(f"{file}: {error}", err=True)
    out.flush()
    ctx.exit(int(corrupt))


class Printer(Protocol):
    """How files, batches and records become lines."""

    def file(self, file: Path) -> Iterator[str]:
        """What comes before the batches of a file."""

    def batch(self, file: Path, view: "BatchView", control: "Control | None") -> Iterator[str]:
        """One batch, without its records."""

    def record(self, file: Path, record: "Record") -> Iterator[str]:
        """One record."""

    def zeros(self, file: Path, position: int, count: int) -> Iterator[str]:
        """What a preallocated segment has after its last batch."""


class Prose:
    """For people."""

    def file(self, file: Path) -> Iterator[str]:
        """The name and size."""
        yield f"{file} ({file.stat().st_size} bytes)"

    def batch(self, file: Path, view: "BatchView", control: "Control | None") -> Iterator[str]:
        """One line of header fields, and what they mean where that is not plain."""
        from holdfast.records.explain import clock, explain

        words = [
            f"{'control' if view.is_control else 'batch'} {view.base_offset}..{view.last_offset}",
            f"at byte {view.position}",
            f"{view.size_bytes} bytes",
            f"{view.record_count} records" if view.record_count != 1 else "1 record",
            f"newest {clock(view.max_timestamp)}{' (log append time)' if view.is_log_append_time else ''}",
        ]
        if view.codec:
            words.append(view.codec.name.lower())
        if view.producer_id >= 0:
            words.append(f"producer {view.producer_id} epoch {view.producer_epoch}")
        if view.base_sequence >= 0:
            words.append(f"sequence {view.base_sequence}..{view.last_sequence}")
        if view.is_transactional:
            words.append("transactional")
        words.append(f"leader epoch {view.leader_epoch}")
        yield "  " + ", ".join(words)
        for sentence in explain(view, control):
            yield f"    {sentence}"

    def record(self, file: Path, record: "Record") -> Iterator[str]:
        """Offset, time, key, value, headers; long fields are cut."""
        from holdfast.records.explain import clock

        value = (
            "null (tombstone)" if record.value is None and record.key is not None else _short(record.value)
        )
        headers = "".join(
            f", header {_short(name.encode())}: {_short(content)}" for name, content in record.headers
        )
        yield f"    {record.offset}  {clock(record.timestamp_ms)}  key {_short(record.key)}, value {value}{headers}"

    def zeros(self, file: Path, position: int, count: int) -> Iterator[str]:
        """How many, and from where."""
        yield f"  {count} zero bytes after the last batch, at byte {position}"


class JsonLines:
    """For programs."""

    def file(self, file: Path) -> Iterator[str]:
        """Nothing: every line names its file."""
        yield from ()

    def batch(self, file: Path, view: "BatchView", control: "Control | None") -> Iterator[str]:
        """Every header field."""
        from holdfast.records.explain import explain

        yield _line(
            kind="control" if view.is_control else "batch",
            file=str(file),
            position=view.position,
            size_bytes=view.size_bytes,
            base_offset=view.base_offset,
            last_offset=view.last_offset,
            record_count=view.record_count,
            codec=view.codec.name.lower(),
            leader_epoch=view.leader_epoch,
            crc=view.crc,
            base_timestamp=view.base_timestamp,
            max_timestamp=view.max_timestamp,
            log_append_time=view.is_log_append_time,
            producer_id=view.producer_id,
            producer_epoch=view.producer_epoch,
            base_sequence=view.base_sequence,
            last_sequence=view.last_sequence,
            transactional=view.is_transactional,
            delete_horizon_ms=view.delete_horizon_ms,
            control=_control_fields(control),
            meaning=" ".join(explain(view, control)) or None,
        )

    def record(self, file: Path, record: "Record") -> Iterator[str]:
        """Every field, whole; what is not text comes as {"base64": …}."""
        yield _line(
            kind="record",
            file=str(file),
            offset=record.offset,
            timestamp=record.timestamp_ms,
            key=_plain(record.key),
            value=_plain(record.value),
            headers=[{"key": name, "value": _plain(content)} for name, content in record.headers],
        )

    def zeros(self, file: Path, position: int, count: int) -> Iterator[str]:
        """Position and size, as of a batch."""
        yield _line(kind="zeros", file=str(file), position=position, size_bytes=count)


_PRINTERS: dict[str, Printer] = {"json": JsonLines(), "prose": Prose()}


def _lines(printer: Printer, file: Path, records: bool) -> Iterator[str]:
    """The file batch by batch: it is mapped, so that memory does not grow with it."""
    from holdfast.records.batch import validate
    from holdfast.records.build import read_records
    from holdfast.records.control import read_control
    from holdfast.records.walk import zero_tail_bytes

    yield from printer.file(file)
    if file.stat().st_size == 0:
        return
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        position = 0
        while position < len(content):
            if zeros := zero_tail_bytes(content, position):
                yield from printer.zeros(file, position, zeros)
                return
            view = validate(content, position)
            yield from printer.batch(file, view, read_control(view) if view.is_control else None)
            if records and not view.is_control:
                for record in read_records(view):
                    yield from printer.record(file, record)
            position += view.size_bytes


def _short(field: bytes | None) -> str:
    """Text if it is text, else hexadecimal; cut to fit a line, and with nothing in it that a terminal would obey."""
    if field is None:
        return "null"
    start = field[: 4 * _FIELD_CHARACTERS_MAX]
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(start, final=len(start) == len(field))
        shown = json.dumps(text, ensure_ascii=not text.isprintable())
    except UnicodeDecodeError:
        shown = "0x" + start.hex()
    if len(shown) <= _FIELD_CHARACTERS_MAX:
        return shown
    return f"{shown[:_FIELD_CHARACTERS_MAX]}… ({len(field)} bytes)"


def _plain(field: bytes | None) -> str | dict[str, str] | None:
    if field is None:
        return None
    try:
        return field.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(field).decode()}


def _control_fields(control: "Control | None") -> dict[str, Any] | None:
    from holdfast.records.control import ControlType

    if control is None:
        return None
    return {
        "type": control.type.name if isinstance(control.type, ControlType) else control.type,
        "version": control.version,
        "coordinator_epoch": control.coordinator_epoch,
    }


def _line(**fields: Any) -> str:
    return json.dumps(fields, ensure_ascii=False)
