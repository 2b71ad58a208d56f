"""What every store promises of its segments, carried files and snapshots: see the docstrings of `Store`."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from holdfast.errors import StoreFailed
from holdfast.records.crc import crc32c
from holdfast.records.walk import walk
from holdfast.store.carried import CarriedWriter, carried_number
from holdfast.store.segment import SegmentWriter, segment_file, segment_path
from holdfast.store.segment_index import index_entries, index_path
from holdfast.store.store import CARRIED, Place
from tests.store.frames import TOPIC, frame_of
from tests.store.implementations import StorePlace
from tests.store.segments import FILE, in_pieces, random_batches, write_segment

SEED = 20_260_303


def _files(path: Path) -> list[Path]:
    return [file for file in path.rglob("*") if file.is_file() and file.name != "store.json"]


def test_a_segment_is_read_back(place: StorePlace) -> None:
    """All of it or a part, by stores that were there before it and that came after."""
    early = place.open()
    batches = random_batches(Random(SEED), 40)
    segment = b"".join(batches)
    write_segment(place.path, in_pieces(Random(SEED), batches))
    for store in (early, place.open()):
        assert store.list_files() == {FILE}
        assert store.read_segment(FILE, 0, len(segment)) == segment
        assert store.read_segment(FILE, 1000, 77) == segment[1000:1077]
        store.check_segment(FILE, len(segment))
        middle = list(walk(segment))[20]
        begin = store.segment_index(FILE).find(middle.last_offset)
        assert 0 < begin <= middle.position
        assert store.segment_index(FILE) is store.segment_index(FILE)


def test_a_segment_that_is_not_there_is_an_error(place: StorePlace) -> None:
    """Missing, shorter, longer, or no segment at all: it is named, and never fewer bytes than asked for."""
    store = place.open()
    length_bytes = write_segment(place.path, random_batches(Random(SEED), 3)).length_bytes
    missing = FILE.replace("5f3c", "none")
    with pytest.raises(StoreFailed, match=r"cannot read .*7-none\.log"):
        store.read_segment(missing, 0, 1)
    with pytest.raises(StoreFailed, match=r"cannot read .*7-none\.log"):
        store.segment_index(missing)
    with pytest.raises(StoreFailed, match=r"cannot find .*7-none\.log"):
        store.check_segment(missing, 0)
    with pytest.raises(StoreFailed, match=r"7-5f3c\.log ends before"):
        store.read_segment(FILE, 1, length_bytes)
    with pytest.raises(StoreFailed, match=rf"7-5f3c\.log has {length_bytes} bytes, not {length_bytes + 1}"):
        store.check_segment(FILE, length_bytes + 1)
    with pytest.raises(StoreFailed, match="restore it"):
        store.check_segment(FILE, length_bytes - 1)
    for ask in (store.segment_index, store.delete_segment):
        with pytest.raises(StoreFailed, match="not the name of a segment"):
            ask("../../holdfast.json")


@pytest.mark.parametrize("damage", ["missing", "cut", "noise", "of another length"])
def test_a_damaged_index_is_made_anew(place: StorePlace, damage: str) -> None:
    """Readers do not notice, and the next one finds it whole on disk."""
    segment = b"".join(random_batches(Random(SEED), 40))
    write_segment(place.path, [segment])
    path = index_path(segment_path(place.path, FILE))
    whole = path.read_bytes()
    path.unlink()
    if damage == "of another length":
        other = FILE.replace("5f3c", "other")
        write_segment(place.path, [b"".join(random_batches(Random(SEED), 39))], other)
        path.write_bytes(index_path(segment_path(place.path, other)).read_bytes())
    elif damage != "missing":
        path.write_bytes(whole[:-1] if damage == "cut" else Random(SEED).randbytes(900))
    assert place.open().segment_index(FILE).entries == index_entries(segment)
    assert path.read_bytes() == whole


def test_an_index_of_a_newer_holdfast_stays(place: StorePlace) -> None:
    """It is refused, not overwritten."""
    write_segment(place.path, [])
    path = index_path(segment_path(place.path, FILE))
    newer = bytearray(path.read_bytes())
    newer[11] = 9
    newer[-4:] = crc32c(newer[:-4]).to_bytes(4, "big")
    path.write_bytes(newer)
    with pytest.raises(StoreFailed, match="use a newer Holdfast"):
        place.open().segment_index(FILE)
    assert path.read_bytes() == newer


def test_a_deleted_segment_is_gone_with_all_that_belongs_to_it(place: StorePlace) -> None:
    """Also for readers that had it open, and for its index; a second deletion is no harm."""
    store = place.open()
    written = write_segment(place.path, random_batches(Random(SEED), 30))
    kept = FILE.replace("/0/", "/1/")
    write_segment(place.path, [], kept)
    store.read_segment(FILE, 0, 10)
    index_bytes = store.segment_index(FILE).size_bytes
    assert store.delete_segment(FILE) == written.length_bytes + index_bytes
    assert store.delete_segment(FILE) == 0
    assert store.list_files() == {kept}
    assert len(_files(place.path)) == 2
    with pytest.raises(StoreFailed, match=r"5f3c\.log"):
        store.read_segment(FILE, 0, 10)
    with pytest.raises(StoreFailed, match=r"5f3c\.log"):
        store.segment_index(FILE)
    store.delete_segment(kept)
    assert not _files(place.path)
    write_segment(place.path, [])
    assert store.list_files() == {FILE}


@pytest.mark.parametrize("suffix", [".log", ".index", ".marks", ".tmp"])
def test_whatever_a_crash_left_of_a_segment_is_listed_and_deleted(place: StorePlace, suffix: str) -> None:
    """Be it the file, its index, the draft of one, or marks; what is no segment's is left alone."""
    store = place.open()
    path = segment_path(place.path, FILE)
    path.parent.mkdir(parents=True)
    path.with_suffix(suffix).write_bytes(b"half")
    (path.parent / "notes.txt").write_bytes(b"")
    (path.parent.parent / "stray.log").write_bytes(b"")
    assert store.list_files() == {FILE}
    assert store.delete_segment(FILE) == 4
    assert store.list_files() == set()
    assert sorted(file.name for file in _files(place.path)) == ["notes.txt", "stray.log"]


