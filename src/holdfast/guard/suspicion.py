"""When the lever cannot have been enough: who is suspected, and what clears them.

A cleaner drops a delete or an outcome no sooner than delete.retention.ms after a pass that first met it, and then every
replica in sync had it. So a replica can miss one only if it was out of sync for that long while passes could still
begin: the pause must be acknowledged by all brokers within delete.retention.ms of the last look that saw it in sync. A
pass that began before is no harm then, although the lever does not stop it. What that argument does not cover is a
copy that is made from two leaders, one of whom is further with its cleanup: any change of the leader while a replica is
out makes it suspect.
"""

from msgspec.structs import replace

from holdfast.guard.memory import Memory
from holdfast.guard.sight import Look, SeenTopic
from holdfast.guard.state import Hold, Outage, Taint


def follow_outages(hold: Hold, seen: SeenTopic, look: Look, memory: Memory) -> Hold:
    """Who is out now, and who of those that are or were out has become suspect."""
    known = {(each.partition, each.replica): each for each in hold.outages}
    now_out = {place: known.get(place) or _first_seen(place, seen, memory) for place in seen.out}
    taints = {(each.partition, each.replica): each for each in hold.taints}
    for place, outage in {**known, **now_out}.items():
        why = _why_suspect(outage, hold, seen, look)
        if why is not None and place not in taints:
            taints[place] = Taint(partition=outage.partition, replica=outage.replica, why=why)
    for partition in {number for number, _ in now_out}:
        memory.start_over(seen.topic_id, partition)
    size = hold.size_bytes_then if hold.size_bytes_then is not None else seen.size_bytes
    return replace(
        hold,
        outages=tuple(now_out[place] for place in sorted(now_out)),
        taints=tuple(taints[place] for place in sorted(taints)),
        size_bytes_then=size,
    )


def taint_all(hold: Hold, why: str) -> Hold:
    """Everybody who is out becomes suspect."""
    tainted = {(each.partition, each.replica) for each in hold.taints}
    added = tuple(
        Taint(partition=each.partition, replica=each.replica, why=why)
        for each in hold.outages
        if (each.partition, each.replica) not in tainted
    )
    return replace(hold, taints=hold.taints + added)


def hear(hold: Hold, seen: SeenTopic, look: Look, memory: Memory, again_ms: int) -> Hold:
    """Take what a doctor says of this topic: a partition that passes is cleared, one that does not is asked again."""
    for verdict in look.verdicts:
        if verdict.topic != hold.topic or not memory.is_answer(
            seen.topic_id, verdict.partition, verdict.asked_ms
        ):
            continue
        others = tuple(taint for taint in hold.taints if taint.partition != verdict.partition)
        if verdict.against is None:
            hold = replace(hold, taints=others)
            continue
        memory.wait_until(seen.topic_id, verdict.partition, look.at_ms + again_ms)
        blamed = tuple(
            replace(taint, verdict=verdict.against)
            for taint in hold.taints
            if taint.partition == verdict.partition
        )
        hold = replace(hold, taints=others + blamed)
    return hold


def _first_seen(place: tuple[int, int], seen: SeenTopic, memory: Memory) -> Outage:
    number, node = place
    before = memory.last_in_sync(seen.topic_id, number, node)
    return Outage(
        partition=number,
        replica=node,
        last_in_sync_ms=None if before is None else before.at_ms,
        leader_epoch=seen.partitions[number].leader_epoch if before is None else before.epoch_left,
    )


def _why_suspect(outage: Outage, hold: Hold, seen: SeenTopic, look: Look) -> str | None:
    partition = seen.partitions.get(outage.partition)
    if outage.last_in_sync_ms is None:
        return "it was out of sync before this guard saw it in sync"
    if partition is not None and partition.leader_epoch > outage.leader_epoch:
        return "the leader changed while it was out of sync, so its copy may come from two"
    acknowledged_ms = look.at_ms if hold.acknowledged_ms is None else hold.acknowledged_ms
    if acknowledged_ms - outage.last_in_sync_ms <= seen.retention_ms:
        return None
    silent = sorted(node for node in seen.hosts & look.brokers if node not in seen.lags)
    who = f": broker {', '.join(map(str, silent))} did not answer" if silent else ""
    return f"not every broker acknowledged the pause within delete.retention.ms{who}"
