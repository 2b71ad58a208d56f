"""What a rewrite in several parts leaves behind, because tasks ran twice or its keeper was killed, is collected."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from holdfast.keeper.job_task import run_job
from holdfast.keeper.jobs import Answer, CopyJob, Job, MarkJob
from holdfast.keeper.round import Round
from holdfast.keeper.runner import Done, Progress
from holdfast.keeper.split import run_split
from holdfast.keeper.work import WorkItem
from tests.keeper.engine import Engine
from tests.keeper.space import QUICK, files, rest


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """One store, where everything is due at once."""
    made = Engine(tmp_path / "data", nodes=1, limits=QUICK)
    yield made
    made.end()


class Killed(BaseException):
    """A keeper comes to its end where it stands."""


class SplitInTwo:
    """Every item is hot; tasks run one after the other. One of them runs a second time: nobody hears of that."""

    def __init__(self, *, is_killed_after: type[Job] | None) -> None:
        self._is_killed_after = is_killed_after

    def run(self, items: Sequence[WorkItem], on_progress: Progress) -> Iterator[Done]:
        return run_split(items, [2] * len(items), self._run_jobs, on_progress)

    def _run_jobs(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Answer | HoldfastError]]:
        for number, job in enumerate(jobs):
            run_job(job, seed=1)
            answer = run_job(job, seed=1)
            if self._is_killed_after is not None and isinstance(job, self._is_killed_after):
                raise Killed
            yield number, answer


@pytest.mark.parametrize("last", [MarkJob, CopyJob, None])
def test_what_a_split_rewrite_leaves_behind_goes(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, last: type[Job] | None
) -> None:
    """Marks and segments of attempts that nobody named: of a keeper that was killed, and of one that was not."""
    key = engine.create("t")
    for number in range(40):
        engine.append(key, (b"%d" % (number % 7), b"%d" % number))
    before = engine.table(key, 1)
    with monkeypatch.context() as killed:
        if last is not None:
            # Nobody tidies up after one that is killed.
            killed.setattr("holdfast.keeper.split.delete_segment", lambda directory, file: 0)
            killed.setattr(Round, "_collect", lambda self: None)
        try:
            assert (
                Round(engine.gateway, lambda size_bytes: SplitInTwo(is_killed_after=last)).run().rewrites == 1
            )
        except Killed:
            assert engine.cluster.plane.list_files(1) == set()
    suffixes = {Path(name).suffix for name in files(engine, 1, "segments")}
    assert suffixes == ({".marks"} if last is MarkJob else {".marks", ".log", ".index"})
    rest(engine)
    named = engine.cluster.plane.list_files(1)
    assert named
    assert set(files(engine, 1, "segments")) == named | {file.replace(".log", ".index") for file in named}
    assert engine.table(key, 1) == before
