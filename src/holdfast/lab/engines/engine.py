"""What an account needs of whatever runs a scenario: the steps, and what can be seen of the replicas after them."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from holdfast.lab import steps
from holdfast.rules.entry import Entry, Isolation
from holdfast.rules.policy import Pass
from holdfast.rules.removal import Removable
from holdfast.rules.transaction import Outcome

POLICIES = ("kafka", "coordinated")
REPLICAS_MAX = 9


class StepError(Exception):
    """The step cannot be taken in this state; nothing has changed."""


class SeenReplica(Protocol):
    """One replica, from outside."""

    @property
    def id(self) -> int:
        """Its number."""

    @property
    def alive(self) -> bool:
        """Whether it is up."""

    @property
    def halted(self) -> str | None:
        """Why it stopped itself, if it did."""

    @property
    def entries(self) -> Sequence[Entry]:
        """What is on its disk, in order."""

    @property
    def log_end(self) -> int:
        """The offset after its last."""

    @property
    def high_watermark(self) -> int:
        """Where readers of everything stop."""

    @property
    def last_stable_offset(self) -> int:
        """Where readers of committed records stop."""

    @property
    def tombstones_removed(self) -> int:
        """Deletes that it has forgotten."""

    @property
    def outcomes_removed(self) -> int:
        """Outcomes that are forgotten as far as it is concerned."""

    def read(self, isolation: Isolation) -> list[Entry]:
        """What a consumer of this replica is given, from the beginning."""

    def table(self) -> dict[str, Entry]:
        """The keys and newest values that a read_committed consumer ends up with."""

    def outcome(self, entry: Entry) -> Outcome:
        """How this replica reads a data batch's transaction; plain data counts as committed. OutcomeMissing."""


class Engine(Protocol):
    """One partition under one policy."""

    @property
    def name(self) -> str:
        """What `--engine` calls it."""

    @property
    def policy(self) -> str:
        """Who compacts: one of POLICIES."""

    @property
    def now_ms(self) -> int:
        """Time that has passed in the scenario."""

    @property
    def passes(self) -> list[tuple[int, Pass]]:
        """Compaction passes, by replica, since the reader of this list last cleared it."""

    @property
    def replicas(self) -> Mapping[int, SeenReplica]:
        """The members, by number."""

    @property
    def leader_id(self) -> int | None:
        """Who leads; None while nobody who was in sync is up."""

    @property
    def in_sync(self) -> AbstractSet[int]:
        """The members that are in sync."""

    @property
    def history(self) -> Sequence[Entry]:
        """Every batch that was written and not lost with a leader, never compacted: the truth."""

    def apply(self, step: steps.Step) -> None:
        """Take one step, or raise StepError and change nothing."""

    def removable(self, number: int) -> Removable | None:
        """MTRO and MXRO as far as they have reached a replica, under a policy that has them."""

    def producer_name(self, producer_id: int) -> str:
        """What the scenario calls a transactional producer."""
