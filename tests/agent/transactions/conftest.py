"""Stores with a gate and control planes that fail, for tests that hold a commit back or break it."""

import pytest

from holdfast.agent import cluster
from tests.agent.faults import FaultyPlane, faulty_store


@pytest.fixture
def gated_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents that are made from now on have them."""
    monkeypatch.setattr(cluster, "LocalStore", faulty_store)


@pytest.fixture
def faulty_planes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents that are made from now on have control planes that fail when they are told to."""
    monkeypatch.setattr(cluster, "SqliteControlPlane", FaultyPlane)
