"""Stores in the SQLite control plane: they fail, come back, are fenced, begin another life, and take on partitions."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.control.replica_rules import KeptReplica, check_assignment
from holdfast.control.replicas import StorePhase
from holdfast.control.sqlite_replicas import PlaceOf, ReplicaRows
from holdfast.control.sqlite_segments import SegmentTable, lies_on
from holdfast.control.sqlite_topics import TopicTable
from holdfast.errors import CommitRefused
from holdfast.store.replica_changes import (
    NO_TIME,
    KeeperLeased,
    ReplicasAssigned,
    StoreAdded,
    StoreFenced,
    StoreJoined,
    StoreJoining,
    StoreLeft,
    StoreRebuilt,
)


class StoreTable:
    """Applies what frames say of stores, and what is known of their failures before a frame says so."""

    def __init__(
        self, writer: sqlite3.Connection, topics: TopicTable, rows: ReplicaRows, segments: SegmentTable
    ) -> None:
        self._writer = writer
        self._topics = topics
        self._rows = rows
        self._segments = segments

    def lease(self, change: KeeperLeased) -> None:
        """To the next keeper."""
        self._rows.put_store(self._rows.get_store(change.store).leased(change.lease))

    def add(self, change: StoreAdded) -> None:
        """A new store."""
        self._writer.execute("INSERT OR IGNORE INTO stores (store) VALUES (?)", (change.store,))

    def lose(self, stores: Sequence[int], begun: Mapping[PlaceOf, int] | None) -> None:
        """The stores failed: what they hold ends where the frame begins that they lack.

        `begun`: where the partitions begin that it holds something of; None if nobody knows which frame it is. Then
        they lack whatever has no place on them.
        """
        for store in stores:
            known = self._rows.find_store(store)
            if known is None or not known.is_written:
                continue
            for place, replica, start, end in self._rows.on_store(store):
                held = replica.held(start, end)
                if held == end:
                    held = (
                        self._find_hole(place, store, replica, end)
                        if begun is None
                        else begun.get(place, end)
                    )
                self._rows.put(place, store, replica.left(held))
            self._rows.put_store(replace(known, phase=StorePhase.LOST))

    def leave(self, change: StoreLeft) -> None:
        """A frame says so: what the store holds is what it says, and all of the partitions that it does not name."""
        store = self._rows.find_store(change.store)
        if store is None or store.phase is StorePhase.FENCED:
            return
        if change.held is None:
            self.lose([change.store], None)
        else:
            said = {
                (self._topics.find(topic_id), number): held_to for topic_id, number, held_to in change.held
            }
            for place, replica, start, end in self._rows.on_store(change.store):
                left = replica.left_with(said.get(place), start, end, store.phase)
                self._rows.put(place, change.store, left)
        self._rows.put_store(replace(store, phase=StorePhase.AWAY))

    def come(self, change: StoreJoining) -> None:
        """A store that was away is given every frame from the next one on."""
        self._rows.put_store(self._rows.get_store(change.store).came(change.incarnation))
        for place, replica, _, end in self._rows.on_store(change.store):
            self._rows.put(place, change.store, replica.came(end))

    def join(self, change: StoreJoined) -> None:
        """It has everything, and so has each of its replicas."""
        replicas = self._rows.on_store(change.store)
        behind = sum(replica.held(start, end) < end for _, replica, start, end in replicas)
        self._rows.put_store(self._rows.get_store(change.store).joined(behind))
        for place, replica, _, _ in replicas:
            self._rows.put(place, change.store, replica.joined())

    def fence(self, change: StoreFenced) -> None:
        """Its replicas count no longer."""
        self._rows.put_store(self._rows.get_store(change.store).fenced())
        for place, replica, start, end in self._rows.on_store(change.store):
            self._rows.put(place, change.store, replica.left(replica.held(start, end)))
            self._rows.recompute(place, change.at_ms, regroup=True)

    def rebuild(self, change: StoreRebuilt) -> None:
        """Its next life: empty, and a member at once."""
        self._rows.put_store(self._rows.get_store(change.store).rebuilt(change.incarnation))
        self._writer.execute(
            "UPDATE stores SET frame = 0, journal = NULL, position = NULL WHERE store = ?", (change.store,)
        )
        for place, _, start, end in self._rows.on_store(change.store):
            self._enter_group(place, change.store, start, end)
            self._rows.recompute(place, NO_TIME, regroup=True)

    def assign(self, change: ReplicasAssigned) -> None:
        """Other stores for a partition."""
        place = (self._topics.get(change.topic_id), change.partition)
        row = self._writer.execute(
            "SELECT replicas, leader, log_start, log_end FROM partitions WHERE topic = ? AND partition = ?",
            place,
        ).fetchone()
        if row is None:
            raise CommitRefused(f"there is no {change.topic_id}/{change.partition}")
        replicas, leader, start, end = row
        check_assignment(change, leader)
        before = json.loads(replicas)
        for store in change.replicas:
            if store not in before:
                self._rows.get_store(store).check_newcomer()
                self._enter_group(place, store, start, end)
        for store in before:
            if store not in change.replicas:
                self._rows.remove(place, store)
                self._segments.drop(place, store)
        self._writer.execute(
            "UPDATE partitions SET replicas = ?, adding = ?, removing = ? WHERE topic = ? AND partition = ?",
            (*map(json.dumps, (change.replicas, change.adding, change.removing)), *place),
        )
        self._rows.recompute(place, change.at_ms, regroup=True)

    def _enter_group(self, place: PlaceOf, store: int, start: int, end: int) -> None:
        """An empty replica; nothing counts that lay on the store before."""
        self._segments.drop(place, store)
        self._rows.put(place, store, self._rows.get_group(place).newcomer(start, end))

    def _find_hole(self, place: PlaceOf, store: int, replica: KeptReplica, end: int) -> int:
        """Where the newest extents begin that have no place on the store."""
        rows = self._writer.execute(
            "SELECT first_offset, places FROM extents WHERE topic = ? AND partition = ? AND last_offset >= ?"
            " ORDER BY last_offset DESC",
            (*place, replica.settled_to),
        )
        for first, places in rows:
            if lies_on(places, store):
                break
            end = max(first, replica.settled_to)
        return end
