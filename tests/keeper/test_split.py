"""A hot partition is split over tasks, by keys, then by offsets: the result is that of one task, whoever runs twice."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import pytest

from holdfast.errors import CorruptBatch, HoldfastError, StoreFailed
from holdfast.keeper import chunks, copying, dead, output, shared_search
from holdfast.keeper.chunks import Chunk
from holdfast.keeper.job_task import run_job
from holdfast.keeper.jobs import (
    Answer,
    CopyJob,
    Job,
    MarkJob,
    Marks,
    RewriteJob,
    decode_answer,
    decode_job,
    encode,
)
from holdfast.keeper.runner import Result
from holdfast.keeper.sections import Section, find_sections
from holdfast.keeper.split import MARK_PARTS_MAX, RunJobs, choose_parts, run_split
from holdfast.keeper.work import NewSegment, Piece, Rewrite, WorkItem
from holdfast.records.batch import Codec
from holdfast.store.marks import marks_path
from holdfast.store.segment import segment_path
from tests.keeper.replica import SEED, Replica

Answers = Iterator[tuple[int, Answer | HoldfastError]]

SEEDS = range(10)
STEPS = 8


@pytest.fixture(autouse=True)
def small_and_not_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of few batches; and what a power cut would take is not asked for here."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
    monkeypatch.setattr(os, "fdatasync", lambda file: None)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 600)
    monkeypatch.setattr(chunks, "APART_BYTES_MIN", 150)
    monkeypatch.setattr(copying, "CHUNK_BYTES", 600)
    monkeypatch.setattr(shared_search, "ROWS_MAX", 12)
    for module in (dead, copying, output, shared_search):
        monkeypatch.setattr(module, "INFLATED_BYTES", 1500)


class SplitReplica(Replica):
    """Every rewrite is done as a whole, and in parts whose tasks come in any order, some of them twice."""

    parts = 1
    attempts = 0

    def run(self, item: WorkItem) -> Rewrite:
        """In parts; it must have come to the same as the whole."""
        whole = super().run(item)
        content, left = self._content(whole.added), {segment.file for segment in whole.added}
        for file in left:
            segment_path(self.directory, file).unlink()
            segment_path(self.directory, file).with_suffix(".index").unlink()
        before = self.files()
        self.attempts, progress = 0, [0]

        def advance(size_bytes: int) -> None:
            progress.append(size_bytes)

        self._run_in_threads(item, whole, content)
        (((_, split),),) = run_split([item], [self.parts], self._run_jobs, advance)
        assert isinstance(split, Rewrite), split
        assert self._content(split.added) == content
        assert set(split.removed) == set(whole.removed)
        assert without_passes(split) == without_passes(whole)
        assert abs(sum(progress) - item.size_bytes * (2 if item.compacts else 1)) < 20
        added = {segment_path(self.directory, segment.file) for segment in split.added}
        orphans = self.files() - before - added - {path.with_suffix(".index") for path in added}
        assert not orphans or self.attempts > 0
        for path in orphans:
            path.unlink()
        return split

    def _run_in_threads(self, item: WorkItem, whole: Rewrite, content: bytes) -> None:
        """As threads of one task; they leave nothing but segments, which go again."""
        before = self.files()
        threaded = run_job(RewriteJob(item=item, threads=self.parts), seed=SEED)
        assert isinstance(threaded, Rewrite)
        assert self._content(threaded.added) == content
        assert set(threaded.removed) == set(whole.removed)
        assert without_passes(threaded) == without_passes(whole)
        added = {segment_path(self.directory, segment.file) for segment in threaded.added}
        assert self.files() - before == added | {path.with_suffix(".index") for path in added}
        for path in self.files() - before:
            path.unlink()

    def _content(self, segments: Sequence[NewSegment]) -> bytes:
        return b"".join(self.path(segment).read_bytes() for segment in segments)

    def _run_jobs(self, jobs: Sequence[Job]) -> Answers:
        """As a scheduler would that starts slow tasks again somewhere else, and takes what is there first."""
        order = [number for number in range(len(jobs)) for _ in range(self.chance.choice([1, 1, 1, 2]))]
        self.attempts += len(order) - len(jobs)
        self.chance.shuffle(order)
        answers: dict[int, list[Answer]] = {}
        for number in order:
            answers.setdefault(number, []).append(run_encoded(jobs[number]))
        for number in self.chance.sample(range(len(jobs)), len(jobs)):
            yield number, self.chance.choice(answers[number])


def without_passes(done: Rewrite) -> dict[str, int]:
    """How often the log was gone through is no property of the result."""
    return {name: count for name, count in done.counts.items() if name != "passes" and count}


def run_encoded(job: Job) -> Answer:
    return decode_answer(encode(run_job(decode_job(encode(job)), seed=SEED)))


@pytest.mark.parametrize("seed", SEEDS)
def test_parts_come_to_the_same_as_the_whole(tmp_path: Path, seed: int) -> None:
    """Byte for byte, and both to what the rules leave, on random logs and with maps that are too small."""
    chance = Random(seed)
    keys, key_bytes = (40, 60) if seed % 4 == 0 else (5, 1)
    replica = SplitReplica(tmp_path, chance, keys=keys, key_bytes=key_bytes)
    replica.map_bytes_max = 2048
    for _ in range(STEPS):
        replica.append(chance.randrange(5))
        replica.segment_bytes_max = chance.choice([200, 1000, 20_000])
        replica.parts = chance.choice([2, 3, 4, MARK_PARTS_MAX + 1])
        if chance.random() < 0.3:
            merged = chance.choice([0, len(replica.segments)])
            replica.settle(chance.randint(0, len(replica.extents)), merged=merged)
            assert replica.found(first=replica.log_start) == replica.expected(first=replica.log_start)
        else:
            tombstones_end = chance.choice([0, chance.randint(0, replica.mcco)])
            replica.compact(chance.randint(0, len(replica.extents)), tombstones_end=tombstones_end)
            assert replica.found() == replica.expected()
        covered = [(segment.first, segment.end) for segment in replica.segments]
        assert [first for first, _ in covered[1:]] == [end for _, end in covered[:-1]]
        if chance.random() < 0.3:
            replica.log_start = chance.randint(replica.log_start, replica.settled_to)


def compaction(tmp_path: Path) -> tuple[Replica, WorkItem]:
    """A log of segments, clean and not, and extents, to be compacted."""
    replica = Replica(tmp_path, Random(1))
    replica.segment_bytes_max = 1000
    replica.append(20)
    replica.compact(10)
    replica.settle(5)
    pieces = [*replica.segment_pieces(replica.segments, clean_to=replica.mcco), *replica._taken(5)]
    return replica, replica.item(pieces, first=0, end=replica.log_end, compacts=True)


def test_threads_of_one_task(tmp_path: Path) -> None:
    """They come to what one thread comes to, and leave no marks behind."""
    replica, item = compaction(tmp_path)
    whole = run_job(RewriteJob(item=item), seed=SEED)
    before = replica.files()
    shared = run_job(RewriteJob(item=item, threads=3), seed=SEED)
    assert isinstance(whole, Rewrite)
    assert isinstance(shared, Rewrite)
    of_one, of_three = (
        b"".join(replica.path(segment).read_bytes() for segment in done.added) for done in (whole, shared)
    )
    assert of_one == of_three
    assert without_passes(shared) == without_passes(whole)
    assert {path.suffix for path in replica.files() - before} == {".log", ".index"}


def test_a_thread_that_fails(tmp_path: Path) -> None:
    """So has the task; what the others wrote is taken away."""
    replica, item = compaction(tmp_path)
    damaged = Path(item.pieces[-1].path)
    data = bytearray(damaged.read_bytes())
    data[item.pieces[-1].position + 65] ^= 1
    damaged.write_bytes(data)
    before = replica.files()
    with pytest.raises(CorruptBatch, match="CRC"):
        run_job(RewriteJob(item=item, threads=3), seed=SEED)
    assert replica.files() == before


def test_a_thread_that_cannot_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others may have written their segments by then: these go, too."""
    replica, item = compaction(tmp_path)
    before = replica.files()
    run = copying.Copier.run
    begun = count()
    first_is_done = Event()

    def fail_behind_the_first(copier: copying.Copier, *arguments: Any) -> Rewrite:
        if next(begun) > 0:
            assert first_is_done.wait(30)
            raise StoreFailed("the disk is full")
        done = run(copier, *arguments)
        assert replica.files() > before
        first_is_done.set()
        return done

    monkeypatch.setattr(copying.Copier, "run", fail_behind_the_first)
    with pytest.raises(StoreFailed, match="full"):
        run_job(RewriteJob(item=item, threads=3), seed=SEED)
    assert replica.files() == before


