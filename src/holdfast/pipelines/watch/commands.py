"""The commands that alarms say to begin with: on the cluster, and for the pipeline, that are watched."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from holdfast.pipelines.config import FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """What other commands have to be told besides, each in its own way, to mean the same."""

    file: Path = FILE
    options: tuple[str, ...] = ()
    """In place of what the file says."""
    cluster: tuple[str, ...] = ()
    """All of it, for commands that read no pipeline's file."""

    def on_cluster(self, *words: str) -> str:
        """Such a one."""
        return shlex.join(["holdfast", *words, *self.cluster])

    def on_pipeline(self, *words: str) -> str:
        """One that takes the file as an option."""
        named = [] if self.file == FILE else ["--pipeline", str(self.file)]
        return shlex.join(["holdfast", *words, *named, *self.options])

    @property
    def status(self) -> str:
        """The processes of the pipeline, and how far they are."""
        return shlex.join(["holdfast", "pipeline", "status", str(self.file), *self.options])
