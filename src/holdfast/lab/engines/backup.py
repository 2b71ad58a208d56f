"""A copy of a replica's disk, as an operator or a file system snapshot makes one."""

from dataclasses import dataclass

from holdfast.lab.engines.replica import Replica
from holdfast.rules.entry import Entry
from holdfast.rules.removal_replica import ReplicaState


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """What was on the disk: the log with its checkpoints, and what the manifest keeps with it."""

    entries: tuple[Entry, ...]
    epochs: tuple[tuple[int, int], ...]
    log_end: int
    high_watermark: int
    first_dirty: int
    state: ReplicaState | None

    @staticmethod
    def of(replica: Replica, state: ReplicaState | None) -> "Backup":
        """Copy what is there now."""
        return Backup(
            entries=tuple(replica.entries),
            epochs=tuple(replica.epochs),
            log_end=replica.log_end,
            high_watermark=replica.high_watermark,
            first_dirty=replica.first_dirty,
            state=state,
        )

    def restore(self, replica: Replica) -> None:
        """Replace the replica's log; what it knew beyond that is gone."""
        replica.epochs = list(self.epochs)
        replica.high_watermark = self.high_watermark
        replica.followed_epoch = -1
        replica.restart_from(self.entries, log_end=self.log_end, first_dirty=self.first_dirty)