@pytest.mark.parametrize(
    ("codec", "rows_max", "halves"),
    [(Codec.LZ4, 1 << 20, True), (Codec.NONE, 6, True), (Codec.NONE, 1 << 20, False)],
)
def test_threads_halve_chunks_that_take_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: Codec, rows_max: int, halves: bool
) -> None:
    """Until their bytes, inflated, and their keys take no more memory than they may; not for nothing."""
    monkeypatch.setattr(shared_search, "ROWS_MAX", rows_max)
    halved: list[Chunk] = []
    halve = Chunk.halved

    def count(chunk: Chunk, batches: memoryview) -> tuple[Chunk, Chunk]:
        halved.append(chunk)
        return halve(chunk, batches)

    monkeypatch.setattr(Chunk, "halved", count)
    replica = Replica(tmp_path, Random(1))
    value = "v" * (300 if codec is Codec.LZ4 else 20)
    for number in range(30):
        replica.produce(*((f"k{number % 7}", value) for _ in range(3)), codec=codec)
    item = replica.item(replica._taken(30), first=0, end=90, compacts=True)
    assert len(chunks.cut(item.pieces)) < 15
    done = run_job(RewriteJob(item=item, threads=2), seed=SEED)
    assert isinstance(done, Rewrite)
    assert done.counts["records_kept"] == 7
    assert bool(halved) is halves


