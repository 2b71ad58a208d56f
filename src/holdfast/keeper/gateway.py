"""The keeper's way to the control plane: questions and answers in JSON, over whatever carries them.

Beside a running `holdfast up` that is its admin service; without one the keeper opens the directory itself and
asks the same desk directly.
"""

from collections.abc import Callable, Iterator
from typing import Any

from holdfast.keeper import messages
from holdfast.keeper.catch_up import CarriedPiece
from holdfast.keeper.collect import StoreFiles
from holdfast.keeper.limits import KeeperLimits
from holdfast.keeper.messages import (
    CarriedPublication,
    Extents,
    ExtentsWanted,
    FilesWanted,
    Freed,
    Leased,
    LeaseWanted,
    Publication,
    Published,
    StoreInfo,
    StoreNamed,
    Stores,
    Views,
    ViewsWanted,
)
from holdfast.keeper.plan import ReplicaView

Ask = Callable[[str, dict[str, Any]], Any]
"""Ask the desk: the name of the question, what it is about, and the answer, all plain JSON documents."""


def holder_name(pid: int) -> str:
    """What a keeper's process calls itself when it asks for a lease."""
    return f"keeper {pid}"


class Gateway:
    """One method per question that the desk answers (`agent/desk.py`)."""

    def __init__(self, ask: Ask, *, holder: str) -> None:
        self._ask = ask
        self._holder = holder

    def list_stores(self) -> list[StoreInfo]:
        """All stores, in order."""
        return messages.convert(self._ask("stores", {}), Stores).stores

    def find_limits(self) -> KeeperLimits:
        """The bounds on rewrites that are set for this log."""
        return messages.convert(self._ask("limits", {}), KeeperLimits)

    def lease(self, store: int) -> int | None:
        """The right to rewrite a store, taken or held on to; None while another keeper has it."""
        wanted = LeaseWanted(store=store, holder=self._holder)
        return messages.convert(self._ask("lease", messages.plain(wanted)), Leased).lease

    def release(self, store: int) -> None:
        """Let others have the store."""
        self._ask("release", messages.plain(LeaseWanted(store=store, holder=self._holder)))

    def list_views(self, store: int, lease: int) -> Iterator[ReplicaView]:
        """The replicas of a store that may have something due."""
        after = None
        while True:
            wanted = ViewsWanted(store=store, lease=lease, after=after)
            page = messages.convert(self._ask("views", messages.plain(wanted)), Views)
            yield from page.views
            after = page.next
            if after is None:
                return

    def publish(self, publication: Publication) -> str | None:
        """Have a rewrite take effect; why it did not, if it did not."""
        answer = self._ask("publish", messages.plain(publication))
        return messages.convert(answer, Published).refused

    def publish_carried(self, publication: CarriedPublication) -> str | None:
        """Have carried extents count; why they do not, if they do not."""
        answer = self._ask("carried", messages.plain(publication))
        return messages.convert(answer, Published).refused

    def find_files(self, store: int, lease: int | None = None) -> StoreFiles:
        """What there is to collect on a store; without a lease, a hint whether to take one."""
        wanted = FilesWanted(store=store, lease=lease)
        return messages.convert(self._ask("files", messages.plain(wanted)), StoreFiles)

    def list_live(self, store: int, below: int) -> list[CarriedPiece]:
        """What is in use in journals below one, as much as goes into one carried file."""
        wanted = ExtentsWanted(store=store, below=below)
        return messages.convert(self._ask("extents", messages.plain(wanted)), Extents).pieces

    def roll(self, store: int) -> None:
        """Have the store's next frame begin a new journal."""
        self._ask("roll", messages.plain(StoreNamed(store=store)))

    def save_snapshot(self, store: int) -> None:
        """Have the store keep the control plane as it is now, and one from before."""
        self._ask("snapshot", messages.plain(StoreNamed(store=store)))

    def delete_journals(self, store: int) -> int:
        """Have journals deleted that nobody needs, and what was deleted let go of; the bytes freed."""
        answer = self._ask("journals", messages.plain(StoreNamed(store=store)))
        return messages.convert(answer, Freed).freed_bytes

    def join(self, store: int) -> str | None:
        """Have a store that lacks nothing any more be in sync; why it is not, if it is not."""
        answer = self._ask("join", messages.plain(StoreNamed(store=store)))
        return messages.convert(answer, Published).refused
