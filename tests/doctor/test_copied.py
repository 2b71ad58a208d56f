"""Copied directories: the segments alone tell, and what cannot be compared is named."""

from pathlib import Path

import pytest

from holdfast.client.groups import TopicPartition
from holdfast.doctor.copies import examine_copies
from holdfast.errors import UsageError
from holdfast.lab import account, library
from holdfast.lab.engines.model import Model
from holdfast.lab.scenario import Scenario
from tests.cli.commands import run_holdfast
from tests.doctor.model_source import batch_of

SEGMENT_BATCHES = 3


def copy_replicas(scenario: Scenario, directory: Path) -> list[Path]:
    """Every replica's log after the story as a broker would leave it, with rubbish in its indexes."""
    model = account.run(scenario, policy="kafka").engine
    assert isinstance(model, Model)
    copies = []
    for number, replica in sorted(model.replicas.items()):
        place = directory / f"broker-{number}" / "orders-items-0"
        place.mkdir(parents=True)
        for first in range(0, len(replica.entries), SEGMENT_BATCHES):
            some = replica.entries[first : first + SEGMENT_BATCHES]
            base = some[0].offset if first else 0
            (place / f"{base:020}.log").write_bytes(b"".join(bytes(batch_of(entry).buffer) for entry in some))
            (place / f"{base:020}.txnindex").write_bytes(b"rubbish")
            (place / f"{base:020}.snapshot").write_bytes(b"rubbish")
        copies.append(place.parent)
    return copies


@pytest.mark.parametrize("name", ["tombstone", "aborted-to-committed", "stuck"])
def test_harms_are_found_in_segments(name: str, tmp_path: Path) -> None:
    """The same findings as on the running replicas."""
    copies = copy_replicas(library.load(name), tmp_path)
    (examined,) = examine_copies(copies)
    assert examined.not_examined == []
    assert {(each.place, each.replica, each.variant) for each in examined.findings} == {
        (TopicPartition("orders-items", 0), str(copies[2]), name)
    }


def test_equal_copies_are_clean(tmp_path: Path) -> None:
    """Two replicas that were never away agree, though each compacted by itself; exit code 0."""
    copies = copy_replicas(library.load("tombstone"), tmp_path)
    answer = run_holdfast("doctor", "files", *map(str, copies[:2]))
    assert (answer.code, answer.err) == (0, "")
    assert answer.text == "1 partition compared, 0 differences: all replicas show the same\n"


def test_a_copy_that_is_behind_is_not_compared(tmp_path: Path) -> None:
    """It could be replication lag; a torn end is taken for the end. Exit code 3, and 1 where the others differ."""
    copies = copy_replicas(library.load("tombstone"), tmp_path)
    last = max((copies[1] / "orders-items-0").glob("*.log"))
    last.write_bytes(last.read_bytes()[:-1])
    answer = run_holdfast("doctor", "files", *map(str, copies[:2]), "--json")
    (missed,) = answer.json["not_examined"]
    assert (answer.code, answer.json["findings"], missed["replica"]) == (3, [], str(copies[1]))
    assert "offsets behind" in missed["why"]
    answer = run_holdfast("doctor", "files", *map(str, copies), "--json")
    assert (answer.code, len(answer.json["findings"]), len(answer.json["not_examined"])) == (1, 1, 1)


def test_a_corrupt_copy_is_named(tmp_path: Path) -> None:
    """A flipped bit in the middle; the other two are compared all the same."""
    copies = copy_replicas(library.load("tombstone"), tmp_path)
    first = copies[2] / "orders-items-0" / f"{0:020}.log"
    first.write_bytes(first.read_bytes()[:-1] + b"\x99")
    (examined,) = examine_copies(copies)
    (missed,) = examined.not_examined
    assert missed.replica == str(copies[2])
    assert f"{first.name}: CRC" in missed.why
    assert examined.replicas == [str(copies[0]), str(copies[1])]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("one",), "name two directories"),
        (("one", "two"), "no partition is in more than one"),
        (("one", "none"), "is no directory"),
    ],
)
def test_bad_usage(words: tuple[str, ...], says: str, tmp_path: Path) -> None:
    """One directory, nothing in common, no directory: one line each."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with pytest.raises(UsageError, match=says):
        list(examine_copies([tmp_path / word for word in words]))
