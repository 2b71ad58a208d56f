"""What several rewrites of a round share: one message and one frame; each is taken or refused on its own."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from holdfast.admin.http import BODY_BYTES_MAX
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.writes import DeleteTopic
from holdfast.keeper import gateway as gateways
from holdfast.keeper import messages, runner, task
from holdfast.keeper.gateway import Gateway
from holdfast.keeper.messages import PUBLICATIONS_MAX, Publication, Publications
from holdfast.keeper.round import Round
from holdfast.keeper.runner import InProcessRunner
from holdfast.keeper.task import rewrite
from holdfast.keeper.work import NewSegment, Rewrite, WorkItem
from holdfast.store.segment import segment_file
from tests.keeper.engine import Engine
from tests.keeper.space import QUICK, lose_control_plane, rest, segments_on_disk

PARTITIONS = 8
LONG_MAX = 2**63 - 1
NOTHING = Publication(
    topic_id="", partition=0, store=1, incarnation=1, lease=1, generation=1, lineage=1,
    removed=[], added=[], grant=[0, 0, 0], mcco=0, mxfo=0,
)  # fmt: skip


class Killed(BaseException):
    """The keeper is no more."""


class Listener:
    """Asks the desk for a keeper, counts what it asks, and kills it before a publication if told so."""

    def __init__(self, engine: Engine, *, publications_max: int | None = None) -> None:
        self._engine = engine
        self._left = publications_max
        self.asked: Counter[str] = Counter()

    def __call__(self, question: str, about: dict[str, Any]) -> Any:
        if question == "publish":
            if self._left == 0:
                raise Killed
            self._left = self._left and self._left - 1
        self.asked[question] += 1
        return self._engine._ask(question, about)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """One store, where everything is due at once, and published together however long a busy machine takes for it."""
    monkeypatch.setattr(runner, "GATHER_SECONDS", 3600.0)
    made = Engine(tmp_path / "data", nodes=1, limits=QUICK)
    yield made
    made.end()


def fill(engine: Engine, partitions: int = PARTITIONS) -> list[PartitionKey]:
    """A topic with something to compact in each partition."""
    first = engine.create("t", partitions)
    keys = [PartitionKey(first.topic_id, number) for number in range(partitions)]
    for key in keys:
        engine.append(key, (b"a", b"1"))
        engine.append(key, (b"a", b"2"))
    return keys


def run_round(engine: Engine, ask: Listener) -> Round:
    """A round that only rewrites."""
    a_round = Round(Gateway(ask, holder="test"), lambda size_bytes: InProcessRunner())
    a_round._collect = lambda: None  # type: ignore[method-assign]
    a_round.run()
    return a_round


def settled(engine: Engine, keys: Sequence[PartitionKey]) -> list[bool]:
    """Whether each is rewritten, by what its only replica reports, what the group may forget, and its files."""
    found = []
    for key in keys:
        removal = engine.removal(key)
        (replica,) = removal.replicas
        files = len(engine.cluster.plane.find_segments(*key, 1))
        assert (replica.generation, replica.settled_to, removal.removable.mtro, files) in (
            (0, 0, 0, 0),
            (1, 2, 2, 1),
        )
        found.append(files == 1)
    return found


def test_eight_partitions_are_one_frame(engine: Engine) -> None:
    """And the lease another; a control plane that is made anew from the frames says the same."""
    keys = fill(engine)
    before = engine.cluster.commits.last_frame
    ask = Listener(engine)
    assert run_round(engine, ask).report.rewrites == PARTITIONS
    assert [ask.asked[question] for question in ("lease", "publish", "release")] == [1, 1, 1]
    assert engine.cluster.commits.last_frame == before + 2
    assert engine.cluster.desk.activity.published == PARTITIONS
    assert all(settled(engine, keys))
    removals = [engine.removal(key) for key in keys]
    lose_control_plane(engine)
    assert [engine.removal(key) for key in keys] == removals
    assert [engine.read(key, 1) for key in keys] == [[(1, b"a", b"2")]] * PARTITIONS


def test_one_that_is_refused_takes_no_other_down(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the reason, and wherever it stands; the others are in one frame, and the next round does the rest."""
    keys = fill(engine)
    publish = Gateway.publish

    def publish_misfits(self: Gateway, publications: Sequence[Publication]) -> Iterator[str | None]:
        changed = list(publications)
        changed[0] = replace(changed[0], generation=7)
        older = [replace(each, file=each.file.replace(".1-", ".0-")) for each in changed[3].added]
        changed[3] = replace(changed[3], added=older)
        changed[7] = replace(changed[7], lineage=2)
        return publish(self, changed)

    before = engine.cluster.commits.last_frame
    with monkeypatch.context() as patched:
        patched.setattr(Gateway, "publish", publish_misfits)
        report = run_round(engine, Listener(engine)).report
    assert (report.rewrites, report.refused, report.failed) == (5, 3, 0)
    assert (engine.cluster.desk.activity.published, engine.cluster.desk.activity.refused) == (5, 3)
    assert engine.cluster.commits.last_frame == before + 2
    assert settled(engine, keys) == [number not in (0, 3, 7) for number in range(PARTITIONS)]
    assert run_round(engine, Listener(engine)).report.rewrites == 3
    assert all(settled(engine, keys))
    rest(engine)
    assert segments_on_disk(engine, 1) == engine.cluster.plane.list_files(1)