def test_a_segment_that_is_being_written_is_listed(place: StorePlace) -> None:
    """Its lease tells whether somebody may still be at it."""
    with SegmentWriter(place.path, FILE):
        assert place.open().list_files() == {FILE}
    assert place.open().list_files() == set()


def test_readers_and_deleters_do_not_harm_each_other(place: StorePlace) -> None:
    """More segments than are kept open, read and deleted at once: the right bytes or an error, never others."""
    store = place.open()
    contents = {segment_file(TOPIC, 0, number, 1, "a"): b"%06d" % number * 10 for number in range(400)}
    files = list(contents)
    segment_path(place.path, files[0]).parent.mkdir(parents=True)
    for file, content in contents.items():
        segment_path(place.path, file).write_bytes(content)
    begun = threading.Barrier(4, timeout=20)
    is_over = threading.Event()

    def read(seed: int) -> None:
        chance = Random(seed)
        begun.wait()
        reads = 0
        while reads < 500 or not is_over.is_set():
            file = chance.choice(files)
            try:
                assert store.read_segment(file, 6, 12) == contents[file][6:18]
            except StoreFailed:
                assert file in deleted
            reads += 1

    deleted = files[::3]
    with ThreadPoolExecutor(3) as threads:
        readers = [threads.submit(read, SEED + number) for number in range(3)]
        begun.wait()
        for file in deleted:
            store.delete_segment(file)
        is_over.set()
        for reader in readers:
            reader.result(30)
    for file in deleted:
        with pytest.raises(StoreFailed):
            store.read_segment(file, 0, 1)
    assert store.list_files() == {file for number, file in enumerate(files) if number % 3}


def test_carried_batches_are_read_like_those_of_a_journal(place: StorePlace) -> None:
    """By their place; the number of the file is that of the place."""
    store = place.open()
    (body,), _ = frame_of(0, b"a" * 500)
    number = carried_number(3, 1)
    with CarriedWriter(place.path, number) as writer:
        places = [Place(journal=number, position=writer.append(body)) for _ in range(3)]
        writer.finish()
    assert number > CARRIED
    for each in (store, place.open()):
        assert each.list_carried() == [number]
        assert all(each.read(at, len(body)) == body for at in places)
    with pytest.raises(StoreFailed, match=r"\.carried ends before"):
        store.read(places[2], len(body) + 1)
    with pytest.raises(StoreFailed, match=r"cannot read .*\.carried"):
        store.read(Place(journal=number + 1, position=44), 1)


