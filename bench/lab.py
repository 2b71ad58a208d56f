"""How many random schedules one core plays and checks per second, by CPU time; the goal is 300.

Run with `make bench-lab`. A schedule under `coordinated` has 30 to 70 steps and ends with everybody brought back.
"""

import statistics
import sys
import time
from functools import partial

from bench.report import Figure, publish, seconds
from holdfast.lab.explore import Search, explore_part

GOAL_PER_S = 300
SEEDS = 300
ROUNDS = 7


def rate(policy: str) -> float:
    """Schedules per second of CPU time: the median of rounds over different seeds."""
    searches = [Search(policy=policy, first_seed=SEEDS * turn, seeds=SEEDS) for turn in range(ROUNDS)]
    explore_part(searches[0])
    times = [seconds(partial(explore_part, search), time.thread_time) for search in searches]
    return SEEDS / statistics.median(times)


def main() -> int:
    """Measure, and say whether the goal was reached."""
    figures = []
    for policy in ("coordinated", "kafka"):
        value = rate(policy)
        figures.append(
            Figure(
                name=f"schedules, {policy}",
                value=round(value, 1),
                unit="schedules/s",
                baseline=GOAL_PER_S,
                ratio=round(value / GOAL_PER_S, 2),
                goal=1.0,
            )
        )
    return publish("lab", figures)


if __name__ == "__main__":
    sys.exit(main())