def test_nothing_is_taken_under_a_lost_lease(engine: Engine) -> None:
    """All are refused, and there is no frame that says nothing."""
    keys = fill(engine)

    class Robbed(Listener):
        def __call__(self, question: str, about: dict[str, Any]) -> Any:
            if question == "publish":
                engine.gateway.release(1)
                assert Gateway(engine._ask, holder="other").lease(1) == 2
                self.frame = engine.cluster.commits.last_frame
            return super().__call__(question, about)

    ask = Robbed(engine)
    report = run_round(engine, ask).report
    assert (report.rewrites, report.refused) == (0, PARTITIONS)
    assert engine.cluster.commits.last_frame == ask.frame
    assert not any(settled(engine, keys))


def test_a_topic_that_goes_meanwhile_takes_only_its_own_down(engine: Engine) -> None:
    """In the order of commits: its deletion is durable before what is published."""
    gone = engine.create("gone")
    engine.append(gone, (b"a", b"1"))
    keys = fill(engine)

    class Deleting(Listener):
        def __call__(self, question: str, about: dict[str, Any]) -> Any:
            if question == "publish":
                engine.call(lambda: engine.cluster.commits.submit(DeleteTopic(gone.topic_id)))
            return super().__call__(question, about)

    report = run_round(engine, Deleting(engine)).report
    assert (report.rewrites, report.refused) == (PARTITIONS, 1)
    assert all(settled(engine, keys))


def test_a_keeper_killed_between_two_groups_leaves_the_first_one_whole(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not published is nobody's, and the next keeper does it."""
    monkeypatch.setattr(gateways, "PUBLICATIONS_MAX", 3)
    keys = fill(engine)
    with pytest.raises(Killed):
        run_round(engine, Listener(engine, publications_max=2))
    assert settled(engine, keys) == [number < 6 for number in range(PARTITIONS)]
    lose_control_plane(engine)
    assert settled(engine, keys) == [number < 6 for number in range(PARTITIONS)]
    ask = Listener(engine)
    assert run_round(engine, ask).report.rewrites == 2
    assert ask.asked["publish"] == 1
    rest(engine)
    assert segments_on_disk(engine, 1) == engine.cluster.plane.list_files(1)
    assert [engine.read(key, 1) for key in keys] == [[(1, b"a", b"2")]] * PARTITIONS


def test_groups_are_bounded(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """In publications, by both sides, and in the files that they name."""
    keys = fill(engine, 2 * PUBLICATIONS_MAX + 1)
    ask = Listener(engine)
    assert run_round(engine, ask).report.rewrites == 2 * PUBLICATIONS_MAX + 1
    assert ask.asked["publish"] == 3
    for key in keys[:3]:
        engine.append(key, (b"b", b"1"))
    monkeypatch.setattr(gateways, "FILES_MAX", 1)
    ask = Listener(engine)
    assert run_round(engine, ask).report.rewrites == ask.asked["publish"] == 3


def test_the_desk_takes_no_more_than_it_can_try_one_by_one(engine: Engine) -> None:
    """A keeper that asks for more is told so, and nothing of it is done."""
    many = messages.plain(Publications(publications=[NOTHING] * (PUBLICATIONS_MAX + 1)))
    with pytest.raises(msgspec.ValidationError, match=f"length <= {PUBLICATIONS_MAX}"):
        engine._ask("publish", many)


def test_a_rewrite_of_thousands_of_segments_can_be_told() -> None:
    """Ten gigabytes of the smallest segments, with the largest numbers: over HTTP a question is bounded."""
    name = segment_file(UUID(int=2**128 - 1), 2**31 - 1, LONG_MAX, LONG_MAX, "f" * 16)
    numbers = dict.fromkeys(("first", "end", "max_timestamp", "first_tombstone", "first_timestamp"), LONG_MAX)
    added = NewSegment(file=name, length_bytes=1 << 20, records=1 << 20, crc=2**32 - 1, **numbers)
    large = replace(NOTHING, topic_id="f" * 32, removed=[name] * 10_000, added=[added] * 500)
    assert len(msgspec.json.encode(messages.plain(Publications(publications=[large])))) < BODY_BYTES_MAX


def test_what_is_done_does_not_wait_for_long(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rewrite that takes its time holds up those before it for no more than a moment."""
    monkeypatch.setattr(runner, "GATHER_SECONDS", 0.0)
    fill(engine, 3)
    ask = Listener(engine)
    assert run_round(engine, ask).report.rewrites == ask.asked["publish"] == 3


def test_what_was_done_before_a_failure_is_published(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure that nobody foresaw ends the round, and takes nothing along that was done."""
    keys = fill(engine, 3)
    rewritten = []

    def fail_at_the_last(item: WorkItem, **others: Any) -> Rewrite:
        rewritten.append(item)
        if len(rewritten) == len(keys):
            raise MemoryError
        return rewrite(item, **others)

    monkeypatch.setattr(task, "rewrite", fail_at_the_last)
    ask = Listener(engine)
    with pytest.raises(MemoryError):
        run_round(engine, ask)
    assert sorted(settled(engine, keys)) == [False, True, True]


def test_what_was_taken_before_nobody_answers_is_counted(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent goes away between two frames."""
    monkeypatch.setattr(gateways, "PUBLICATIONS_MAX", 2)
    keys = fill(engine, 4)
    a_round = Round(
        Gateway(Listener(engine, publications_max=1), holder="test"), lambda size_bytes: InProcessRunner()
    )
    with pytest.raises(Killed):
        a_round.run()
    assert (a_round.report.rewrites, settled(engine, keys).count(True)) == (2, 2)
