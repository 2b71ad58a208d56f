"""The contract: a rehearsal says what a frame would meet with, and leaves everything as it is."""

import pytest

from holdfast.control.plane import ControlPlane
from holdfast.errors import CommitRefused
from holdfast.rules.removal import Removable
from holdfast.store.footer import Change, ExtentAppended, TopicCreated
from holdfast.store.replica_changes import KeeperLeased, StoreFenced, StoreLeft, StoreRebuilt
from tests.control.answers import IDS, answers, log_answers
from tests.control.frames import Apply
from tests.control.manifests import TOPIC, published, segment


@pytest.fixture
def log(plane: ControlPlane, apply: Apply) -> ControlPlane:
    """A partition with ten offsets."""
    apply(TopicCreated("orders", TOPIC, [[1, 2]], {}))
    apply(ExtentAppended(TOPIC, 0, 0, 9, [1, 2], 100, 5, 0), stores=(1, 2))
    return plane


def test_what_fits_is_not_done(log: ControlPlane, apply: Apply) -> None:
    """Not even a new topic, or another life of a store; later it still fits."""
    before = answers(log)
    changes: list[Change] = [
        TopicCreated("other", IDS[1], [[1]], {}),
        KeeperLeased(1, 1),
        published(log, 1, segment(0, 10), lease=1, mcco=10, mxfo=10),
        StoreFenced(2, 5),
        StoreRebuilt(2, 2),
    ]
    log.rehearse(changes)
    assert answers(log) == before
    with pytest.raises(CommitRefused):
        log.rehearse([ExtentAppended(IDS[1], 0, 0, 0, [1], 1, 1, 0)])
    apply(*changes)
    assert answers(log) != before


def test_what_does_not_fit_is_refused_and_takes_no_frame_down(log: ControlPlane, apply: Apply) -> None:
    """Each change on top of those before it."""
    before = answers(log)
    with pytest.raises(CommitRefused, match="is not the next"):
        log.rehearse([KeeperLeased(1, 1), KeeperLeased(1, 1)])
    log.rehearse([KeeperLeased(1, 1), KeeperLeased(1, 2), StoreLeft(2, ())])
    assert answers(log) == before
    assert apply(KeeperLeased(1, 1)) == 3, "the frame is still to come"


def test_publications_of_one_frame(log: ControlPlane, apply: Apply) -> None:
    """Of several partitions, and of one on several stores: each on top of those before it, as in a frame of its own."""
    apply(TopicCreated("other", IDS[1], [[1, 2]], {}))
    apply(ExtentAppended(IDS[1], 0, 0, 4, [1, 2], 50, 5, 0), stores=(1, 2))
    fitting = [
        published(log, 1, segment(0, 10), mcco=10, mxfo=10),
        published(log, 1, segment(0, 5, "other"), topic_id=IDS[1], mcco=5, mxfo=5),
        published(log, 2, segment(0, 10), mcco=8, mxfo=9),
    ]
    _, *before = log_answers(log)
    for place in range(len(fitting) + 1):
        misfit = published(log, 2, segment(0, 5), topic_id=IDS[1], generation=2)
        with pytest.raises(CommitRefused, match="generation 0, not 1"):
            log.rehearse([*fitting[:place], misfit, *fitting[place:]])
        with pytest.raises(CommitRefused, match="generation 0, not 1"):
            apply(*fitting[:place], misfit, *fitting[place:])
        assert log_answers(log)[1:] == before, "a frame takes all or nothing"
    log.rehearse(fitting)
    apply(*fitting)
    whole, half = log.find_removal(TOPIC, 0), log.find_removal(IDS[1], 0)
    assert whole.removable == Removable(mtro=8, mxro=9)
    assert half.removable == Removable(mtro=0, mxro=0), "store 2 has said nothing of it yet"
    assert [replica.generation for replica in (*whole.replicas, *half.replicas)] == [1, 1, 1, 0]
    assert log.list_files(1) == {"0-10", "other"}