def test_files_that_somebody_else_deleted_are_let_go(place: StorePlace) -> None:
    """They take space as long as they are open; who reads at that moment is not disturbed."""
    store = place.open_faulty()
    write_segment(place.path, random_batches(Random(SEED), 3))
    store.read_segment(FILE, 0, 10)
    segment_path(place.path, FILE).unlink()
    assert _deleted_but_open(place.path)
    assert len(store.read_segment(FILE, 0, 10)) == 10
    store.forget_deleted()
    assert not _deleted_but_open(place.path)
    with pytest.raises(StoreFailed):
        store.read_segment(FILE, 0, 10)


def _deleted_but_open(path: Path) -> list[str]:
    targets = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            targets.append(str(link.readlink()))
    return [target for target in targets if target.startswith(str(path)) and target.endswith("(deleted)")]


def test_carried_files_are_deleted(place: StorePlace) -> None:
    """Those that are named and there; numbers are given in order of lease and serial."""
    store = place.open()
    numbers = [carried_number(lease, serial) for lease in (1, 2) for serial in (0, 1)]
    assert numbers == sorted(numbers)
    sizes = []
    for number in reversed(numbers):
        writer = CarriedWriter(place.path, number)
        writer.append(b"batch")
        sizes.append(writer.finish())
    assert store.list_carried() == numbers
    store.read(Place(journal=numbers[0], position=44), 5)
    assert store.delete_carried([numbers[0], numbers[2], numbers[2] + 50]) == sizes[0] + sizes[2]
    assert store.list_carried() == [numbers[1], numbers[3]]
    with pytest.raises(StoreFailed):
        store.read(Place(journal=numbers[0], position=44), 5)


def test_snapshots_are_listed_and_the_newest_kept(place: StorePlace) -> None:
    """Drafts of others go as well; the folder is there before the first."""
    store = place.open()
    assert store.list_snapshots() == []
    assert store.keep_snapshots(2) == 0
    for frame in (7, 100, 20, 3):
        store.snapshot_path(frame).write_bytes(b"snapshot")
    draft = store.snapshot_path(100).with_suffix(".tmp")
    draft.write_bytes(b"half")
    assert place.open().list_snapshots() == [100, 20, 7, 3]
    assert store.keep_snapshots(2) == 20
    assert store.list_snapshots() == [100, 20]
    assert not draft.exists()
    assert store.keep_snapshots(2) == 0


def test_a_store_that_takes_writes_says_so(place: StorePlace) -> None:
    """And nothing is left behind; one that does not is told by a fault."""
    store = place.open_faulty()
    before = _files(place.path)
    store.probe()
    assert _files(place.path) == before
    store.is_read_only = True
    with pytest.raises(StoreFailed):
        store.probe()


def test_nothing_is_deleted_on_a_read_only_store(place: StorePlace) -> None:
    """Whatever is asked for, it fails and all is still there."""
    store = place.open_faulty()
    write_segment(place.path, [])
    number = carried_number(1, 1)
    CarriedWriter(place.path, number).finish()
    store.snapshot_path(5).write_bytes(b"")
    store.is_read_only = True
    for write in (
        lambda: store.delete_segment(FILE),
        lambda: store.delete_carried([number]),
        lambda: store.keep_snapshots(0),
        lambda: store.delete_journals(1),
        lambda: store.truncate_to(None),
        lambda: store.save_snapshot(lambda path: 6),
    ):
        with pytest.raises(StoreFailed, match="Read-only"):
            write()
    assert (store.list_files(), store.list_carried(), store.list_snapshots()) == ({FILE}, [number], [5])
    store.fail_reads = 2
    with pytest.raises(StoreFailed):
        store.read_segment(FILE, 0, 0)
    with pytest.raises(StoreFailed):
        store.segment_index(FILE)
    assert store.read_segment(FILE, 0, 0) == b""
