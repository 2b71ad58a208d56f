"""What is aborted in one partition alone: only what no coordinator can have open any more."""

from dataclasses import replace
from typing import Any

import pytest

from holdfast.client import aborting
from holdfast.client.aborting import find_open
from holdfast.client.hanging import TIMEOUT_MS_MAX, OpenWrite
from holdfast.client.transactional_ids import ListedTransactionalId, TransactionDescription
from holdfast.errors import RepairRefused
from tests.client.test_hanging import NOW_MS, PLACE, transaction, write

NOBODY: Any = None


def listed(producer_id: int) -> ListedTransactionalId:
    return ListedTransactionalId(name="id", state="CompleteCommit", producer_id=producer_id, coordinator=1)


def find(
    monkeypatch: pytest.MonkeyPatch,
    found: OpenWrite | None,
    *,
    seen: tuple[ListedTransactionalId, ...] = (),
    opened: tuple[TransactionDescription, ...] = (),
) -> object:
    """What would be aborted of producer 7, by what a cluster tells."""
    monkeypatch.setattr(aborting, "find_open_write", lambda cluster, place, producer_id: found)
    monkeypatch.setattr(aborting, "describe_open", lambda cluster: list(opened))
    monkeypatch.setattr(aborting, "list_transactional_ids", lambda cluster: list(seen))
    return find_open(NOBODY, PLACE, 7, now_ms=NOW_MS)


def test_silence_of_the_brokers_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may not describe the transactional id is not told of it, and the transaction may be alive."""
    for age_ms in (-5_000, 12_000, TIMEOUT_MS_MAX):
        with pytest.raises(RepairRefused, match=r"would tear it.*right.*older than 15 min"):
            find(monkeypatch, write(7, age_ms=age_ms), seen=(listed(8),))


def test_a_record_without_a_time_has_no_age(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RepairRefused, match="would tear it"):
        find(monkeypatch, replace(write(7), last_ms=-1))


def test_an_age_that_no_transaction_comes_to_does(monkeypatch: pytest.MonkeyPatch) -> None:
    old = write(7, age_ms=TIMEOUT_MS_MAX + 1)
    assert find(monkeypatch, old) == old


def test_an_id_that_is_seen_and_does_not_have_it_open_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that has lost the marker is stuck at once, and so is what came late."""
    young = write(7)
    assert find(monkeypatch, young, seen=(listed(7),)) == young


def test_what_a_coordinator_tells_of_is_aborted_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = transaction("id", 7, age_ms=0)
    assert find(monkeypatch, write(7), opened=(owner,)) == owner
    assert find(monkeypatch, None) is None