def spoil_marks(spoil: Callable[[Path], object]) -> RunJobs:
    """Runs jobs; something happens to each file of marks."""

    def run_jobs(jobs: Sequence[Job]) -> Answers:
        for number, job in enumerate(jobs):
            try:
                answer = run_encoded(job)
                if isinstance(answer, Marks):
                    spoil(marks_path(segment_path(Path(job.item.directory), answer.file)))
                yield number, answer
            except HoldfastError as failure:
                yield number, failure

    return run_jobs


def result_of(item: WorkItem, run_jobs: RunJobs) -> Result:
    (((_, result),),) = run_split([item], [3], run_jobs, lambda size_bytes: None)
    return result


def flip_last_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 0x80
    path.write_bytes(data)


@pytest.mark.parametrize(
    "spoil", [Path.unlink, flip_last_bit, lambda path: os.truncate(path, path.stat().st_size - 1)]
)
def test_marks_that_are_not_as_they_were_written(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    """Nothing is guessed about records: the item fails, and nothing stays of it."""
    replica, item = compaction(tmp_path)
    before = replica.files()
    assert isinstance(result_of(item, spoil_marks(spoil)), StoreFailed)
    assert replica.files() == before


def test_marks_of_other_records_than_there_are(tmp_path: Path) -> None:
    """Marks say how many records they are for: a file that has more or fewer by then is not copied by them."""
    replica = Replica(tmp_path, Random(1))
    for number in range(40):
        replica.produce((f"k{number % 30}", "v"))
    item = replica.item(replica._taken(40), first=0, end=40, compacts=True)
    one, other = (run_encoded(MarkJob(item=item, part=part, parts=2, bounds=(0, 40))) for part in (0, 1))
    assert isinstance(one, Marks)
    assert isinstance(other, Marks)
    first = run_encoded(MarkJob(item=replace(item, pieces=item.pieces[:24]), part=0, parts=1, bounds=(0, 24)))
    assert isinstance(first, Marks)
    before = replica.files()
    for pieces, marks in ((39, (one, other)), (40, (first,)), (40, (one, first))):
        job = CopyJob(
            item=replace(item, pieces=item.pieces[:pieces]), rewritten=(True,) * pieces, marks=marks
        )
        with pytest.raises((StoreFailed, CorruptBatch)):
            run_encoded(job)
        assert replica.files() == before
    job = CopyJob(item=item, rewritten=(True,) * 40, marks=(one, other))
    done = run_encoded(job)
    assert isinstance(done, Rewrite)
    assert done.counts["records_kept"] == 30


@pytest.mark.parametrize("kind", [MarkJob, CopyJob])
def test_an_item_of_which_one_job_fails_has_failed(tmp_path: Path, kind: type[Job]) -> None:
    """What the others wrote is taken away; another item in the same run is done."""
    replica, item = compaction(tmp_path / "failing")
    other, sound = compaction(tmp_path / "sound")
    before = replica.files()

    def run_jobs(jobs: Sequence[Job]) -> Answers:
        is_failed = False
        for number, job in enumerate(jobs):
            if isinstance(job, kind) and job.item.directory == item.directory and not is_failed:
                is_failed = True
                yield number, StoreFailed("the disk is full")
            else:
                yield number, run_encoded(job)

    results = dict(chain.from_iterable(run_split([item, sound], [3, 3], run_jobs, lambda size_bytes: None)))
    assert isinstance(results[0], StoreFailed)
    assert isinstance(results[1], Rewrite)
    assert replica.files() == before
    assert not [path for path in other.files() if path.suffix == ".marks"]


def test_a_run_that_ends_early_takes_its_marks_along(tmp_path: Path) -> None:
    """Spark is gone, or the keeper is told to stop."""
    replica, item = compaction(tmp_path)
    before = replica.files()

    def run_jobs(jobs: Sequence[Job]) -> Answers:
        for number, job in enumerate(jobs):
            if isinstance(job, CopyJob):
                assert [path for path in replica.files() if path.suffix == ".marks"]
                raise KeyboardInterrupt
            yield number, run_encoded(job)

    with pytest.raises(KeyboardInterrupt):
        result_of(item, run_jobs)
    assert replica.files() == before


def test_a_full_disk_leaves_no_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of marks that could not be written is none."""
    replica, item = compaction(tmp_path)
    before = replica.files()

    def fail(*arguments: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("holdfast.store.marks.write_all", fail)
    result = result_of(item, spoil_marks(lambda path: None))
    assert isinstance(result, StoreFailed)
    assert "No space left" in str(result)
    assert replica.files() == before


def test_the_log_is_divided_evenly(tmp_path: Path) -> None:
    """Each record is copied by one task, and no task has much more to do than another."""
    replica = Replica(tmp_path, Random(1))
    for number in range(100):
        replica.produce((f"k{number}", "v" * 50))
    item = replica.item(replica._taken(100), first=0, end=100, compacts=False)
    seen: list[Job] = []

    def run_jobs(jobs: Sequence[Job]) -> Answers:
        seen.extend(jobs)
        for number, job in enumerate(jobs):
            yield number, run_encoded(job)

    assert isinstance(result_of(item, run_jobs), Rewrite)
    ranges = [(job.item.first, job.item.end) for job in seen]
    assert (len(ranges), ranges[0][0], ranges[-1][1]) == (6, 0, 100)
    assert [start for start, _ in ranges[1:]] == [end for _, end in ranges[:-1]]
    assert {end - start for start, end in ranges} <= {16, 17}


def test_one_large_piece_is_no_reason_for_small_stretches(tmp_path: Path) -> None:
    """What follows it is one stretch, however many it could have been."""
    replica = Replica(tmp_path, Random(1))
    replica.produce(("k", "v" * 5000))
    for number in range(10):
        replica.produce((f"k{number}", "v"))
    item = replica.item(replica._taken(11), first=0, end=11, compacts=False)
    count = 0

    def run_jobs(jobs: Sequence[Job]) -> Answers:
        nonlocal count
        count = len(jobs)
        for number, job in enumerate(jobs):
            yield number, run_encoded(job)

    assert isinstance(result_of(item, run_jobs), Rewrite)
    assert count == 2


def item_of(size_bytes: int) -> WorkItem:
    """So many bytes in one piece."""
    piece = Piece(path="p", position=0, length_bytes=size_bytes, first=0, end=1, is_clean=False)
    return WorkItem(
        store=1,
        topic_id="0" * 32,
        partition=0,
        lease=1,
        directory="d",
        pieces=(piece,),
        first=0,
        end=1,
        compacts=True,
        surveys=True,
        log_start=0,
        tombstones_end=0,
        segment_bytes_max=1,
        map_bytes_max=1,
    )


@pytest.mark.parametrize(
    ("sizes", "tasks_max", "parts"),
    [
        ([1000], 4, [4]),
        ([1000], 1, [1]),
        ([99], 4, [1]),
        ([250], 4, [3]),
        ([1000, 1000, 1000], 2, [1, 1, 1]),
        ([1000, 10, 10], 4, [4, 1, 1]),
        ([600, 400], 10, [6, 4]),
        ([1_000_000], 64, [64]),
        ([0], 4, [1]),
    ],
)
def test_what_is_hot(sizes: list[int], tasks_max: int, parts: list[int]) -> None:
    """More than one task's share of a round, and large enough for splitting to be worth it."""
    assert choose_parts([item_of(size) for size in sizes], tasks_max=tasks_max, split_bytes_min=100) == parts


def test_sections(tmp_path: Path) -> None:
    """A segment is one; extents in a row are one, unless a stretch ends among them."""
    _, item = compaction(tmp_path)
    segments = sum(piece.index is not None for piece in item.pieces)
    assert segments > 1
    end = len(item.pieces)
    assert find_sections(item.pieces) == [
        *(Section(number, number + 1) for number in range(segments)),
        Section(segments, end),
    ]
    assert find_sections(item.pieces, (0, segments + 1, end))[segments:] == [
        Section(segments, segments + 1),
        Section(segments + 1, end),
    ]
    assert find_sections(()) == []
