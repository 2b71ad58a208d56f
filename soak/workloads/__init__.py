"""What clients do while the process is killed. A new kind of client is one module and one line in `WORKLOADS`."""

from collections.abc import Callable, Sequence
from random import Random

from soak.workload import Setting, Spec
from soak.workloads import positions, produce, read, transfers, transform, upkeep

WORKLOADS: dict[str, Callable[[Random, Setting], Sequence[Spec]]] = {
    "produce": produce.draw,
    "read": read.draw,
    "positions": positions.draw,
    "transform": transform.draw,
    "transfers": transfers.draw,
    "upkeep": upkeep.draw,
}
"""Each draws its share of a round from a chance of its own, so that another one changes nobody's seeds."""
