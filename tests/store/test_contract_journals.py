"""What every store promises of journals that go, and of stores that were away: see the docstrings of `Store`."""

from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from holdfast.errors import StoreFailed
from holdfast.store.store import Checkpoint, Place, Store, StoredFrame
from tests.store.frames import frame_of
from tests.store.implementations import StorePlace
from tests.store.test_contract import append, frames

SEED = 20_260_304


def _append_apart(store: Store, *numbers: int) -> list[StoredFrame]:
    """Frames, each in a journal of its own."""
    written = []
    for number in numbers:
        store.begin_anew()
        written.append(append(store, number))
    return written


def _snapshots(store: Store, *at: int) -> None:
    for frame in at:
        store.snapshot_path(frame).write_bytes(b"")


def test_journals_stay_until_two_snapshots_cover_them(place: StorePlace) -> None:
    """With one snapshot, the other way to the control plane begins with frame 1."""
    store = place.open()
    written = _append_apart(store, *range(1, 10))
    assert store.list_journals() == list(range(1, 10))
    assert store.delete_journals(9) == 0
    _snapshots(store, 6)
    assert store.delete_journals(9) == 0
    _snapshots(store, 8)
    freed_bytes = store.delete_journals(9)
    assert freed_bytes == sum(frame.end.position for frame in written[:5])
    assert store.list_journals() == [6, 7, 8, 9]
    assert frames(place.open(), written[5]) == written[6:]
    with pytest.raises(StoreFailed):
        store.read(written[0].body, 10)


def test_journals_stay_that_hold_frames_not_below(place: StorePlace) -> None:
    """Whole journals go: one with a single frame at or above the number stays, and so do those behind it."""
    store = place.open()
    append(store, 1)
    append(store, 2)
    append(store, 3)
    store.begin_anew()
    append(store, 4)
    append(store, 5)
    store.begin_anew()
    append(store, 6)
    _snapshots(store, 50, 51)
    for below, left in ((1, [1, 4, 6]), (3, [1, 4, 6]), (4, [4, 6]), (5, [4, 6]), (6, [6]), (99, [6])):
        store.delete_journals(below)
        assert store.list_journals() == left, below


def test_the_last_journal_stays(place: StorePlace) -> None:
    """It is where the next frame goes, or where the checkpoint lies after a restart."""
    store = place.open()
    (only,) = _append_apart(store, 1)
    _snapshots(store, 50, 51)
    store.begin_anew()
    assert store.delete_journals(99) == 0
    assert frames(place.open(), only) == []


def test_a_journal_is_ended_on_demand(place: StorePlace) -> None:
    """The next frame begins another, and the one after it stays there; whoever opens the store finds them all."""
    store = place.open()
    written = [append(store, 1), append(store, 2)]
    with ThreadPoolExecutor(1) as another:
        another.submit(store.roll).result()
    written += [append(store, 3), append(store, 4)]
    assert [frame.body.journal for frame in written] == [1, 1, 3, 3]
    store.roll()
    store.roll()
    written += [append(store, 5), append(store, 6)]
    assert store.list_journals() == [1, 3, 5]
    again = place.open_faulty()
    assert list(again.replay(None)) == written
    again.roll()
    assert append(again, 7).body.journal == 7
    _snapshots(again, 50, 51)
    again.delete_journals(7)
    assert place.open().list_journals() == [7]


def test_frame_one_must_be_there_without_a_checkpoint(place: StorePlace) -> None:
    """What the missing frames said is nowhere else on the store: a snapshot is needed."""
    store = place.open()
    written = _append_apart(store, 1, 2, 3)
    _snapshots(store, 2, 3)
    store.delete_journals(2)
    with pytest.raises(StoreFailed, match=r"begins with frame 2.*snapshot.*frames 1 to 1 are missing"):
        frames(place.open())
    assert frames(place.open(), written[1]) == written[2:]


