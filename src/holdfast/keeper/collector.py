"""Gives space back, one store at a time: does what `collect.py` finds worth doing.

It may end at any point, and the next round begins anew with what it finds: each step leaves a store on which everything
is there that counts.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.keeper.carrying import carry_extents
from holdfast.keeper.catch_up import Carry
from holdfast.keeper.collect import Collection, StoreFiles, collect
from holdfast.keeper.gateway import Gateway
from holdfast.keeper.limits import KeeperLimits
from holdfast.store.carried import delete_carried
from holdfast.store.segments import delete_folder, delete_segment

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Collected:
    """What was given back, and what that took."""

    segments: int = 0
    carried: int = 0
    bytes_freed: int = 0
    bytes_carried: int = 0
    snapshots: int = 0
    carries_refused: int = 0


class Collector:
    """For one round. `lease` gives the lease of a store, None if another keeper has it."""

    def __init__(self, gateway: Gateway, limits: KeeperLimits, lease: Callable[[int], int | None]) -> None:
        self._gateway = gateway
        self._limits = limits
        self._lease = lease
        self.needs_snapshots = False
        """Whether journals of a store wait for snapshots. All stores get theirs: it can be made anew from any."""
        self.collected = Collected()

    def collect(self, store: int) -> None:
        """What there is to collect on a store, if there is anything; StoreFailed or AdminRefused."""
        hint = collect(self._gateway.find_files(store), self._limits)
        if not hint:
            return
        if hint.deletes_journals:
            # Before the lease: a disk may be so full that its frame finds no room.
            self._delete_journals(store)
        if hint.rolls:
            # Before the lease, too: its frame is the one that begins the next journal.
            self._gateway.roll(store)
        lease = self._lease(store)
        if lease is None:
            return
        files = self._gateway.find_files(store, lease)
        found = collect(files, self._limits)
        self._delete(files, found)
        if found.carry_below:
            self._carry(files, found.carry_below)
        self.needs_snapshots |= found.needs_snapshot
        self._delete_journals(store)

    def save_snapshot(self, store: int) -> None:
        """Have the control plane kept on a store that is in sync, and what waited for it deleted."""
        self._gateway.save_snapshot(store)
        self.collected.snapshots += 1
        logger.info("store %d: the control plane is saved", store)
        self._delete_journals(store)

    def _delete(self, files: StoreFiles, found: Collection) -> None:
        directory = Path(files.directory)
        freed_bytes = 0
        for file in found.segments:
            freed_bytes += delete_segment(directory, file)
        for number in found.carried:
            freed_bytes += delete_carried(directory, number)
        for folder in found.empty_folders:
            delete_folder(directory, folder)
        if found.segments or found.carried:
            logger.info(
                "store %d: %d segments and %d carried files deleted, %s bytes",
                *(files.store, len(found.segments), len(found.carried), f"{freed_bytes:,}"),
            )
        self.collected.segments += len(found.segments)
        self.collected.carried += len(found.carried)
        self.collected.bytes_freed += freed_bytes

    def _carry(self, files: StoreFiles, below: int) -> None:
        """File by file: what is carried is not listed again."""
        while pieces := self._gateway.list_live(files.store, below):
            carry = Carry(pieces=tuple(pieces))
            refused = carry_extents(
                self._gateway,
                carry,
                store=files.store,
                incarnation=files.incarnation,
                lease=files.lease,
                directory=files.directory,
            )
            if refused is not None:
                self.collected.carries_refused += 1
                logger.warning("store %d: what was carried is not taken: %s", files.store, refused)
                return
            self.collected.bytes_carried += carry.size_bytes
            logger.info(
                "store %d: %d extents carried out of journals before %d",
                *(files.store, len(pieces), below),
            )

    def _delete_journals(self, store: int) -> None:
        freed_bytes = self._gateway.delete_journals(store)
        self.collected.bytes_freed += freed_bytes
        if freed_bytes:
            logger.info("store %d: journals of %s bytes deleted", store, f"{freed_bytes:,}")
