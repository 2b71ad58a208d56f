"""Do the replicas show what was written? And if not, which of Kafka's four harms is it?

Judged from what each replica shows, against the history that nobody compacts; never from a scenario's name.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.errors import OutcomeMissing
from holdfast.lab.engines.engine import Engine, SeenReplica
from holdfast.lab.oracle import Oracle, Snapshot
from holdfast.rules.entry import Entry, Isolation
from holdfast.rules.transaction import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One way in which a replica shows something else than what was written."""

    replica: int
    about: str
    """What is wrong: a key, or the LSO. The same thing found again later is no new finding."""
    variant: str | None
    what: str


def judge(engine: Engine) -> list[Finding]:
    """Every difference between the truth and a replica that is up and has caught up."""
    if engine.leader_id is None:
        return []
    leader = engine.replicas[engine.leader_id]
    truth = Oracle(engine.history).at(leader.high_watermark)
    return [
        finding
        for replica in engine.replicas.values()
        if replica.alive
        and replica.halted is None
        and (replica.log_end, replica.high_watermark) == (leader.log_end, leader.high_watermark)
        for finding in findings(replica, truth)
    ]


def findings(replica: SeenReplica, truth: Snapshot) -> Iterator[Finding]:
    """What one replica shows that is not so; a stuck one is not asked for more."""
    if replica.last_stable_offset != truth.last_stable_offset:
        yield _stable_finding(replica, truth.last_stable_offset)
        return
    exposed = set()
    for entry in replica.read(Isolation.READ_COMMITTED):
        if truth.outcomes.get(entry.instance) is Outcome.ABORTED:
            exposed.add(entry.key)
            yield Finding(
                replica=replica.id,
                about=f"{entry.key}",
                variant="aborted-to-committed",
                what=f"{entry.key}={entry.value} at offset {entry.offset} was aborted, "
                "but is served as committed",
            )
    table = replica.table()
    for key in sorted((table.keys() | truth.newest.keys()) - exposed):
        value = table[key].value if key in table else None
        if value != truth.table.get(key):
            yield _key_finding(replica, key, value, truth)


def _stable_finding(replica: SeenReplica, right: int) -> Finding:
    stable = replica.last_stable_offset
    stuck = stable < right
    what = (
        f"read_committed stands still at offset {stable}, though all up to {right} is decided"
        if stuck
        else f"read_committed runs ahead to offset {stable}, though {right} is still undecided"
    )
    return Finding(
        replica=replica.id, about="last stable offset", variant="stuck" if stuck else None, what=what
    )


def _key_finding(replica: SeenReplica, key: str, value: str | None, truth: Snapshot) -> Finding:
    newest = truth.newest.get(key)
    if newest is None:
        return Finding(replica=replica.id, about=key, variant=None, what=f"{key}={value} was never committed")
    right = "deleted" if newest.value is None else f"set to {newest.value}"
    wrong = "is missing" if value is None else f"reads {value}"
    variant = "tombstone" if newest.value is None else None
    why = ""
    if newest.transactional and _takes_for_aborted(replica, newest):
        variant = "committed-to-aborted"
        why = ", by a committed transaction that this replica takes for aborted"
    return Finding(
        replica=replica.id,
        about=key,
        variant=variant,
        what=f"{key} {wrong}, but was {right} at offset {newest.offset}{why}",
    )


def _takes_for_aborted(replica: SeenReplica, entry: Entry) -> bool:
    try:
        return replica.outcome(entry) is Outcome.ABORTED
    except OutcomeMissing:
        return False  # settled and forgotten, as it may be
