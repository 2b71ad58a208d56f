"""What every store promises: see the docstrings of `Store`."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.errors import StoreFailed
from holdfast.store.store import Checkpoint, Place, Store, StoredFrame
from tests.store.frames import frame_of
from tests.store.implementations import StorePlace

SEED = 20_250_301


def append(store: Store, number: int, *values: bytes) -> StoredFrame:
    return store.append(number, *frame_of(10 * number, *(values or (b"value",))))


def frames(store: Store, after: StoredFrame | None = None) -> list[StoredFrame]:
    return list(store.replay(after.checkpoint if after else None))


def test_frames_come_back_in_order(place: StorePlace) -> None:
    """A store opened anew replays what was appended, from the start or a checkpoint, and goes on."""
    store = place.open()
    assert frames(store) == []
    written = [append(store, number) for number in (1, 2, 3)]
    store.close()
    again = place.open()
    assert frames(again) == written
    for applied, frame in enumerate(written, 1):
        assert frames(place.open(), frame) == written[applied:]
    again = place.open()
    assert frames(again, written[1]) == written[2:]
    fourth = append(again, 4)
    assert frames(place.open(), written[2]) == [fourth]
    assert frames(place.open()) == [*written, fourth]


def test_a_frame_says_what_it_is(place: StorePlace) -> None:
    """Store, number, footer, and the places in between, as they were written and as they are replayed."""
    store = place.open()
    body, changes = frame_of(0, b"a")
    frame = store.append(1, body, changes)
    assert (frame.store, frame.number, frame.footer) == (store.number, 1, changes)
    assert frame.checkpoint == Checkpoint(frame=1, end=frame.end)
    assert frames(place.open()) == [frame]


def test_an_append_needs_no_close_to_last(place: StorePlace) -> None:
    """What append returned for is there for the next process, whatever became of this one."""
    store = place.open()
    written = []
    for number in (1, 2, 3):
        written.append(append(store, number))
        assert frames(place.open()) == written


def test_bytes_are_read_back(place: StorePlace) -> None:
    """All of the body or a part of it, by the store that wrote it and by a later one."""
    store = place.open()
    body, changes = frame_of(0, b"a" * 1000, b"b")
    frame = store.append(1, [bytes(body[0])[:11], memoryview(body[0])[11:40], body[0][40:]], changes)
    later = place.open()
    assert frames(later) == [frame]
    for each in (store, later):
        assert each.read(frame.body, len(body[0])) == body[0]
        part = Place(journal=frame.body.journal, position=frame.body.position + 100)
        assert each.read(part, 17) == body[0][100:117]


def test_bytes_that_are_not_there_are_an_error(place: StorePlace) -> None:
    """Never fewer than asked for, never others."""
    store = place.open()
    frame = append(store, 1)
    with pytest.raises(StoreFailed):
        store.read(frame.body, 100_000)
    with pytest.raises(StoreFailed):
        store.read(Place(journal=99, position=frame.body.position), 1)


def test_frames_without_a_body(place: StorePlace) -> None:
    """A commit may hold changes alone."""
    store = place.open()
    written = [store.append(1, [], b"[]"), append(store, 2), store.append(3, [], b"[]")]
    assert frames(place.open()) == written


def test_a_replay_changes_nothing(place: StorePlace) -> None:
    """Twice the same, by one store or two."""
    store = place.open()
    written = [append(store, number) for number in (1, 2)]
    again = place.open()
    assert frames(again) == frames(again) == frames(place.open()) == written


def test_a_later_frame_of_the_same_number_counts(place: StorePlace) -> None:
    """Rule of succession: what was given up is void once its number is used again, and so is what lay behind it."""
    store = place.open()
    first = append(store, 1)
    append(store, 2, b"void")
    append(store, 3, b"void too")
    store.begin_anew()
    second = append(store, 2, b"counts")
    third = append(store, 3)
    for after, left in ((None, [first, second, third]), (first, [second, third]), (second, [third])):
        assert frames(place.open(), after) == left
    assert store.read(second.body, 20) == frame_of(20, b"counts")[0][0][:20]


def test_giving_up_twice_and_for_nothing(place: StorePlace) -> None:
    """`begin_anew` without a frame to void costs nothing, on an empty store either."""
    store = place.open()
    store.begin_anew()
    first = append(store, 1)
    store.begin_anew()
    store.begin_anew()
    second = append(store, 2)
    assert frames(place.open()) == [first, second]
    assert frames(place.open(), first) == [second]


def test_a_first_frame_that_was_given_up_is_void(place: StorePlace) -> None:
    """There is nothing before it to go back to."""
    store = place.open()
    void = append(store, 1, b"void")
    (body,), _ = frame_of(10, b"counts")
    assert store.read(void.body, 10) == body[:10]
    store.begin_anew()
    first = append(store, 1, b"counts")
    assert frames(place.open()) == [first]
    assert store.read(first.body, len(body)) == body


def test_a_frame_that_was_given_up_may_turn_up(place: StorePlace) -> None:
    """Without a successor it is there or not; either way the store goes on behind it."""
    store = place.open()
    first = append(store, 1)
    perhaps = append(store, 2, b"perhaps")
    store.begin_anew()
    later = place.open()
    found = frames(later)
    assert found in ([first], [first, perhaps])
    following = append(later, len(found) + 1)
    assert frames(place.open()) == [*found, following]


def test_a_torn_tail_is_cut_off(place: StorePlace) -> None:
    """Wherever it was torn, the frames before are there, and its number is free again."""
    chance = random.Random(SEED)
    store = place.open()
    written = [append(store, 1)]
    for number in range(2, 12):
        torn = append(store, number, b"torn", bytes(300))
        size = torn.end.position - written[-1].end.position
        place.tear(torn, chance.choice([1, size - 1, chance.randrange(1, size)]))
        store = place.open()
        assert frames(store, written[-1]) == []
        written.append(append(store, number, b"whole"))
        assert frames(place.open()) == written


def test_lost_acknowledged_bytes_are_refused(place: StorePlace) -> None:
    """A store that ends before the checkpoint has lost what clients were promised."""
    store = place.open()
    append(store, 1)
    last = append(store, 2)
    place.tear(last, 1)
    with pytest.raises(StoreFailed):
        frames(place.open(), last)


def test_a_checkpoint_of_an_empty_store_is_refused(place: StorePlace) -> None:
    """A control plane beside an empty store means that the store was lost."""
    checkpoint = Checkpoint(frame=3, end=Place(journal=1, position=500))
    with pytest.raises(StoreFailed):
        list(place.open().replay(checkpoint))


def test_any_thread_reads_while_one_appends(place: StorePlace) -> None:
    """Readers see the bytes of every frame that was returned, all the time."""
    store = place.open()
    written: list[tuple[StoredFrame, bytes]] = []
    begun = threading.Barrier(5, timeout=20)
    done = threading.Event()

    def read(seed: int) -> int:
        chance = random.Random(seed)
        begun.wait()
        reads = 0
        while not done.is_set() or reads == 0:
            if written:
                frame, body = chance.choice(written)
                assert store.read(frame.body, len(body)) == body
                reads += 1
        return reads

    with ThreadPoolExecutor(4) as threads:
        readers = [threads.submit(read, SEED + number) for number in range(4)]
        begun.wait()
        for number in range(1, 60):
            if number % 20 == 0:
                store.begin_anew()
            body, changes = frame_of(10 * number, b"%d" % number * 50)
            written.append((store.append(number, body, changes), bytes(body[0])))
        done.set()
        assert all(reader.result(20) for reader in readers)
    assert frames(place.open()) == [frame for frame, _ in written]


def test_a_closed_store_can_be_closed_and_opened_again(place: StorePlace) -> None:
    """Closing lets go of everything; nothing of what was appended goes with it."""
    store = place.open()
    written = append(store, 1)
    store.read(written.body, 1)
    store.close()
    store.close()
    assert frames(place.open()) == [written]
