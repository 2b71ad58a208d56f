"""A history of one partition on three stores, as frames say it; every change fits unless it is told otherwise."""

from dataclasses import replace
from uuid import UUID

from holdfast.keeper.grants import Frame, GrantLedger, Violation
from holdfast.store.footer import Change, TopicCreated
from holdfast.store.replica_changes import AddedSegment, Granted, KeeperLeased, SegmentsPublished

TOPIC = UUID(int=7)


class Told:
    """Frames by number, from 1 on; the first creates the topic, the next three lease the stores."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self._generations: dict[int, int] = {}
        self._settled: dict[int, int] = {}
        self.lives = dict.fromkeys((1, 2, 3), 1)
        self.say(TopicCreated("orders", TOPIC, [[1, 2, 3]], {}))
        for store in self.lives:
            self.say(KeeperLeased(store, 1))

    def say(self, *changes: Change) -> int:
        """The next frame; its number."""
        self.frames.append(Frame(number=len(self.frames) + 1, changes=changes))
        return len(self.frames)

    def clean(self, store: int, end: int, *, granted: int = 0, forgets: int = 0) -> int:
        """A replica settles and compacts up to `end`, under a grant that lets this much go."""
        first = self._settled.get(store, 0)
        added = (AddedSegment(first, end, f"{store}-{end}.log", 10, 5, 1, -1, 0),) if end > first else ()
        self._settled[store] = max(first, end)
        self._generations[store] = self._generations.get(store, 0) + 1
        return self.say(
            SegmentsPublished(
                TOPIC,
                0,
                store,
                incarnation=self.lives[store],
                lease=1,
                generation=self._generations[store],
                lineage=1,
                removed=(),
                added=added,
                grant=Granted(granted, granted, forgets),
                mcco=end,
                mxfo=end,
                at_ms=1000,
            )
        )

    def begin_life(self, store: int) -> None:
        """What it publishes from here on is of its next life."""
        self.lives[store] += 1
        self.begin_anew(store)

    def begin_anew(self, store: int) -> None:
        """Its replica is empty, and counts its generations from 1 on."""
        self._generations[store] = self._settled[store] = 0

    def doctor(self, number: int, **fields: object) -> None:
        """Let the publication in a frame say something else."""
        frame = self.frames[number - 1]
        (change,) = frame.changes
        assert isinstance(change, SegmentsPublished)
        self.frames[number - 1] = Frame(
            number=number,
            changes=[replace(change, **fields)],  # type: ignore[arg-type]  # any of its fields
        )

    def check(self, ledger: GrantLedger | None = None) -> Violation | None:
        """What a ledger finds, up to the first."""
        ledger = ledger or GrantLedger()
        return next((found for frame in self.frames if (found := ledger.follow(frame))), None)