def test_a_store_that_was_away_has_a_gap(place: StorePlace) -> None:
    """Its frames before and after are there for who asks for them; a gap where frames are wanted is an error."""
    store = place.open()
    before = [append(store, 1), append(store, 2)]
    after = [append(store, 7), append(store, 8)]
    later = append(store, 9)
    assert store.list_journals() == [1, 7]
    again = place.open()
    assert frames(again, after[0]) == [after[1], later]
    assert frames(place.open(), later) == []
    for checkpoint in (None, before[0].checkpoint, before[1].checkpoint):
        with pytest.raises(StoreFailed, match="frames 3 to 6 are missing"):
            list(place.open().replay(checkpoint))
    for first in (5, 6, 7):
        for checkpoint in (None, before[0].checkpoint, before[1].checkpoint):
            replayed = list(place.open().replay(checkpoint, first=first))
            assert replayed == [*after, later], (first, checkpoint)
    assert list(place.open().replay(before[0].checkpoint, first=8)) == [after[1], later]
    assert list(place.open().replay(None, first=9)) == [later]
    assert list(place.open().replay(None, first=99)) == []
    with pytest.raises(StoreFailed, match="frames 3 to 6 are missing"):
        list(place.open().replay(None, first=2))
    once_more = place.open()
    list(once_more.replay(before[1].checkpoint, first=7))
    tenth = append(once_more, 10)
    assert frames(place.open(), later) == [tenth]
    assert tenth.body.journal == later.body.journal


def test_an_empty_store_has_no_frames_from_anywhere(place: StorePlace) -> None:
    """A new store, or one that was emptied, is given its first frame when the others have many."""
    store = place.open()
    assert list(store.replay(None, first=40)) == []
    frame = append(store, 40)
    assert list(place.open().replay(None, first=40)) == [frame]
    assert list(place.open().replay(None, first=39)) == [frame]


def test_what_nobody_recorded_is_cut_off(place: StorePlace) -> None:
    """A store comes back with frames of which the control plane knows nothing: they never were."""
    store = place.open()
    kept = [append(store, 1), append(store, 2)]
    append(store, 3, b"nobody recorded this")
    append(store, 4, b"nor this")
    returned = place.open()
    returned.truncate_to(kept[1].checkpoint)
    assert frames(place.open()) == kept
    eighth = append(returned, 8)
    assert eighth.body.journal == 8
    assert list(place.open().replay(kept[1].checkpoint, first=8)) == [eighth]
    assert returned.read(kept[0].body, 10) == frame_of(10, b"value")[0][0][:10]


def test_journals_that_nobody_recorded_are_gone(place: StorePlace) -> None:
    """Of the number that comes next, of later ones, and all of them if nothing was recorded."""
    store = place.open()
    (kept,) = _append_apart(store, 1)
    _append_apart(store, 2, 5, 9)
    returned = place.open()
    returned.truncate_to(kept.checkpoint)
    assert returned.list_journals() == [1]
    second = append(returned, 5, b"another")
    assert list(place.open().replay(kept.checkpoint, first=5)) == [second]
    nothing = place.open()
    nothing.truncate_to(None)
    assert nothing.list_journals() == []
    first = append(nothing, 1, b"from the start")
    assert frames(place.open()) == [first]


@pytest.mark.parametrize("seed", range(SEED, SEED + 8))
def test_stale_journals_never_outlive_an_append(place: StorePlace, seed: int) -> None:
    """Frames under any numbers, given up at random: what was appended last under a number is what comes back."""
    chance = Random(seed)
    store = place.open()
    written: list[StoredFrame] = []
    for _ in range(30):
        number = (written[-1].number if written else 0) + 1
        if written and chance.random() < 0.4:
            number = chance.randrange(1, number + 1)
            store = chance.choice([store, place.open()])
            store.begin_anew()
        written = [frame for frame in written if frame.number < number]
        written.append(append(store, number, b"%d" % chance.randrange(1000)))
        assert frames(place.open()) == written
    last = chance.choice(written)
    place.open().truncate_to(last.checkpoint)
    assert frames(place.open()) == written[: last.number]


def test_a_torn_tail_is_cut_off_with_the_rest(place: StorePlace) -> None:
    """A store that failed in the middle of a frame, came back, and was given the next journal has no damage."""
    store = place.open()
    first = append(store, 1)
    torn = append(store, 2, b"torn", bytes(300))
    place.tear(torn, 20)
    returned = place.open()
    returned.truncate_to(first.checkpoint)
    ninth = append(returned, 9)
    assert list(place.open().replay(first.checkpoint, first=9)) == [ninth]
    assert list(place.open().replay(None, first=9)) == [ninth]


def test_a_store_that_lost_what_was_recorded_does_not_come_back(place: StorePlace) -> None:
    """Its journal is shorter, or not there: it needs a rebuild, not a truncation."""
    store = place.open()
    append(store, 1)
    last = append(store, 2)
    place.tear(last, 1)
    with pytest.raises(StoreFailed, match="were acknowledged"):
        place.open().truncate_to(last.checkpoint)
    elsewhere = Checkpoint(frame=9, end=Place(journal=9, position=100))
    with pytest.raises(StoreFailed, match="is missing"):
        place.open().truncate_to(elsewhere)
