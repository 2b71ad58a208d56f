"""Settings from a file: what is known is taken, anything else is refused with the file's name."""

from pathlib import Path

import pytest

from holdfast.agent import config_file
from holdfast.agent.settings import Settings
from holdfast.errors import UsageError

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def load(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "holdfast.toml"
    file.write_text(text)
    return Settings(data=tmp_path, **config_file.load(file))


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    """Every setting has a default."""
    assert load(tmp_path, "") == Settings(data=tmp_path)


def test_settings_are_taken(tmp_path: Path) -> None:
    """Numbers, fractions where they make sense, and the table of groups."""
    settings = load(
        tmp_path, "nodes = 3\ndefault_partitions = 4\nstop_seconds_max = 1\n[groups]\nmembers_max = 5\n"
    )
    assert (settings.nodes, settings.default_partitions, settings.stop_seconds_max) == (3, 4, 1)
    assert settings.groups.members_max == 5
    assert load(tmp_path, "store_seconds_max = 0.5").store_seconds_max == 0.5
    cluster = load(tmp_path, '[keeper]\nspark_master = "spark://host:7077"')
    assert cluster.keeper.spark_master == "spark://host:7077"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("partitions = 4", "unknown setting 'partitions'; known are commit_queue_bytes_max"),
        ("port = 1", "unknown setting 'port'"),
        ('nodes = "3"', "nodes takes a whole number from 0 on, not '3'"),
        ("nodes = 1.5", "nodes takes a whole number"),
        ("nodes = true", "nodes takes a whole number"),
        ("default_partitions = -1", "default_partitions takes a whole number from 0 on, not -1"),
        ('stop_seconds_max = "x"', "stop_seconds_max takes a number"),
        ("groups = 1", r"\[groups\] is a table"),
        ("[groups]\nsize = 1", "unknown setting 'size'"),
        ("[keeper]\nspark_master = 1", "spark_master takes a word in quotes, not 1"),
        ("[keeper]\nspark_master = ''", "spark_master takes a word in quotes, not ''"),
        ("= 1", "is not TOML"),
    ],
)
def test_mistakes_name_the_file_and_the_setting(tmp_path: Path, text: str, complaint: str) -> None:
    """One line each."""
    with pytest.raises(UsageError, match=rf"holdfast\.toml.*{complaint}"):
        load(tmp_path, text)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """With the reason."""
    with pytest.raises(UsageError, match=r"cannot read .*none\.toml: No such file"):
        config_file.load(tmp_path / "none.toml")


def test_the_page_is_current() -> None:
    """Else run `python -m holdfast.agent.config_file > docs/configuration.md`."""
    assert PAGE.read_text() == "\n".join(config_file.page())
