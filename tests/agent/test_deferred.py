"""Answers that come later."""

from holdfast.agent.deferred import Deferred, Outcome
from holdfast.errors import StorageUnavailable


def test_listener_is_told_at_once_whichever_comes_first() -> None:
    """Settled before or after it is listened to, the outcome arrives exactly once."""
    for outcome in ((), [b"answer"], StorageUnavailable("no")):
        before: list[Outcome] = []
        deferred = Deferred()
        deferred.listen(before.append)
        assert before == []
        deferred.settle(outcome)
        assert before == [outcome]

        after: list[Outcome] = []
        settled = Deferred()
        settled.settle(outcome)
        settled.listen(after.append)
        assert after == [outcome]
