"""The faults that tests switch on, around each store: they keep the contract that a failed append has."""

import threading

import pytest

from holdfast.errors import StoreFailed
from holdfast.store.faulty import FaultyStore
from holdfast.store.store import StoredFrame
from tests.store.frames import frame_of
from tests.store.implementations import StorePlace
from tests.store.test_contract import append, frames


def test_a_failed_append_leaves_nothing(place: StorePlace) -> None:
    """So often as it was told; the same number succeeds afterwards."""
    store = place.open_faulty()
    first = append(store, 1)
    store.fail_appends = 2
    for _ in range(2):
        with pytest.raises(StoreFailed, match="No space left"):
            append(store, 2, b"failed")
        assert frames(place.open()) == [first]
    second = append(store, 2)
    assert store.durable == [1, 2]
    assert frames(place.open()) == [first, second]


def test_an_append_that_failed_late_may_turn_up_until_its_number_is_used(place: StorePlace) -> None:
    """The frame is durable and nobody was told; a later one of the same number makes it void."""
    store = place.open_faulty()
    first = append(store, 1)
    store.fail_after_appends = 1
    with pytest.raises(StoreFailed, match="Input/output error"):
        append(store, 2, b"perhaps")
    assert [frame.number for frame in frames(place.open())] == [1, 2]
    second = append(store, 2, b"counts")
    third = append(store, 3)
    assert store.durable == [1, 2, 3]
    assert frames(place.open()) == [first, second, third]


@pytest.mark.parametrize("reopens", [False, True])
def test_a_torn_append_is_void(place: StorePlace, *, reopens: bool) -> None:
    """Whether the process goes on or another one comes."""
    place.need_tearing()
    store = place.open_faulty()
    first = append(store, 1)
    store.tear_appends = [40, 1]
    for _ in range(2):
        with pytest.raises(StoreFailed, match="cut off"):
            append(store, 2, b"torn")
    if reopens:
        store = place.open_faulty()
        assert frames(store) == [first]
    second = append(store, 2)
    assert frames(place.open()) == [first, second]


def test_a_failed_read_is_an_error_once(place: StorePlace) -> None:
    """The bytes are there when they are asked for again."""
    store = place.open_faulty()
    frame = append(store, 1)
    store.fail_reads = 1
    with pytest.raises(StoreFailed, match="Input/output error"):
        store.read(frame.body, 10)
    assert store.read(frame.body, 10) == frame_of(10, b"value")[0][0][:10]


def test_a_read_only_store_is_read_and_not_written(place: StorePlace) -> None:
    """Until it can be written to again."""
    store = place.open_faulty()
    first = append(store, 1)
    store.is_read_only = True
    for _ in range(3):
        with pytest.raises(StoreFailed, match="Read-only"):
            append(store, 2)
    assert store.read(first.body, 10)
    assert frames(place.open()) == [first]
    store.is_read_only = False
    second = append(store, 2)
    assert frames(place.open()) == [first, second]


def test_a_store_that_hangs_goes_on_when_released(place: StorePlace) -> None:
    """Nothing is written while it hangs; reads do not hang with it."""
    store = place.open_faulty()
    first = append(store, 1)
    store.hang()
    late: list[StoredFrame] = []
    writer = threading.Thread(target=lambda: late.append(append(store, 2)))
    writer.start()
    assert store.waits.wait(20)
    assert store.read(first.body, 10)
    assert frames(place.open()) == [first]
    store.release()
    writer.join(20)
    assert frames(place.open()) == [first, *late]
    assert store.durable == [1, 2]


def test_a_store_without_torn_frames_is_not_torn(place: StorePlace) -> None:
    """A test that asks for the impossible is told so."""
    store = FaultyStore(place.open())
    store.tear_appends = [1]
    with pytest.raises(AssertionError, match="whole or not at all"):
        append(store, 1)
