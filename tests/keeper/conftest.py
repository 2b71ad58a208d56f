"""An engine for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.keeper.engine import Engine


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """Three stores and a keeper."""
    made = Engine(tmp_path / "data")
    yield made
    made.end()
