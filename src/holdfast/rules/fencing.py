"""The comparisons that keep the past out: every message of the removal protocol passes through these.

Each is one line on purpose. They are the guards that `holdfast lab explore --without GUARD` takes out one by
one.
"""


def stale_lineage(said: int, known: int) -> bool:
    """Offsets of an older lineage name other records: the log was truncated since."""
    return said < known


def stale_term(said: int, known: int) -> bool:
    """A deposed leader speaks, or an answer to one."""
    return said < known


def stale_membership(said: int, known: int) -> bool:
    """Computed or asked for a set of replicas that lacks one which counts by now."""
    return said < known


def stale_generation(said: int, known: int) -> bool:
    """Described by a manifest that is older than one already heard of from the same incarnation."""
    return said < known


def other_replica(said: object, known: object) -> bool:
    """Another replica, or an earlier life of the same one, whose data is gone."""
    return said != known
