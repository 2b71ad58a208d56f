"""Client options for a process that is started here, through a pipe: command lines and files others may read."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from holdfast.client.security import Security, tell_security
from holdfast.errors import UsageError

OPTION: Final = "--client-config"
PIPES: Final = "/dev/fd/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """What its command line has besides, and what it inherits for that."""

    words: tuple[str, ...]
    descriptors: tuple[int, ...]


@contextmanager
def hand_on(security: Security) -> Iterator[Handed]:
    """For as long as it takes to start the process; it can read them once."""
    options = tell_security(security)
    for name, value in options.items():
        if value != value.strip() or len(value.splitlines()) > 1:
            raise UsageError(
                f"{name}: what begins or ends with a blank, or has several lines, cannot be handed to another process"
            )
    reading, writing = os.pipe()
    try:
        with os.fdopen(writing, "w", encoding="utf-8") as pipe:
            pipe.writelines(f"{name}={value}\n" for name, value in options.items())
        yield Handed(words=(OPTION, f"{PIPES}{reading}"), descriptors=(reading,))
    finally:
        os.close(reading)


def without_handed(command: Sequence[str]) -> list[str]:
    """The command line of a process without a pipe that it was given: it has been read."""
    found = list(command)
    for place, word in enumerate(found[:-1]):
        if word == OPTION and found[place + 1].startswith(PIPES):
            return found[:place] + found[place + 2 :]
    return found
