"""One round over all stores: see what is due, do it, publish it."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.control.replicas import StorePhase
from holdfast.errors import HoldfastError
from holdfast.keeper.gateway import Gateway
from holdfast.keeper.messages import Publication
from holdfast.keeper.plan import Plan, ReplicaView, plan
from holdfast.keeper.runner import Runner
from holdfast.keeper.work import Rewrite

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.2
"""How often somebody who waits for a store asks for it."""

ChooseRunner = Callable[[int], Runner]
"""Given the bytes of a round: where it runs."""


@dataclass(slots=True)
class RoundReport:
    """What a round did."""

    rewrites: int = 0
    refused: int = 0
    failed: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    stores_skipped: list[int] = field(default_factory=list)


class Round:
    """Works through all stores that it can get a lease for, then lets them go."""

    def __init__(
        self,
        gateway: Gateway,
        choose_runner: ChooseRunner,
        *,
        waits: bool = False,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        self._gateway = gateway
        self._choose_runner = choose_runner
        self._waits = waits
        self._on_progress = on_progress
        self._limits = gateway.find_limits()
        self.leased: list[int] = []
        """The stores that it has a lease for."""
        self.report = RoundReport()

    def run(self) -> RoundReport:
        """All that is due now, once."""
        due: list[tuple[ReplicaView, Plan]] = []
        try:
            for store in self._gateway.list_stores():
                if store.phase in (StorePhase.IN_SYNC, StorePhase.JOINING):
                    due += self._plan(store.store)
            if due:
                self._rewrite(due)
        finally:
            while self.leased:
                self._gateway.release(self.leased.pop())
        return self.report

    def _plan(self, store: int) -> Iterator[tuple[ReplicaView, Plan]]:
        """Look first, so that a store where nothing is due costs no lease."""
        if not any(plan(view, self._limits) for view in self._gateway.list_views(store, 0)):
            return
        lease = self._gateway.lease(store)
        while lease is None and self._waits:
            time.sleep(POLL_SECONDS)
            lease = self._gateway.lease(store)
        if lease is None:
            self.report.stores_skipped.append(store)
            return
        self.leased.append(store)
        for view in self._gateway.list_views(store, lease):
            if (planned := plan(view, self._limits)) is not None:
                yield view, planned

    def _rewrite(self, due: Sequence[tuple[ReplicaView, Plan]]) -> None:
        items = [planned.item for _, planned in due]
        total = sum(item.size_bytes * (2 if item.compacts else 1) for item in items)
        done = 0

        def advance(size_bytes: int) -> None:
            nonlocal done
            done += size_bytes
            self._on_progress(done, total)

        runner = self._choose_runner(sum(item.size_bytes for item in items))
        for number, result in runner.run(items, advance):
            view, planned = due[number]
            name = f"{view.topic}/{view.partition} on store {view.store}"
            if isinstance(result, HoldfastError):
                self.report.failed += 1
                logger.error("%s is not rewritten: %s", name, result)
                continue
            refused = self._gateway.publish(_publication(view, planned, result))
            if refused is not None:
                self.report.refused += 1
                logger.warning("%s: the rewrite is not taken: %s", name, refused)
                continue
            self.report.rewrites += 1
            self.report.bytes_read += result.counts["bytes_read"]
            self.report.bytes_written += result.counts["bytes_written"]
            logger.info("%s is %s", name, _describe(planned, result))


def _publication(view: ReplicaView, planned: Plan, result: Rewrite) -> Publication:
    grant = planned.grant
    return Publication(
        topic_id=view.topic_id,
        partition=view.partition,
        store=view.store,
        incarnation=view.manifest.incarnation,
        lease=view.lease,
        generation=view.manifest.generation + 1,
        lineage=grant.lineage,
        removed=list(result.removed),
        added=list(result.added),
        grant=[grant.mtro, grant.mxro, grant.tombstones_end],
        mcco=planned.mcco,
        mxfo=planned.mxfo,
    )


def _describe(planned: Plan, result: Rewrite) -> str:
    counts = result.counts
    done = "compacted" if planned.item.compacts else "settled"
    return (
        f"{done} up to {planned.item.end}: {counts['records_kept']:,} records kept,"
        f" {counts['bytes_read']:,} bytes read, {counts['bytes_written']:,} written"
    )
