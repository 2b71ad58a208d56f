"""The contract: a rehearsal says what a frame would meet with, and leaves everything as it is."""

import pytest

from holdfast.control.plane import ControlPlane
from holdfast.errors import CommitRefused
from holdfast.store.footer import Change, ExtentAppended, TopicCreated
from holdfast.store.replica_changes import KeeperLeased, StoreFenced, StoreLeft, StoreRebuilt
from tests.control.answers import IDS, answers
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
