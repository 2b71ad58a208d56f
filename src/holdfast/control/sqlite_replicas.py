"""Rows of stores, replicas and their groups in the SQLite control plane, inside of the transaction of a frame."""

import sqlite3
from collections.abc import Iterable
from typing import Final

import msgspec

from holdfast.control.coordination import COORDINATED, Coordination
from holdfast.control.replica_rules import KeptGroup, KeptReplica, KeptStore, founding
from holdfast.control.replicas import StorePhase
from holdfast.errors import CommitRefused
from holdfast.rules.grace import Coverage
from holdfast.rules.removal import Removable

PHASES = (
    StorePhase.IN_SYNC,
    StorePhase.LOST,
    StorePhase.AWAY,
    StorePhase.JOINING,
    StorePhase.FENCED,
)
"""By the number that stands for each in the column `phase`."""

GROUP_COLUMNS = "lineage, membership, mtro, mxro, coverage, extents_from, trimmed_to"
REPLICA_COLUMNS = "generation, settled_to, held_to, joined_from, mcco, mxfo, clean_coverage"

IS_MEMBER = f"coalesce(phase, 0) <> {PHASES.index(StorePhase.FENCED)}"
"""Of a row of `replicas` with that of its store: whether it counts."""

PlaceOf = tuple[int, int]
"""A topic's number and a partition."""

_COVERAGE: Final = msgspec.json.Decoder(tuple[tuple[int, int], ...])


class ReplicaRows:
    """Reads and writes the rows; what they should say is decided in `replica_rules`."""

    def __init__(self, writer: sqlite3.Connection, coordination: Coordination = COORDINATED) -> None:
        self._writer = writer
        self._coordination = coordination

    def find_store(self, store: int) -> KeptStore | None:
        """A store, if it is known."""
        row = self._writer.execute(
            "SELECT incarnation, lease, phase FROM stores WHERE store = ?", (store,)
        ).fetchone()
        return row and KeptStore(store=store, incarnation=row[0], lease=row[1], phase=PHASES[row[2]])

    def get_store(self, store: int) -> KeptStore:
        """The same; CommitRefused if it is not known."""
        found = self.find_store(store)
        if found is None:
            raise CommitRefused(f"there is no store {store}")
        return found

    def put_store(self, store: KeptStore) -> None:
        """A store that is known, as it is from here on."""
        self._writer.execute(
            "UPDATE stores SET incarnation = ?, lease = ?, phase = ? WHERE store = ?",
            (store.incarnation, store.lease, PHASES.index(store.phase), store.store),
        )

    def found(self, topic: int, partition: int, stores: Iterable[int]) -> None:
        """A new partition."""
        self._writer.execute("INSERT INTO removals VALUES (?, ?, 1, 1, 0, 0, '[]', 0, 0)", (topic, partition))
        for store in stores:
            known = self.find_store(store)
            self.put((topic, partition), store, founding(None if known is None else known.phase))

    def find(self, place: PlaceOf, store: int) -> KeptReplica | None:
        """The replica of a partition on a store, if it has one."""
        row = self._writer.execute(
            f"SELECT {REPLICA_COLUMNS} FROM replicas WHERE topic = ? AND partition = ? AND store = ?",  # noqa: S608
            (*place, store),
        ).fetchone()
        return row and read_replica(row)

    def put(self, place: PlaceOf, store: int, replica: KeptReplica) -> None:
        """A replica as it is from here on."""
        self._writer.execute(
            "INSERT OR REPLACE INTO replicas VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *place,
                store,
                replica.generation,
                replica.settled_to,
                replica.held_to,
                replica.joined_from,
                replica.mcco,
                replica.mxfo,
                write_coverage(replica.clean_coverage),
            ),
        )

    def remove(self, place: PlaceOf, store: int) -> None:
        """The store holds the partition no longer."""
        self._writer.execute(
            "DELETE FROM replicas WHERE topic = ? AND partition = ? AND store = ?", (*place, store)
        )

    def on_store(self, store: int) -> list[tuple[PlaceOf, KeptReplica, int, int]]:
        """(partition, replica, log start, log end) of everything on a store."""
        rows = self._writer.execute(
            f"SELECT topic, partition, log_start, log_end, {REPLICA_COLUMNS}"  # noqa: S608 (a constant)
            " FROM replicas CROSS JOIN partitions USING (topic, partition) WHERE store = ?",
            (store,),
        ).fetchall()
        return [((row[0], row[1]), read_replica(row[4:]), row[2], row[3]) for row in rows]

    def get_group(self, place: PlaceOf) -> KeptGroup:
        """A partition's replicas together."""
        row = self._writer.execute(
            f"SELECT {GROUP_COLUMNS} FROM removals WHERE topic = ? AND partition = ?",  # noqa: S608
            place,
        ).fetchone()
        return read_group(row)

    def recompute(
        self, place: PlaceOf, at_ms: int, group: KeptGroup | None = None, *, regroup: bool = False
    ) -> None:
        """The group's values, after what a member has reported or after the members have changed.

        `group`: as it was before, if it has been read already.
        """
        rows = self._writer.execute(
            f"SELECT store, phase, {REPLICA_COLUMNS} FROM replicas LEFT JOIN stores USING (store)"  # noqa: S608
            f" WHERE topic = ? AND partition = ? AND {IS_MEMBER}",
            place,
        ).fetchall()
        members = {row[0]: read_replica(row[2:]) for row in rows}
        phases = {row[0]: None if row[1] is None else PHASES[row[1]] for row in rows}
        counted = [store for store, phase in phases.items() if self._coordination.counts(phase)]
        group = group or self.get_group(place)
        recompute = group.regrouped if regroup else group.recomputed
        group = recompute(members, at_ms, counted)
        self._writer.execute(
            "INSERT OR REPLACE INTO removals VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *place,
                group.lineage,
                group.membership,
                group.removable.mtro,
                group.removable.mxro,
                write_coverage(group.coverage),
                group.extents_from,
                group.trimmed_to,
            ),
        )


def read_replica(row: tuple[int, int, int | None, int | None, int, int, str]) -> KeptReplica:
    """The columns REPLICA_COLUMNS."""
    return KeptReplica(
        generation=row[0],
        settled_to=row[1],
        held_to=row[2],
        joined_from=row[3],
        mcco=row[4],
        mxfo=row[5],
        clean_coverage=read_coverage(row[6]),
    )


def read_group(row: tuple[int, int, int, int, str, int, int]) -> KeptGroup:
    """The columns GROUP_COLUMNS."""
    return KeptGroup(
        lineage=row[0],
        membership=row[1],
        removable=Removable(mtro=row[2], mxro=row[3]),
        coverage=read_coverage(row[4]),
        extents_from=row[5],
        trimmed_to=row[6],
    )


def read_coverage(column: str) -> Coverage:
    """A coverage as its column has it."""
    return Coverage(entries=_COVERAGE.decode(column))


def write_coverage(coverage: Coverage) -> str:
    """The column."""
    return msgspec.json.encode(coverage.entries).decode()
