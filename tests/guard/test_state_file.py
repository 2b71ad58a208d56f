"""The state file: the same again, whole at any moment, and one guard's."""

from pathlib import Path
from random import Random

import pytest

from holdfast.errors import GuardRefused
from holdfast.guard.state import Hold, Outage, Stage, State, Taint
from holdfast.guard.state_file import StateFile

HOLD = Hold(
    topic="orders",
    topic_id="id",
    stage=Stage.PAUSED,
    owner_min_ms=None,
    owner_max_ms="90000",
    since_ms=1,
    acknowledged_ms=2,
    outages=(Outage(partition=0, replica=3, last_in_sync_ms=None, leader_epoch=4),),
    taints=(Taint(partition=0, replica=3, why="because"),),
    size_bytes_then=10,
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Also that a setting was not there."""
    file = StateFile(tmp_path / "guard.json")
    assert file.read() is None
    state = State(cluster_id="c", mark=5, holds=(HOLD,))
    file.write(state)
    assert file.read() == state
    assert file.open("c", Random(1)) == state


def test_a_new_file_has_a_mark_that_stays(tmp_path: Path) -> None:
    """It is there before anything is paused."""
    state = StateFile(tmp_path / "guard.json").open("c", Random(1))
    assert StateFile(tmp_path / "guard.json").open("c", Random(2)) == state
    assert state.mark > 0


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "cannot be read"),
        (b"{", "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b'{"format": 1, "cluster_id": "c", "mark": "x"}', "cannot be read"),
        (b"[]", "cannot be read"),
        (b'{"format": 2}', "another version"),
    ],
)
def test_a_broken_file_is_refused(tmp_path: Path, content: bytes, told: str) -> None:
    """It holds what topics have to get back: nobody begins anew over it."""
    path = tmp_path / "guard.json"
    path.write_bytes(content)
    with pytest.raises(GuardRefused, match=told):
        StateFile(path).open("c", Random(1))
    assert path.read_bytes() == content


def test_another_cluster_and_no_directory(tmp_path: Path) -> None:
    """Both are named."""
    StateFile(tmp_path / "guard.json").write(State(cluster_id="other", mark=5))
    with pytest.raises(GuardRefused, match="belongs to the cluster other"):
        StateFile(tmp_path / "guard.json").open("c", Random(1))
    with pytest.raises(GuardRefused, match="is no directory"), StateFile(tmp_path / "no" / "g.json").held():
        pass


def test_one_guard_at_a_time(tmp_path: Path) -> None:
    """Whoever holds it; looking does not take it."""
    file, other = StateFile(tmp_path / "guard.json"), StateFile(tmp_path / "guard.json")
    assert not other.is_held()
    with file.held():
        assert other.is_held()
        with pytest.raises(GuardRefused, match="another guard's"), other.held():
            pass
    assert not other.is_held()
    with other.held():
        pass
