"""`holdfast guard`, killed by SIGKILL at one of its steps: `python -m tests.kafka.mortal_guard STEP JOURNAL guard …`.

Steps are before its state is written, between the draft and its name, and after; after a change of settings was asked
for; after an examination was begun, and when its verdict has come. STEP is how many are survived, or the name of the
one that is not, which is written to the journal.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.cli.main import main
from holdfast.guard.decide import Alter, Examine
from holdfast.guard.examining import BackgroundDoctor
from holdfast.guard.sight import Verdict
from holdfast.guard.state import State
from holdfast.guard.state_file import StateFile
from holdfast.guard.world import KafkaWorld


class Fate:
    """Ends the process at one of its steps."""

    def __init__(self, step: str, journal: Path) -> None:
        self._step = step
        self._reached = 0
        self._journal = journal

    def reach(self, what: str) -> None:
        """A step, by its name."""
        if self._step in (str(self._reached), what):
            self._journal.write_text(what)
            os.kill(os.getpid(), signal.SIGKILL)
        self._reached += 1


def doom(fate: Fate) -> None:
    """Let all that a guard does lead past its fate."""
    write: Callable[[StateFile, State], None] = StateFile.write
    rename: Callable[..., Path] = Path.rename
    alter: Callable[[KafkaWorld, Alter], None] = KafkaWorld.alter
    begin: Callable[[BackgroundDoctor, Examine], None] = BackgroundDoctor.begin
    collect: Callable[[BackgroundDoctor], list[Verdict]] = BackgroundDoctor.collect

    def mortal_write(self: StateFile, state: State) -> None:
        told = ", ".join(hold.stage.value for hold in state.holds) or "nothing"
        fate.reach(f"before {told} is written down")
        write(self, state)
        fate.reach(f"after {told} was written down")

    def mortal_rename(self: Path, target: Any) -> Path:
        fate.reach("between a draft and its name")
        return rename(self, target)

    def mortal_alter(self: KafkaWorld, step: Alter) -> None:
        alter(self, step)
        fate.reach(f"after the topic's settings were {'given back' if step.change.unset else 'changed'}")

    def mortal_begin(self: BackgroundDoctor, step: Examine) -> None:
        begin(self, step)
        fate.reach("after an examination was begun")

    def mortal_collect(self: BackgroundDoctor) -> list[Verdict]:
        found = collect(self)
        if found:
            fate.reach("when a verdict has come")
        return found

    for owner, name, mortal in (
        (StateFile, "write", mortal_write),
        (Path, "rename", mortal_rename),
        (KafkaWorld, "alter", mortal_alter),
        (BackgroundDoctor, "begin", mortal_begin),
        (BackgroundDoctor, "collect", mortal_collect),
    ):
        setattr(owner, name, mortal)


if __name__ == "__main__":
    doom(Fate(sys.argv[1], Path(sys.argv[2])))
    del sys.argv[1:3]
    main()
