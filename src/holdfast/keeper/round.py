"""One round over all stores: see what is due, do it, publish it; then give back the space that nobody needs."""

import logging
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from holdfast.control.replicas import StorePhase
from holdfast.errors import ConnectionFailed, CorruptData, HoldfastError, OutcomeMissing, StoreFailed
from holdfast.keeper.carrying import carry_extents
from holdfast.keeper.catch_up import Carry, is_behind, next_step
from holdfast.keeper.collector import Collected, Collector
from holdfast.keeper.gateway import Gateway
from holdfast.keeper.limits import KeeperLimits
from holdfast.keeper.messages import Publication, StoreInfo
from holdfast.keeper.plan import Plan, ReplicaView, plan
from holdfast.keeper.runner import Runner
from holdfast.keeper.work import Rewrite

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.2
"""How often somebody who waits for a store asks for it."""

Choose = Callable[[ReplicaView, KeeperLimits], "Plan | Carry | None"]
Due = tuple[ReplicaView, "Plan | Carry"]

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
    stores_joined: list[int] = field(default_factory=list)
    collected: Collected = field(default_factory=Collected)

    @property
    def did_anything(self) -> bool:
        """Whether the next round may find more to do because of it."""
        return bool(self.rewrites or self.stores_joined) or self.collected != Collected()


