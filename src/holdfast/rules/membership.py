"""Who belongs to a partition's replica group, in which life, and in which version of the membership."""

from dataclasses import dataclass, replace
from typing import NewType

from holdfast.rules import fencing

ReplicaId = NewType("ReplicaId", int)
Incarnation = NewType("Incarnation", int)
Generation = NewType("Generation", int)
MembershipVersion = NewType("MembershipVersion", int)

NO_GENERATION = Generation(0)
NO_MEMBERSHIP = MembershipVersion(0)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Replica:
    """One life of one replica: a wiped or rebuilt store comes back under the next incarnation."""

    id: ReplicaId
    incarnation: Incarnation

    def __str__(self) -> str:
        return f"{self.id}.{self.incarnation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to copy, serve and report, held by one incarnation at its newest manifest generation."""

    replica: Replica
    generation: Generation

    def renew(self, replica: Replica, generation: Generation) -> "Lease | None":
        """The lease at `generation`, or None: another life, or a store put back to an older manifest.

        Such a store has forgotten what it reported; it must be wiped and join under a new incarnation.
        """
        if fencing.other_replica(replica, self.replica):
            return None
        if fencing.stale_generation(generation, self.generation):
            return None
        return replace(self, generation=generation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """The replicas that count, learners included; a change is a conditional write on `version`.

    A change is recorded before it has any effect: a joining replica is in here before its first byte is
    copied.
    """

    version: MembershipVersion
    replicas: tuple[Replica, ...]
    incarnations: tuple[tuple[ReplicaId, Incarnation], ...]

    @staticmethod
    def found(count: int, *, first: int = 1) -> "Membership":
        """The first membership of a new partition: `count` replicas in their first life."""
        replicas = tuple(
            Replica(id=ReplicaId(number), incarnation=Incarnation(1))
            for number in range(first, first + count)
        )
        used = tuple((replica.id, replica.incarnation) for replica in replicas)
        return Membership(version=MembershipVersion(1), replicas=replicas, incarnations=used)

    def __contains__(self, replica: object) -> bool:
        return replica in self.replicas

    def current(self, id_: ReplicaId) -> Replica | None:
        """The life under which `id_` is a member now, if it is one."""
        return next((replica for replica in self.replicas if replica.id == id_), None)

    def join(self, id_: ReplicaId) -> "Membership":
        """Admit `id_` under an incarnation that was never used; a present life of it is replaced."""
        used = dict(self.incarnations)
        life = Replica(id=id_, incarnation=Incarnation(used.get(id_, 0) + 1))
        used[id_] = life.incarnation
        others = tuple(replica for replica in self.replicas if replica.id != id_)
        return Membership(
            version=MembershipVersion(self.version + 1),
            replicas=tuple(sorted((*others, life))),
            incarnations=tuple(sorted(used.items())),
        )

    def leave(self, id_: ReplicaId) -> "Membership":
        """Remove or fence `id_`: it stops counting at once, and can only come back through `join`."""
        remaining = tuple(replica for replica in self.replicas if replica.id != id_)
        return replace(self, version=MembershipVersion(self.version + 1), replicas=remaining)
