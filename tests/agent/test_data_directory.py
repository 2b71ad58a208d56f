"""The data directory: one owner at a time, an identity that never changes, newer formats refused."""

import json
from pathlib import Path

import pytest

from holdfast.agent.data_directory import FORMAT, DataDirectory
from holdfast.errors import DataDirectoryRefused


def test_identity_is_made_once(tmp_path: Path) -> None:
    """A second opening finds the cluster id of the first."""
    first = DataDirectory(tmp_path / "deep" / "data")
    first.close()
    again = DataDirectory(tmp_path / "deep" / "data")
    again.close()
    assert first.cluster_id == again.cluster_id


def test_second_owner_is_refused_until_the_first_closes(tmp_path: Path) -> None:
    """The lock names the way out."""
    first = DataDirectory(tmp_path)
    with pytest.raises(DataDirectoryRefused, match="in use by another process"):
        DataDirectory(tmp_path)
    first.close()
    DataDirectory(tmp_path).close()


def test_refusal_lets_go_of_the_lock(tmp_path: Path) -> None:
    """Once the file is mended, the directory can be opened by the same process."""
    file = tmp_path / "holdfast.json"
    file.write_text("{")
    with pytest.raises(DataDirectoryRefused, match="not readable"):
        DataDirectory(tmp_path)
    file.unlink()
    DataDirectory(tmp_path).close()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "1"}', '{"format": 1, "cluster_id": "x"}'])
def test_damaged_identity_is_refused(tmp_path: Path, content: str) -> None:
    """Nothing is guessed, nothing is overwritten."""
    file = tmp_path / "holdfast.json"
    file.write_text(content)
    with pytest.raises(DataDirectoryRefused):
        DataDirectory(tmp_path)
    assert file.read_text() == content


def test_newer_format_is_refused_with_both_numbers(tmp_path: Path) -> None:
    """A downgrade must not write into what it does not understand."""
    DataDirectory(tmp_path).close()
    file = tmp_path / "holdfast.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format": FORMAT + 1}))
    with pytest.raises(DataDirectoryRefused, match=f"format {FORMAT + 1}.*up to {FORMAT}"):
        DataDirectory(tmp_path)


@pytest.mark.parametrize("left", ["control.db", "stores/1/journal/x.journal"])
def test_data_without_identity_is_refused(tmp_path: Path, left: str) -> None:
    """A new identity beside old data would make the data somebody else's."""
    file = tmp_path / left
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    with pytest.raises(DataDirectoryRefused, match="missing beside data"):
        DataDirectory(tmp_path)
