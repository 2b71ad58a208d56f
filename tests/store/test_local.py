"""A store in a directory: durable or an error, and nothing but what was acknowledged comes back as damage."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.errors import StoreFailed
from holdfast.records.crc import crc32c
from holdfast.store import durable, footer, journal
from holdfast.store.footer import ExtentAppended
from holdfast.store.local import LocalStore
from holdfast.store.segment import SegmentWriter
from holdfast.store.store import Checkpoint, Place, StoredFrame
from tests.store.frames import CLUSTER, TOPIC, batch_at, frame_of
from tests.store.segments import FILE

Open = Callable[..., LocalStore]


@pytest.fixture
def open_store(tmp_path: Path) -> Open:
    """Opens the same directory again and again."""

    def opened(**options: int) -> LocalStore:
        return LocalStore(tmp_path, store=1, cluster_id=CLUSTER, **options)

    return opened


def _append(store: LocalStore, number: int, *values: bytes) -> StoredFrame:
    return store.append(number, *frame_of(10 * number, *(values or (b"value",))))


def _journals(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "journal").iterdir())


def _fail(monkeypatch: pytest.MonkeyPatch, function: str, code: int) -> None:
    def failing(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, function, failing)


def test_bytes_are_read_back(open_store: Open) -> None:
    """`read` gives the body's bytes, and says so if they are not there."""
    store = open_store()
    body, changes = frame_of(0, b"a", b"b")
    frame = store.append(1, body, changes)
    assert store.read(frame.body, len(body[0])) == body[0]
    with pytest.raises(StoreFailed, match="ends before"):
        store.read(frame.body, 100_000)
    with pytest.raises(StoreFailed, match="cannot read"):
        store.read(Place(journal=99, position=0), 1)


