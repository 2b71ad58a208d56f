"""Stores with a gate, for tests that hold a commit back."""

import pytest

from holdfast.agent import cluster
from tests.agent.faults import faulty_store


@pytest.fixture
def gated_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents that are made from now on have them."""
    monkeypatch.setattr(cluster, "LocalStore", faulty_store)
