"""`holdfast log dump`: what people and programs see of a segment file."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from holdfast.cli.log import log
from holdfast.records.batch import Codec
from holdfast.records.build import Record, build_batch
from holdfast.records.control import ControlType, control_batch

SOURCES = Path(__file__).parents[2] / "src"
DATA = build_batch(
    [
        Record(key=b"acme", value=b"hello", headers=[("trace", b"\xff\x00")], timestamp_ms=1_700_000_000_123),
        Record(key=b"acme", value=None, timestamp_ms=1_700_000_000_124),
        Record(key=None, value=b"\xfe\xed", timestamp_ms=1_700_000_000_125),
    ],
    base_offset=10,
    codec=Codec.ZSTD,
    producer_id=4000,
    producer_epoch=1,
    base_sequence=2**31 - 1,
    transactional=True,
)
COMMIT = control_batch(ControlType.COMMIT, base_offset=13, producer_id=4000, producer_epoch=1)
ABORT = control_batch(ControlType.ABORT, base_offset=14, producer_id=4001, producer_epoch=0)
EMPTIED = build_batch(
    [], base_offset=15, producer_id=4002, producer_epoch=7, transactional=True, control=True
)
STAMPED = build_batch([Record(key=b"k")], base_offset=16, delete_horizon_ms=1_800_000_000_000)
HOLLOW = build_batch([], base_offset=17, last_offset=20, producer_id=4003, producer_epoch=0, base_sequence=5)
SEGMENT = DATA + COMMIT + ABORT + EMPTIED + STAMPED + HOLLOW


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """A segment with one of everything."""
    file = tmp_path / "00000000000000000010.log"
    file.write_bytes(SEGMENT)
    return file


def dump(*arguments: object) -> Result:
    """The command, run in this process."""
    return CliRunner().invoke(log, ["dump", *map(str, arguments)])


def test_people_see_batches_and_records(segment: Path) -> None:
    """Offsets, codec, producer, wrapped sequences, times, text, bytes, tombstones and headers."""
    result = dump(segment)
    assert result.exit_code == 0
    assert "batch 10..12, at byte 0" in result.output
    assert "zstd, producer 4000 epoch 1, sequence 2147483647..1, transactional" in result.output
    assert '10  2023-11-14T22:13:20.123Z  key "acme", value "hello", header "trace": 0xff00' in result.output
    assert 'key "acme", value null (tombstone)' in result.output
    assert "key null, value 0xfeed" in result.output


@pytest.mark.parametrize(
    "sentence",
    [
        "COMMIT: the transaction of producer 4000 (epoch 1) ends here and counts.",
        "ABORT: the transaction of producer 4001 (epoch 0) ends here and is rolled back.",
        "hidden from read_committed consumers",
        "Emptied control batch: a cleaner removed the marker of producer 4002 (epoch 7). Whether it said COMMIT or",
        "a cleaner may drop tombstones in it from 2027-01-15T08:00:00.000Z on.",
        "Empty: a cleaner removed all records and left the header",
    ],
)
def test_what_is_not_plain_is_said_in_words(segment: Path, sentence: str) -> None:
    """Markers, their remnants, horizons and empty batches are explained."""
    assert sentence in dump(segment, "--no-records").output


def test_programs_see_every_field(segment: Path) -> None:
    """One object per line; bytes that are not text come as base64; control batches carry type and meaning."""
    lines = [json.loads(line) for line in dump(segment, "--json").output.splitlines()]
    batches = [line for line in lines if line["kind"] != "record"]
    assert [(line["kind"], line["base_offset"], line["last_offset"]) for line in batches] == [
        ("batch", 10, 12),
        ("control", 13, 13),
        ("control", 14, 14),
        ("control", 15, 15),
        ("batch", 16, 16),
        ("batch", 17, 20),
    ]
    assert [line["position"] for line in batches][:3] == [0, len(DATA), len(DATA) + len(COMMIT)]
    assert [line["control"] and line["control"]["type"] for line in batches] == [
        None,
        "COMMIT",
        "ABORT",
        None,
        None,
        None,
    ]
    assert batches[0]["meaning"] is None
    assert batches[3]["meaning"].startswith("Emptied control batch")
    assert lines[1:4] == [
        {
            "kind": "record",
            "file": str(segment),
            "offset": 10,
            "timestamp": 1_700_000_000_123,
            "key": "acme",
            "value": "hello",
            "headers": [{"key": "trace", "value": {"base64": "/wA="}}],
        },
        {
            "kind": "record",
            "file": str(segment),
            "offset": 11,
            "timestamp": 1_700_000_000_124,
            "key": "acme",
            "value": None,
            "headers": [],
        },
        {
            "kind": "record",
            "file": str(segment),
            "offset": 12,
            "timestamp": 1_700_000_000_125,
            "key": None,
            "value": {"base64": "/u0="},
            "headers": [],
        },
    ]


def test_headers_only(segment: Path) -> None:
    """--no-records leaves the records out."""
    lines = [json.loads(line) for line in dump(segment, "--json", "--no-records").output.splitlines()]
    assert {line["kind"] for line in lines} == {"batch", "control"}


def test_a_corrupt_file_is_named_with_the_position(tmp_path: Path, segment: Path) -> None:
    """What comes before the fault is shown, other files too; one line on stderr says where; exit code 1."""
    damaged = tmp_path / "damaged.log"
    damaged.write_bytes(DATA + COMMIT[:-1] + b"\x01" + ABORT)
    result = dump(damaged, segment)
    assert result.exit_code == 1
    assert "batch 10..12, at byte 0" in result.stdout
    assert "control 14..14" in result.stdout.split(str(segment))[1]
    (complaint,) = result.stderr.splitlines()
    assert complaint.startswith(f"{damaged}: CRC ")
    assert f"(at byte {len(DATA)})" in complaint


@pytest.mark.parametrize(
    "content", [b"not a log at all, but text that is long enough to hold a header", SEGMENT[:-5]]
)
def test_other_files_and_torn_tails(tmp_path: Path, content: bytes) -> None:
    """A file that is no log, or ends in the middle of a batch, is refused without a traceback."""
    file = tmp_path / "file"
    file.write_bytes(content)
    result = dump(file)
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)


@pytest.mark.parametrize("before", [b"", SEGMENT], ids=["alone", "after a batch"])
@pytest.mark.parametrize(("magic", "message_bytes"), [(0, 28), (1, 36), (1, 900)])
def test_older_record_formats_are_named(
    tmp_path: Path, before: bytes, magic: int, message_bytes: int
) -> None:
    """A message of v0 or v1 is said to be one, also where it is shorter than a header of v2."""
    file = tmp_path / "old.log"
    message = struct.pack(">qiIb", 7, message_bytes - 12, 0xDEADBEEF, magic)
    file.write_bytes(before + message.ljust(message_bytes, b"\x01"))
    result = dump(file)
    assert result.exit_code == 1
    why = f"record format v{magic} is not read, only v2 (at byte {len(before)})"
    assert result.stderr == f"{file}: {why}\n"


@pytest.mark.parametrize("count", [5, 61, 3 << 20])
def test_a_preallocated_tail_is_no_damage(tmp_path: Path, count: int) -> None:
    """The zeros after the last batch are counted, for people and programs; exit code 0."""
    file = tmp_path / "preallocated.log"
    file.write_bytes(SEGMENT + bytes(count))
    result = dump(file)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"{count} zero bytes after the last batch, at byte {len(SEGMENT)}" in result.stdout
    *_, last = map(json.loads, dump(file, "--json").output.splitlines())
    assert last == {"kind": "zeros", "file": str(file), "position": len(SEGMENT), "size_bytes": count}


def test_zeros_before_other_bytes_are_damage(tmp_path: Path) -> None:
    """A hole in the middle of a segment is not a preallocated tail."""
    file = tmp_path / "hole.log"
    file.write_bytes(SEGMENT + bytes(2 << 20) + b"\x01")
    assert dump(file).exit_code == 1


def test_an_empty_file_is_an_empty_log(tmp_path: Path) -> None:
    """Nothing in it, nothing wrong with it."""
    file = tmp_path / "empty.log"
    file.touch()
    assert (dump(file).exit_code, dump(file, "--json").output) == (0, "")


@pytest.mark.parametrize("arguments", [["missing.log"], ["."], []])
def test_bad_usage(arguments: list[str]) -> None:
    """No such file, a directory, no file at all: exit code 2."""
    assert dump(*arguments).exit_code == 2


def test_nothing_in_a_log_can_steer_a_terminal(tmp_path: Path) -> None:
    """Escape sequences in keys, values and header names are shown, not sent."""
    file = tmp_path / "evil.log"
    file.write_bytes(
        build_batch([Record(key=b"\x1b[2J", value="\x9b2J".encode(), headers=[("\x1b]0;x", None)])])
    )
    output = dump(file).output
    assert "\x1b" not in output
    assert "\x9b" not in output


def test_long_fields_are_cut_for_people_only(tmp_path: Path) -> None:
    """A text longer than a line is cut, also where that splits a character; JSON has all of it."""
    file = tmp_path / "long.log"
    file.write_bytes(build_batch([Record(value=("ü" * 5000 + "x").encode())]))
    assert "(10001 bytes)" in dump(file).output
    assert '"üüü' in dump(file).output
    assert json.loads(dump(file, "--json").output.splitlines()[1])["value"] == "ü" * 5000 + "x"


def test_a_closed_pipe_is_no_error_message(tmp_path: Path) -> None:
    """`holdfast log dump … | head -1` ends quietly, however much there was to come."""
    file = tmp_path / "large.log"
    file.write_bytes(build_batch([Record(value=bytes(50))] * 20_000))
    with subprocess.Popen(
        [sys.executable, "-m", "holdfast", "log", "dump", str(file)],
        env=os.environ | {"PYTHONPATH": str(SOURCES)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert str(file).encode() in process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        process.wait(30)
