"""One fixture for all implementations of `Store`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.implementations import IMPLEMENTATIONS, StorePlace


@pytest.fixture(params=IMPLEMENTATIONS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StorePlace]:
    """Each implementation in turn."""
    place = StorePlace(IMPLEMENTATIONS[request.param], tmp_path)
    yield place
    place.close()
