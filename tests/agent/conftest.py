"""Stores and control planes that fail when a test says so.

kafka-python reads its schemas in a way that Python 3.11 calls deprecated: it is imported once here, quietly.
"""

import warnings

import pytest

from holdfast.agent import cluster
from tests.agent.faults import FaultyPlane, faulty_store

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    import kafka.protocol.admin
    import kafka.protocol.consumer
    import kafka.protocol.metadata
    import kafka.protocol.producer

assert kafka


@pytest.fixture
def gated_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents that are made from now on have stores with a gate, for tests that hold a commit back."""
    monkeypatch.setattr(cluster, "LocalStore", faulty_store)


@pytest.fixture
def faulty_planes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents that are made from now on have control planes that fail to record what is durable."""
    monkeypatch.setattr(cluster, "SqliteControlPlane", FaultyPlane)
