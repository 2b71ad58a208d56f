"""One turn after the other: look, decide, write down, do. In this order, so that a death at any point loses nothing."""

from collections.abc import Callable, Sequence
from typing import Protocol

from holdfast.errors import HoldfastError
from holdfast.guard.decide import Alter, Decider, Examine
from holdfast.guard.sight import Look, Verdict
from holdfast.guard.state import State


class World(Protocol):
    """The cluster, as far as a guard has to do with it."""

    def look(self, state: State, verdicts: Sequence[Verdict]) -> Look:
        """How things are now; HoldfastError if nobody tells."""

    def alter(self, step: Alter) -> None:
        """Change a topic; whether it came to pass is seen at a later look, whatever is raised."""


class Doctor(Protocol):
    """Whoever examines partitions, beside the guard."""

    def begin(self, step: Examine) -> None:
        """Take an examination up, and return."""

    def collect(self) -> list[Verdict]:
        """What was found since it was asked last."""


class Guard:
    """A guard at work; `write` makes a state durable."""

    def __init__(
        self, state: State, *, world: World, doctor: Doctor, decider: Decider, write: Callable[[State], None]
    ) -> None:
        self.state = state
        self.last_look: Look | None = None
        self.refused: dict[str, str] = {}
        """By topic: why its settings could not be changed when that was last tried."""
        self._world = world
        self._doctor = doctor
        self._decider = decider
        self._write = write
        self._verdicts: list[Verdict] = []

    def turn(self) -> list[str]:
        """Do what is to be done now; what there is to tell. HoldfastError if the cluster could not be looked at."""
        self._verdicts += self._doctor.collect()
        look = self._world.look(self.state, self._verdicts)
        self._verdicts = []
        self.last_look = look
        decision = self._decider.decide(self.state, look)
        if decision.state != self.state:
            self._write(decision.state)
            self.state = decision.state
        news = decision.news
        self.refused = {topic: why for topic, why in self.refused.items() if self.state.hold_of(topic)}
        for step in decision.steps:
            if isinstance(step, Examine):
                news.append(f"{step.topic}:{step.partition} is being examined")
                self._doctor.begin(step)
            else:
                news += self._alter(step)
        return news

    def _alter(self, step: Alter) -> list[str]:
        try:
            self._world.alter(step)
        except HoldfastError as failure:
            is_known = self.refused.get(step.topic) == str(failure)
            self.refused[step.topic] = str(failure)
            return [] if is_known else [f"{step.topic} could not be changed, and is tried again: {failure}"]
        self.refused.pop(step.topic, None)
        return []
