"""The contract suite: every test that asks for `plane` is put to each implementation."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.control.memory import MemoryControlPlane
from holdfast.control.plane import ControlPlane
from holdfast.control.sqlite import SqliteControlPlane
from tests.control.frames import Apply


@pytest.fixture(params=["sqlite", "memory"])
def plane(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ControlPlane]:
    """An empty control plane that knows the stores 1 and 2."""
    plane: ControlPlane = (
        SqliteControlPlane(tmp_path / "control.db") if request.param == "sqlite" else MemoryControlPlane()
    )
    plane.add_store(1)
    plane.add_store(2)
    yield plane
    plane.close()


@pytest.fixture
def apply(plane: ControlPlane) -> Apply:
    """The frames of `plane`, from number 1 on."""
    return Apply(plane)