class Round:
    """Works through all stores that it can get a lease for, or through `stores` alone, then lets them go."""

    def __init__(
        self,
        gateway: Gateway,
        choose_runner: ChooseRunner,
        *,
        waits: bool = False,
        stores: Container[int] | None = None,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        self._gateway = gateway
        self._choose_runner = choose_runner
        self._waits = waits
        self._stores = stores
        self._on_progress = on_progress
        self._limits = gateway.find_limits()
        self.leased: list[int] = []
        """The stores that it has a lease for."""
        self.report = RoundReport()
        self._stopped: OutcomeMissing | None = None

    def run(self) -> RoundReport:
        """All that is due now, once; stores that are joining are brought along until nothing more can be done."""
        looked_at: list[_Seen] = []
        has_waited = self._waits
        try:
            for store in self._list_stores():
                seen = self._look(store.store, plan) if store.phase is StorePhase.IN_SYNC else None
                if store.phase is StorePhase.JOINING or (seen is not None and seen.has_joining):
                    self._catch_up(store)
                    has_waited = True
                elif seen is not None:
                    looked_at.append(seen)
            if due := _rewrites(self._claim(looked_at, plan, looks_again=has_waited)):
                self._rewrite(due)
            self._collect()
        finally:
            leased, self.leased = self.leased, []
            if leased:
                self._gateway.release(*leased)
        if self._stopped is not None:
            raise self._stopped
        return self.report

    def _list_stores(self) -> list[StoreInfo]:
        chosen = self._stores
        return [store for store in self._gateway.list_stores() if chosen is None or store.store in chosen]

    def _look(self, store: int, choose: Choose) -> "_Seen":
        """All that there is to do on a store."""
        seen = _Seen(store=store)
        for view in self._gateway.list_views(store):
            seen.has_joining |= view.manifest.joined_from is not None
            if (planned := self._choose(choose, view)) is not None:
                seen.due.append((view, planned))
        return seen

    def _claim(self, looked_at: Sequence["_Seen"], choose: Choose, *, looks_again: bool) -> Iterator[Due]:
        """What is due, under leases, which a store where nothing is due does not cost.

        For rewrites what was seen a moment ago is good enough: should another keeper have published one since, the
        replica is at another generation, and what comes of this is refused. After a longer time, look again.
        """
        wanted = {seen.store: seen for seen in looked_at if seen.due}
        for store, lease in self._lease_all(list(wanted)).items():
            if looks_again:
                wanted[store] = self._look(store, choose)
            yield from (_leased(view, planned, lease) for view, planned in wanted[store].due)

    def _choose(self, choose: Choose, view: ReplicaView) -> "Plan | Carry | None":
        """A replica that lacks an outcome stops, and is told of at the end of the round; the others go on."""
        try:
            return choose(view, self._limits)
        except OutcomeMissing as stop:
            self._stopped = OutcomeMissing(f"{_name(view)} has stopped: {stop}")
            return None

    def _lease(self, store: int) -> int | None:
        """The store's lease until the end of the round; None if another keeper has it."""
        return self._lease_all([store]).get(store)

    def _lease_all(self, stores: Sequence[int]) -> dict[int, int]:
        """The leases of those that no other keeper has, taken together.

        Who waits takes one after the other, in order: two that each had what the other wants would wait for ever.
        """
        if self._waits:
            return {store: self._wait_for(store) for store in stores}
        leases = self._gateway.lease_all(stores) if stores else {}
        for store in stores:
            _note(self.leased if store in leases else self.report.stores_skipped, store)
        return leases

    def _wait_for(self, store: int) -> int:
        while (lease := self._gateway.lease(store)) is None:
            time.sleep(POLL_SECONDS)
        _note(self.leased, store)  # at once: it is renewed while the next one is waited for
        return lease

    def _collect(self) -> None:
        """After the rewrites, which leave most of what there is to collect; a store that fails harms no other."""
        collector = Collector(self._gateway, self._limits, self._lease)
        self.report.collected = collector.collected
        stores = self._list_stores()
        for store in stores:
            if store.phase in (StorePhase.IN_SYNC, StorePhase.JOINING):
                with self._failing_alone(f"store {store.store}: space is not given back"):
                    collector.collect(store.store)
        for store in stores:
            if collector.needs_snapshots and store.phase is StorePhase.IN_SYNC:
                with self._failing_alone(f"store {store.store}: the control plane is not saved"):
                    collector.save_snapshot(store.store)

    @contextmanager
    def _failing_alone(self, what: str) -> Iterator[None]:
        try:
            yield
        except ConnectionFailed:
            raise
        except HoldfastError as failure:
            self.report.failed += 1
            logger.error("%s: %s", what, failure)

    def _catch_up(self, store: StoreInfo) -> None:
        """Step by step, until the store has everything or nobody has more for it."""
        while steps := self._find_steps(store.store):
            rewrites = _rewrites(steps)
            moved = self._rewrite(rewrites) if rewrites else 0
            for view, step in steps:
                if isinstance(step, Carry):
                    moved += self._carry(view, step)
            if not moved:
                return
        if (refused := self._gateway.join(store.store)) is not None:
            logger.warning("store %d is not in sync yet: %s", store.store, refused)
            return
        self.report.stores_joined.append(store.store)
        logger.info("store %d has everything and is in sync", store.store)

    def _find_steps(self, store: int) -> list[Due]:
        seen = self._look(store, _step_if_behind)
        return list(self._claim([seen], _step_if_behind, looks_again=True))

    def _carry(self, view: ReplicaView, carry: Carry) -> bool:
        name = _name(view)
        try:
            refused = carry_extents(
                self._gateway,
                carry,
                store=view.store,
                incarnation=view.manifest.incarnation,
                lease=view.lease,
                directory=view.directory,
            )
        except (StoreFailed, CorruptData) as failure:
            self.report.failed += 1
            logger.error("%s: extents are not copied: %s", name, failure)
            return False
        if refused is not None:
            self.report.refused += 1
            logger.warning("%s: what was copied is not taken: %s", name, refused)
            return False
        logger.info("%s: %d bytes copied, up to %d", name, carry.size_bytes, carry.pieces[-1].last + 1)
        return True

    def _rewrite(self, due: Sequence[tuple[ReplicaView, Plan]]) -> int:
        """How many were published."""
        items = [planned.item for _, planned in due]
        total = sum(item.size_bytes * (2 if item.compacts else 1) for item in items)
        done = published = 0

        def advance(size_bytes: int) -> None:
            nonlocal done
            done += size_bytes
            self._on_progress(done, total)

        runner = self._choose_runner(sum(item.size_bytes for item in items))
        for group in runner.run(items, advance):
            rewrites: list[tuple[ReplicaView, Plan, Rewrite]] = []
            for number, result in group:
                if isinstance(result, HoldfastError):
                    self.report.failed += 1
                    logger.error("%s is not rewritten: %s", _name(due[number][0]), result)
                else:
                    rewrites.append((*due[number], result))
            published += self._publish(rewrites)
        return published

    def _publish(self, rewrites: Sequence[tuple[ReplicaView, Plan, Rewrite]]) -> int:
        """How many were taken; one that is refused harms no other."""
        taken = 0
        answers = self._gateway.publish([_publication(*each) for each in rewrites])
        for (view, planned, rewrite), refused in zip(rewrites, answers, strict=True):
            if refused is not None:
                self.report.refused += 1
                logger.warning("%s: the rewrite is not taken: %s", _name(view), refused)
                continue
            self.report.rewrites += 1
            self.report.bytes_read += rewrite.counts["bytes_read"]
            self.report.bytes_written += rewrite.counts["bytes_written"]
            taken += 1
            logger.info("%s is %s", _name(view), _describe(planned, rewrite))
        return taken


@dataclass(slots=True, kw_only=True)
class _Seen:
    """What there is to do on a store."""

    store: int
    due: list[Due] = field(default_factory=list)
    has_joining: bool = False
    """Whether a replica there has yet to be in sync."""


def _leased(view: ReplicaView, planned: "Plan | Carry", lease: int) -> Due:
    if isinstance(planned, Plan):
        planned = replace(planned, item=replace(planned.item, lease=lease))
    return replace(view, lease=lease), planned


def _note(known: list[int], store: int) -> None:
    if store not in known:
        known.append(store)


def _rewrites(due: Iterable[Due]) -> list[tuple[ReplicaView, Plan]]:
    return [(view, planned) for view, planned in due if isinstance(planned, Plan)]


def _step_if_behind(view: ReplicaView, limits: KeeperLimits) -> Plan | Carry | None:
    return next_step(view, limits) if is_behind(view) else None


def _name(view: ReplicaView) -> str:
    return f"{view.topic}/{view.partition} on store {view.store}"


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
