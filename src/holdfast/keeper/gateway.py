"""The keeper's way to the control plane: questions and answers in JSON, over whatever carries them.

Beside a running `holdfast up` that is its admin service; without one the keeper opens the directory itself and
asks the same desk directly.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from holdfast.keeper import messages
from holdfast.keeper.catch_up import CarriedPiece
from holdfast.keeper.collect import StoreFiles
from holdfast.keeper.limits import KeeperLimits
from holdfast.keeper.messages import (
    PUBLICATIONS_MAX,
    AllPublished,
    CarriedPublication,
    Extents,
    ExtentsWanted,
    FilesWanted,
    Freed,
    Leases,
    LeasesWanted,
    Publication,
    Publications,
    Published,
    StoreInfo,
    StoreNamed,
    Stores,
    Views,
    ViewsWanted,
)
from holdfast.keeper.plan import ReplicaView

FILES_MAX = 128
"""Segments that several publications may name together: what is asked over HTTP is bounded in bytes."""

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
        return self.lease_all([store]).get(store)

    def lease_all(self, stores: Sequence[int]) -> dict[int, int]:
        """The same for several stores in one frame: those that are to be had."""
        wanted = LeasesWanted(stores=list(stores), holder=self._holder)
        leases = messages.convert(self._ask("lease", messages.plain(wanted)), Leases).leases
        return {store: lease for store, lease in zip(stores, leases, strict=True) if lease is not None}

    def release(self, *stores: int) -> None:
        """Let others have the stores."""
        self._ask("release", messages.plain(LeasesWanted(stores=list(stores), holder=self._holder)))

    def list_views(self, store: int) -> Iterator[ReplicaView]:
        """The replicas of a store that may have something due."""
        after = None
        while True:
            wanted = ViewsWanted(store=store, after=after)
            page = messages.convert(self._ask("views", messages.plain(wanted)), Views)
            yield from page.views
            after = page.next
            if after is None:
                return

    def publish(self, publications: Sequence[Publication]) -> Iterator[str | None]:
        """Have rewrites take effect, as many in a frame as may be; for each, why it did not, if it did not.

        Frame by frame, so that whoever fails to reach the next one knows of those before.
        """
        for group in _cut(publications):
            answer = self._ask("publish", messages.plain(Publications(publications=group)))
            yield from messages.convert(answer, AllPublished).refused

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


def _cut(publications: Sequence[Publication]) -> Iterator[list[Publication]]:
    """In groups of bounded size; one that is too large for any group goes alone."""
    group: list[Publication] = []
    files = 0
    for publication in publications:
        named = len(publication.added) + len(publication.removed)
        if group and (len(group) == PUBLICATIONS_MAX or files + named > FILES_MAX):
            yield group
            group, files = [], 0
        group.append(publication)
        files += named
    if group:
        yield group
