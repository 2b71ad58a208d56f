"""One timer for many deadlines."""

import asyncio

from holdfast.agent.alarm import Alarm

SECONDS_MAX = 10.0


class Clock:
    """A clock that the test sets; the event loop's own runs on, so a timer never fires too early for it."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.calls: list[str] = []
        self.called = asyncio.Event()
        self.alarm = Alarm(now_ms=lambda: self.now_ms, on_due=self._on_due)

    def _on_due(self, name: str) -> None:
        self.calls.append(name)
        self.called.set()

    async def wait(self) -> list[str]:
        """Who has been called, once somebody has."""
        async with asyncio.timeout(SECONDS_MAX):
            await self.called.wait()
        self.called.clear()
        calls, self.calls = self.calls, []
        return calls


def test_names_are_called_in_the_order_of_their_times() -> None:
    """All that are due in one go, each once."""

    async def main() -> None:
        clock = Clock()
        for name, due_ms in (("late", 60_000), ("second", 20), ("first", 10), ("first", 30)):
            clock.alarm.set(name, due_ms)
        clock.now_ms = 25
        assert await clock.wait() == ["first", "second"]
        clock.alarm.stop()

    asyncio.run(main())


def test_an_earlier_time_replaces_a_later_one() -> None:
    """And the later one, when it comes, is no call of its own."""

    async def main() -> None:
        clock = Clock()
        clock.alarm.set("name", 60_000)
        clock.alarm.set("name", 10)
        clock.now_ms = 10
        assert await clock.wait() == ["name"]
        clock.now_ms = 60_000
        clock.alarm.set("other", 59_999)
        assert await clock.wait() == ["other"]
        clock.alarm.stop()

    asyncio.run(main())


def test_a_timer_that_rings_too_early_rings_again() -> None:
    """The event loop's clock and ours are not the same."""

    async def main() -> None:
        clock = Clock()
        clock.alarm.set("name", 1)
        await asyncio.sleep(0.01)
        assert clock.calls == []
        clock.now_ms = 1
        assert await clock.wait() == ["name"]

    asyncio.run(main())


def test_nobody_is_called_after_a_stop() -> None:
    """Neither those who were set before, nor those who are set later."""

    async def main() -> None:
        clock = Clock()
        clock.alarm.set("before", 0)
        clock.alarm.stop()
        clock.alarm.set("after", 0)
        witness = Clock()
        witness.alarm.set("witness", 0)
        assert await witness.wait() == ["witness"]
        assert clock.calls == []

    asyncio.run(main())
