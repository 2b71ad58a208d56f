"""Trimming the in-memory control plane: as many rows as the one with tables has."""

from dataclasses import replace

from holdfast.control.memory_state import State
from holdfast.rules.transaction import Outcome


def trim(state: State, rows_max: int) -> int:
    """Forget up to so many rows; how many there were. Instances that nothing names go uncounted."""
    left = rows_max
    for key, row in state.partitions.items():
        needed_from = max(row.start, row.group.extents_from)
        expired = sum(extent.last < needed_from for extent in row.extents)
        trimmed = min(expired, left)
        state.partitions[key] = replace(row, extents=row.extents[trimmed:])
        left -= trimmed
    for group in sorted(state.unseen, key=lambda group: (group is not None, group or "")):
        trimmed = min(state.unseen[group], left)
        state.unseen[group] -= trimmed
        left -= trimmed
    named = {extent.instance for row in state.partitions.values() for extent in row.extents}
    state.instances = {
        number: instance
        for number, instance in state.instances.items()
        if number in named or instance.outcome is Outcome.OPEN
    }
    return rows_max - left