def test_a_frame_is_synced_before_append_returns(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole frame is in the file when fdatasync is called, and append waits for it."""
    store = open_store()
    _append(store, 1)
    synced: list[int] = []

    def fdatasync(file: int) -> None:
        synced.append(os.fstat(file).st_size)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    frame = _append(store, 2)
    assert synced == [frame.end.position]


def test_journals_roll(open_store: Open, tmp_path: Path) -> None:
    """A full journal is followed by the next; replay and checkpoints go across."""
    store = open_store(journal_bytes_max=300)
    written = [_append(store, number, b"x" * 100) for number in range(1, 8)]
    assert len(_journals(tmp_path)) > 2
    assert list(open_store().replay(None)) == written
    assert list(open_store().replay(written[3].checkpoint)) == written[4:]


def test_a_torn_tail_is_cut_off_wherever_it_was_torn(open_store: Open, tmp_path: Path) -> None:
    """Cut at every byte of the last frame, the store opens with the frames before, and goes on."""
    store = open_store()
    first, last = _append(store, 1), _append(store, 2)
    file = _journals(tmp_path)[0]
    whole = file.read_bytes()
    for size in range(first.end.position, last.end.position):
        file.write_bytes(whole[:size])
        again = open_store()
        assert list(again.replay(None)) == [first]
        assert file.stat().st_size == first.end.position
        second = _append(again, 2, b"another")
        assert list(open_store().replay(first.checkpoint)) == [second]


def test_a_last_frame_with_lost_pages_is_cut_off(open_store: Open, tmp_path: Path) -> None:
    """Before the sync, pages may reach the disk in any order: header and footer alone prove nothing."""
    store = open_store()
    first, last = _append(store, 1), _append(store, 2)
    file = _journals(tmp_path)[0]
    data = bytearray(file.read_bytes())
    middle = (last.body.position + last.end.position - len(last.footer)) // 2
    data[middle : middle + 8] = bytes(8)
    file.write_bytes(data)
    assert list(open_store().replay(None)) == [first]


def test_a_base_offset_that_was_lost_is_noticed(open_store: Open, tmp_path: Path) -> None:
    """Base offsets lie outside of the batch's CRC; the footer knows where they must be."""
    store = open_store()
    first = _append(store, 1)
    batches = [batch_at(20, b"a"), batch_at(21, b"b")]
    extent = ExtentAppended(TOPIC, 0, 20, 21, [1], sum(map(len, batches)), 1, 0)
    last = store.append(2, batches, footer.encode([extent]))
    file = _journals(tmp_path)[0]
    data = bytearray(file.read_bytes())
    data[last.body.position : last.body.position + 8] = bytes(8)
    file.write_bytes(data)
    assert list(open_store().replay(None)) == [first]


def test_damage_in_the_middle_is_refused(open_store: Open, tmp_path: Path) -> None:
    """Frame 1 was acknowledged, frame 2 proves it: losing it silently is not an option."""
    store = open_store()
    first = _append(store, 1)
    _append(store, 2)
    file = _journals(tmp_path)[0]
    data = bytearray(file.read_bytes())
    data[first.body.position + 70] ^= 1
    file.write_bytes(data)
    with pytest.raises(StoreFailed, match="damaged in the middle"):
        list(open_store().replay(None))
    assert file.read_bytes() == data


def test_lost_acknowledged_bytes_are_refused(open_store: Open, tmp_path: Path) -> None:
    """A journal that ends before the checkpoint has lost what clients were promised."""
    store = open_store()
    _append(store, 1)
    last = _append(store, 2)
    file = _journals(tmp_path)[0]
    os.truncate(file, last.end.position - 1)
    with pytest.raises(StoreFailed, match="were acknowledged"):
        list(open_store().replay(last.checkpoint))


def test_a_missing_journal_is_refused(open_store: Open, tmp_path: Path) -> None:
    """Be it the checkpoint's own, or one in between."""
    store = open_store(journal_bytes_max=1)
    written = [_append(store, number) for number in (1, 2, 3, 4)]
    _journals(tmp_path)[2].unlink()
    with pytest.raises(StoreFailed, match=r"3\.journal is missing"):
        list(open_store().replay(written[2].checkpoint))
    with pytest.raises(StoreFailed, match="frames 3 to 3 are missing"):
        list(open_store().replay(written[0].checkpoint))


def test_a_foreign_or_renamed_journal_is_refused(open_store: Open, tmp_path: Path) -> None:
    """Journals know their cluster, store and first frame."""
    _append(open_store(), 1)
    with pytest.raises(StoreFailed, match="belongs to store 1 of cluster"):
        list(LocalStore(tmp_path, store=1, cluster_id=uuid4()).replay(None))
    with pytest.raises(StoreFailed, match="belongs to store 1"):
        list(LocalStore(tmp_path, store=2, cluster_id=CLUSTER).replay(None))
    (file,) = _journals(tmp_path)
    file.rename(file.with_name(f"{5:020d}.journal"))
    with pytest.raises(StoreFailed, match="renamed"):
        list(open_store().replay(None))


def test_a_full_disk_leaves_no_trace(
    open_store: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that fails half way is taken back; the same frame number succeeds when there is room."""
    store = open_store()
    first = _append(store, 1)
    pwritev = os.pwritev

    def half(file: int, buffers: list[bytes], position: int) -> int:
        if position > first.end.position:
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwritev(file, [bytes(buffers[0])[:10]], position)

    monkeypatch.setattr(os, "pwritev", half)
    with pytest.raises(StoreFailed, match="No space left"):
        _append(store, 2)
    assert _journals(tmp_path)[0].stat().st_size == first.end.position
    monkeypatch.undo()
    second = _append(store, 2, b"again")
    assert list(open_store().replay(None)) == [first, second]


@pytest.mark.parametrize("is_cut_off", [True, False])
def test_a_failed_sync_condemns_the_file(
    open_store: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_cut_off: bool
) -> None:
    """After a failed fdatasync nothing more is written to that file, and the failed frame is void."""
    store = open_store()
    first = _append(store, 1)
    _fail(monkeypatch, "fdatasync", errno.EIO)
    if not is_cut_off:
        _fail(monkeypatch, "ftruncate", errno.EIO)
    with pytest.raises(StoreFailed, match="cannot sync"):
        _append(store, 2, b"failed")
    monkeypatch.undo()
    second = _append(store, 2, b"succeeded")
    third = _append(store, 3)
    assert second.body.journal == 2
    assert len(_journals(tmp_path)) == 2
    assert list(open_store().replay(None)) == [first, second, third]
    assert list(open_store().replay(first.checkpoint)) == [second, third]


def test_a_partial_frame_that_a_successor_voids_is_no_damage(open_store: Open, tmp_path: Path) -> None:
    """Leftovers of a failed write before the next journal begins are skipped, not refused."""
    store = open_store()
    first = _append(store, 1)
    with _journals(tmp_path)[0].open("ab") as file:
        file.write(b"HFFR leftovers")
    store.begin_anew()
    second = _append(store, 2)
    assert list(open_store().replay(None)) == [first, second]


def test_a_journal_without_a_header_holds_nothing(open_store: Open, tmp_path: Path) -> None:
    """A crash between creating a journal and syncing its header loses nothing."""
    first = _append(open_store(), 1)
    (tmp_path / "journal" / f"{2:020d}.journal").write_bytes(b"HOLD")
    again = open_store()
    assert list(again.replay(None)) == [first]
    second = _append(again, 2)
    assert list(open_store().replay(None)) == [first, second]


def test_a_journal_of_zeros_holds_nothing(open_store: Open, tmp_path: Path) -> None:
    """After a power cut a file may have its length and none of its bytes."""
    first = _append(open_store(), 1)
    (tmp_path / "journal" / f"{2:020d}.journal").write_bytes(bytes(500))
    again = open_store()
    assert list(again.replay(None)) == [first]
    assert list(open_store().replay(None)) == [first]


def test_frames_of_a_newer_holdfast_stop_the_start_and_stay(open_store: Open, tmp_path: Path) -> None:
    """A newer frame version, and a kind of change that this version does not know: nothing is cut off."""
    store = open_store()
    first = _append(store, 1)
    store.append(2, [], b'[["from the future",1]]')
    file = _journals(tmp_path)[0]
    before = file.read_bytes()
    with pytest.raises(StoreFailed, match="use a newer Holdfast"):
        list(open_store().replay(None))
    assert file.read_bytes() == before
    newer = bytearray(before[: first.end.position] + journal.frame_head(2, 0, 2) + journal.frame_tail(b"[]"))
    at = first.end.position
    newer[at + 4 : at + 6] = (journal.VERSION + 1).to_bytes(2, "big")
    newer[at + 28 : at + 32] = crc32c(newer[at : at + 28]).to_bytes(4, "big")
    file.write_bytes(newer)
    with pytest.raises(StoreFailed, match="frame 2 has version 2"):
        list(open_store().replay(None))
    assert file.read_bytes() == newer


def test_a_failed_first_frame_gets_another_file(
    open_store: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The retry has the same number and name, but never the file whose sync failed."""
    store = open_store()
    synced: list[int] = []

    def fdatasync(file: int) -> None:
        synced.append(os.fstat(file).st_ino)
        if len(synced) == 2:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    with pytest.raises(StoreFailed, match="cannot sync"):
        _append(store, 1)
    (kept,) = (path.open("rb") for path in _journals(tmp_path))
    with kept:
        frame = _append(store, 1)
        assert _journals(tmp_path)[0].stat().st_ino not in synced[:2]
    assert list(open_store().replay(None)) == [frame]


def test_new_directories_are_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name on the way to the journal is synced in its parent before anything is acknowledged."""
    synced: list[str] = []
    fsync = os.fsync

    def watch(file: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{file}").readlink()))
        fsync(file)

    monkeypatch.setattr(os, "fsync", watch)
    LocalStore(tmp_path / "stores" / "1", store=1, cluster_id=CLUSTER)
    store = tmp_path / "stores" / "1"
    identity = [str(store / "store.tmp"), str(store)]
    assert synced == [str(tmp_path), str(tmp_path / "stores"), *identity, str(store)]


def test_many_buffers_are_written_whole(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """More buffers than one system call takes, and short writes, end up in order."""
    pwritev = os.pwritev

    def short(file: int, buffers: list[bytes], position: int) -> int:
        return pwritev(file, [b"".join(bytes(buffer) for buffer in buffers)[:1777]], position)

    monkeypatch.setattr(os, "pwritev", short)
    store = open_store()
    body, changes = frame_of(0, *[b"%d" % number for number in range(3000)])
    pieces = [bytes(body[0][at : at + 7]) for at in range(0, len(body[0]), 7)]
    assert len(pieces) > durable.BUFFERS_PER_WRITE_MAX
    frame = store.append(1, pieces, changes)
    assert store.read(frame.body, len(body[0])) == body[0]
    assert list(open_store().replay(None)) == [frame]


def test_a_checkpoint_of_an_empty_store_is_refused(open_store: Open) -> None:
    """A control plane beside an empty store means that the store was lost."""
    checkpoint = Checkpoint(frame=3, end=Place(journal=1, position=500))
    with pytest.raises(StoreFailed, match="is missing"):
        list(open_store().replay(checkpoint))


@pytest.mark.parametrize("reads", ["journal", "segment"])
def test_a_file_is_not_closed_between_opening_and_reading(
    open_store: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: str
) -> None:
    """Another thread may push it out of the cache, or close the store, at any moment."""
    store = open_store()
    frame = _append(store, 1)
    with SegmentWriter(tmp_path, FILE) as writer:
        writer.append(b"segment", [])
        writer.finish()
    pread = os.pread

    def close_first(file: int, length: int, position: int) -> bytes:
        store.close()
        return pread(file, length, position)

    monkeypatch.setattr(os, "pread", close_first)
    if reads == "journal":
        assert store.read(frame.body, 20) == frame_of(10, b"value")[0][0][:20]
    else:
        assert store.read_segment(FILE, 0, 7) == b"segment"
