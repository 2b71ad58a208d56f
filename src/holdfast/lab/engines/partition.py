"""Replication in the model: who leads, who is in sync, what a follower fetches, what is lost with a leader.

It is Kafka's: a follower fetches from its own log end, and notices a wrong turn by leader epochs only (R10).
Under coordination a replica also copies nothing before it has been given its start.
"""

from functools import partial

from holdfast.lab.coordination import Coordination
from holdfast.lab.engines.backup import Backup
from holdfast.lab.engines.engine import StepError
from holdfast.lab.engines.replica import Replica
from holdfast.rules.coordinated_policy import CoordinatedRules
from holdfast.rules.entry import Entry
from holdfast.rules.kafka_policy import KafkaRules
from holdfast.rules.policy import CompactionConfig


class Partition:
    """The replicas of one partition, and the history that a log without compaction would hold."""

    def __init__(self, *, replicas: int, config: CompactionConfig, coordinated: bool) -> None:
        self.config = config
        self.coordination = Coordination(replicas) if coordinated else None
        self.replicas = {number: self._new_replica(number) for number in range(1, replicas + 1)}
        self.isr = set(self.replicas)
        self.leader_id: int | None = None
        self.leader_epoch = 0
        self.history: list[Entry] = []
        """Every batch that was written and not lost with a leader, never compacted: the truth."""
        self.backups: dict[int, Backup] = {}
        self.elect(1, 0)

    def _new_replica(self, number: int) -> Replica:
        rules = (
            partial(KafkaRules, self.config)
            if self.coordination is None
            else partial(CoordinatedRules, self.config, self.coordination.nodes[number].record)
        )
        return Replica(id=number, config=self.config, new_rules=rules)

    def live(self, number: int) -> Replica:
        """A replica that is up, or StepError."""
        replica = self.replicas.get(number)
        if replica is None:
            raise StepError(f"there is no replica {number}")
        if not replica.alive:
            raise StepError(f"replica {number} is down")
        return replica

    @property
    def leader(self) -> Replica:
        """The leader, or StepError while the partition is offline."""
        if self.leader_id is None:
            raise StepError("the partition has no leader: nobody who was in sync is up")
        return self.replicas[self.leader_id]

    def append(self, entry: Entry) -> None:
        """The leader takes a batch; nobody else has it yet."""
        leader = self.leader
        leader.append(entry)
        if leader.halted is not None:
            raise StepError(f"replica {leader.id} stopped itself: {leader.halted}")
        self.history.append(entry)

    def replicate(self, now_ms: int) -> None:
        """acks=all: whoever is in sync fetches, and learns the high watermark with its next fetch."""
        for number in sorted(self.isr):
            self.fetch(self.replicas[number], None, now_ms)
        self._advance_high_watermark()

    def fetch(self, follower: Replica, batches: int | None, now_ms: int) -> None:
        """A follower takes up to `batches` from its own log end on; at the leader's end it is in sync."""
        leader = self.leader
        if follower is leader or not follower.alive or follower.halted is not None:
            return
        if self.coordination is not None and not self.coordination.may_fetch(follower.id):
            return
        if follower.followed_epoch != self.leader_epoch:
            _truncate_to_agreement(follower, leader)
            follower.followed_epoch = self.leader_epoch
        if not self._copy(leader, follower, batches):
            self._leave_isr(follower, now_ms)
        elif follower.log_end == leader.log_end:
            self.isr.add(follower.id)

    def _copy(self, leader: Replica, follower: Replica, batches: int | None) -> bool:
        """Whether the follower could follow; if not, it has stopped itself."""
        missing = leader.entries_from(follower.log_end)
        if self.coordination is not None and follower.log_end < leader.log_end:
            self.coordination.copied(leader.id, follower.id)
        for entry in missing[:batches]:
            follower.append(entry)
            if follower.halted is not None:
                return False
        if batches is None or len(missing) <= batches:
            follower.log_end = leader.log_end
        if self.coordination is not None:
            follower.follow_epochs(leader)
        follower.learn_high_watermark(leader.high_watermark)
        if follower.log_end == leader.log_end:
            follower.caught_up(leader.last_stable_offset)
        return follower.halted is None

    def await_isr(self, now_ms: int) -> None:
        """Everybody who is up catches up."""
        for replica in self.replicas.values():
            self.fetch(replica, None, now_ms)
        self._advance_high_watermark()

    def _advance_high_watermark(self) -> None:
        if self.leader_id is None:
            return
        leader = self.leader
        # A new leader knows nothing of a follower's log before its first fetch: it may have to truncate.
        following = [self.replicas[number] for number in self.isr if self._follows(number)]
        if len(following) == len(self.isr):
            leader.learn_high_watermark(min(replica.log_end for replica in following))
        for replica in following:
            replica.learn_high_watermark(leader.high_watermark)

    def _follows(self, number: int) -> bool:
        return self.replicas[number].followed_epoch == self.leader_epoch

    def may_lead(self, number: int) -> bool:
        """In sync, up, and not stopped by itself."""
        replica = self.replicas[number]
        return number in self.isr and replica.alive and replica.halted is None

    def elect(self, number: int, now_ms: int) -> None:
        """A new leader epoch; what only the old leader had is no part of the log any more."""
        leader = self.replicas[number]
        self.leader_id = number
        self.leader_epoch += 1
        leader.followed_epoch = self.leader_epoch
        self._adopt(leader)
        if self.coordination is not None:
            self.coordination.elect(number, now_ms)

    def _adopt(self, leader: Replica) -> None:
        """Make the history end as the leader's log does.

        What only others had, and was never acknowledged, is lost. What the leader still has of an earlier epoch,
        though a leader in between did not have it, counts again. Below the high watermark nothing changes.
        """
        known = {(entry.offset, entry.leader_epoch) for entry in self.history}
        final = max(replica.high_watermark for replica in self.replicas.values())
        extra: list[Entry] = []
        for entry in reversed(leader.entries):
            if entry.offset < final or (entry.offset, entry.leader_epoch) in known:
                break
            extra.insert(0, entry)
        end = extra[0].offset if extra else leader.log_end
        while self.history and self.history[-1].offset >= end:
            self.history.pop()
        self.history += extra

    def _leave_isr(self, replica: Replica, now_ms: int) -> None:
        """Out of the ISR, unless it is the last in it; a leader hands over to the lowest number in sync."""
        if len(self.isr) > 1:
            self.isr.discard(replica.id)
        if self.leader_id == replica.id:
            able = [number for number in sorted(self.isr) if self.may_lead(number)]
            self.leader_id = None
            if able:
                self.elect(able[0], now_ms)
        self._advance_high_watermark()

    def kill(self, replica: Replica, now_ms: int) -> None:
        """The process is gone, the disk stays."""
        replica.alive = False
        if self.coordination is not None:
            self.coordination.crash(replica.id)
        self._leave_isr(replica, now_ms)

    def restart(self, replica: Replica, now_ms: int) -> None:
        """The process is back with the disk that it had; it leads at once if it was the last in sync."""
        if self.coordination is not None:
            missed = self.coordination.missed_truncation(replica.id)
            if not self.coordination.restart(replica.id):
                raise StepError(f"replica {replica.id} has a disk of the past and must be wiped")
            if missed is not None:
                replica.truncate_to(missed)
        replica.alive = True
        replica.rules.expire(now_ms)
        if self.leader_id is None and self.may_lead(replica.id):
            self.elect(replica.id, now_ms)
            self._advance_high_watermark()

    def back_up(self, replica: Replica) -> None:
        """Lay a copy of the disk aside: the log, and under coordination what the manifest keeps with it."""
        node = self.coordination.nodes[replica.id] if self.coordination is not None else None
        self.backups[replica.id] = Backup.of(replica, node.state if node is not None else None)

    def put_back(self, number: int) -> None:
        """A replica that is down gets an old disk; what it alone had in sync may not be lost that way."""
        replica, backup = self.replicas.get(number), self.backups.get(number)
        if replica is None or backup is None or replica.alive or number in self.isr:
            raise StepError(f"replica {number} is not down, has no backup, or is the only one in sync")
        backup.restore(replica)
        if self.coordination is not None and backup.state is not None:
            self.coordination.nodes[number].record.state = backup.state

    def lag(self, replica: Replica, now_ms: int) -> None:
        """A follower falls behind; its process lives."""
        if replica.id == self.leader_id or replica.id not in self.isr:
            raise StepError(f"replica {replica.id} is no follower in sync")
        self._leave_isr(replica, now_ms)

    def join(self, number: int) -> None:
        """A new, empty member; it is recorded before it may fetch."""
        if number in self.replicas:
            raise StepError(f"replica {number} is a member already")
        if self.coordination is not None:
            self.coordination.join(number)
        self.replicas[number] = self._new_replica(number)

    def leave(self, number: int, now_ms: int) -> None:
        """A member goes for good, with its log."""
        replica = self.replicas.get(number)
        if replica is None or number == self.leader_id or self.isr == {number}:
            raise StepError(f"replica {number} is no member that could be spared")
        self.isr.discard(number)
        del self.replicas[number]
        if self.coordination is not None:
            self.coordination.leave(number)
        self._advance_high_watermark()

    def truncate(self, offset: int, now_ms: int) -> list[Entry]:
        """The operator's truncation, under a new leader epoch and lineage; returns what it cut off.

        Nothing is replicated before outcomes that were cut off with their markers are written again.
        """
        leader = self.leader
        if not 0 <= offset <= leader.log_end:
            raise StepError(f"offset {offset} is not in the log")
        cut = [entry for entry in self.history if entry.offset >= offset]
        leader.truncate_to(offset)
        if self.coordination is not None:
            self.coordination.truncate(offset, leader.id)
        for number in [number for number, replica in self.replicas.items() if replica.alive]:
            self._follow_truncation(number, offset, now_ms)
        if self.coordination is not None and not self.coordination.history.truncations[-1].whole:
            held = {entry.offset for entry in leader.entries}
            self.history[:] = [e for e in self.history if e.offset in held or e.marker is not None]
        self.elect(leader.id, now_ms)
        return cut

    def _follow_truncation(self, number: int, offset: int, now_ms: int) -> None:
        """Truncate too, or be rebuilt where that would not lead to the same log."""
        if self.coordination is None or self.coordination.follow_lineage(number):
            self.replicas[number].truncate_to(offset)
        else:
            self.leave(number, now_ms)
            self.join(number)


def _truncate_to_agreement(follower: Replica, leader: Replica) -> None:
    """Go back to where the leader epochs agree; holes that compaction left are invisible to this."""
    while follower.epochs:
        ours = follower.epochs[-1][0]
        theirs, end = leader.epoch_end(ours)
        _, our_end = follower.epoch_end(theirs)
        follower.truncate_to(min(end, our_end))
        if theirs == ours:
            return
        follower.epochs = [pair for pair in follower.epochs if pair[0] <= theirs]
    follower.truncate_to(0)
