"""What one seed stands for: the process, who uses it, when it is killed and what becomes of its files."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from soak.disk import Fault, draw_faults
from soak.outages import Troubles, draw_troubles
from soak.workload import Setting, Spec
from soak.workloads import WORKLOADS
from soak.workloads.upkeep import UpkeepSpec

KILLS_MAX = 4
PARTITIONS_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """One crash: when it comes, what it does to the files, and starts that do not come to their end either."""

    after_acknowledged: int
    pause_ms: int
    """Counted from there: acknowledgements alone would favour the moment after a commit."""
    is_at_write: bool
    """Whether it waits for the journal to grow: then a frame is likely to be there that nobody was told about."""
    faults: tuple[Fault, ...]
    starts_killed_after_ms: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One round, drawn from its seed alone."""

    seed: int
    setting: Setting
    kills: tuple[Kill, ...]
    specs: tuple[Spec, ...]
    rebuilds_at_end: bool
    """Whether the log is read a second time, from a control plane that is made anew."""
    troubles: Troubles
    """Those of stores and keepers, where there is upkeep."""

    @property
    def has_upkeep(self) -> bool:
        """Whether the keeper is busy."""
        return any(isinstance(spec, UpkeepSpec) for spec in self.specs)

    def lines(self) -> list[str]:
        """For people who look into a failure."""
        nodes, partitions = self.setting.nodes, self.setting.partitions
        troubles = [str(self.troubles)] if self.has_upkeep else []
        return [
            f"{nodes} nodes, {partitions} partitions",
            *map(str, self.specs),
            *map(str, self.kills),
            *troubles,
        ]


def draw(seed: int) -> Plan:
    """The plan of a seed, always the same."""
    chance = Random(f"{seed}/plan")
    setting = Setting(nodes=chance.choice([1, 1, 3]), partitions=chance.randrange(1, PARTITIONS_MAX + 1))
    kills = tuple(_draw_kill(chance, setting) for _ in range(chance.randrange(1, KILLS_MAX + 1)))
    specs: list[Spec] = []
    for name, draw_specs in WORKLOADS.items():
        specs += draw_specs(Random(f"{seed}/{name}"), setting)
    return Plan(
        seed=seed,
        setting=setting,
        kills=kills,
        specs=tuple(specs),
        rebuilds_at_end=chance.random() < 0.3,
        troubles=draw_troubles(Random(f"{seed}/troubles"), nodes=setting.nodes, kills=len(kills)),
    )


def draw_alone(seed: int, name: str, draw_spec: Callable[[Random, Setting], Spec]) -> Plan:
    """The same crashes with one workload and nobody else, for a test that asks for it."""
    plan = draw(seed)
    return replace(plan, specs=(draw_spec(Random(f"{seed}/{name}"), plan.setting),))


def _draw_kill(chance: Random, setting: Setting) -> Kill:
    return Kill(
        after_acknowledged=chance.choice([1, chance.randrange(1, 100), chance.randrange(1, 1500)]),
        pause_ms=chance.choice([0, chance.randrange(20), chance.randrange(100)]),
        is_at_write=chance.random() < 0.6,
        faults=draw_faults(chance, setting.nodes),
        starts_killed_after_ms=tuple(
            chance.randrange(100, 1000) for _ in range(chance.choice([0, 0, 0, 1, 2]))
        ),
    )
