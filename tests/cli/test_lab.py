"""`holdfast lab`: output, exit codes, and one clear line for bad input."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.main import main

Invoke = Callable[..., tuple[int, str, str]]


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Invoke:
    """Run the command line in this process: exit code, stdout, stderr."""

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["holdfast", "lab", *words])
        with pytest.raises(SystemExit) as leave:
            main()
        out, err = capsys.readouterr()
        return int(leave.value.code or 0), out, err

    return call


@pytest.mark.parametrize("name", ["tombstone", "aborted-to-committed", "committed-to-aborted", "stuck"])
def test_the_four_harms_as_json(invoke: Invoke, name: str) -> None:
    """Under kafka exit 1 and the variant; under coordinated exit 0 and no variant, with cleanup done."""
    code, out, err = invoke("run", name, "--policy", "kafka", "--json")
    told: dict[str, Any] = json.loads(out)
    assert (code, err) == (1, "")
    assert (told["scenario"], told["engine"], told["policy"]) == (name, "model", "kafka")
    assert (told["diverged"], told["halted"], told["variant"]) == (True, False, name)
    assert len(told["replicas"]) == 3
    assert told["evidence"][0]["replica"] == 3
    code, out, _ = invoke("run", name, "--policy", "coordinated", "--json")
    told = json.loads(out)
    assert (code, told["diverged"], told["halted"], told["variant"]) == (0, False, False, None)
    assert told["evidence"] == []
    assert sum(told["removed"].values()) > 0
    assert list(told) == [
        "scenario",
        "engine",
        "policy",
        "diverged",
        "halted",
        "variant",
        "replicas",
        "evidence",
        "removed",
    ]


def test_a_run_is_told_step_by_step(invoke: Invoke) -> None:
    """Every line appears, and the verdict at the end; off a terminal --step waits for nobody."""
    code, out, _ = invoke("run", "tombstone", "--step")
    assert code == 1
    for text in ("produce K=V", "kill 3", "delete K", "consume-via 3", "DIVERGED: tombstone"):
        assert text in out


def test_more_replicas_can_be_asked_for(invoke: Invoke) -> None:
    """--replicas changes how many there are."""
    _, out, _ = invoke("run", "tombstone", "--replicas", "5", "--json")
    assert [replica["id"] for replica in json.loads(out)["replicas"]] == [1, 2, 3, 4, 5]


def test_the_page_is_written(invoke: Invoke, tmp_path: Path) -> None:
    """--html writes one page beside the usual output."""
    path = tmp_path / "run.html"
    code, out, _ = invoke("run", "tombstone", "--policy", "coordinated", "--html", str(path))
    assert code == 0
    assert "AGREED" in out
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_scenario_of_ones_own_is_run_from_its_file(invoke: Invoke, tmp_path: Path) -> None:
    """A path ending in .scn is read as a scenario."""
    path = tmp_path / "mine.scn"
    path.write_text(
        "produce K=V\nkill 3\nproduce K=W\nreturn 3\nawait-isr\nconsume-via 3\n", encoding="utf-8"
    )
    code, out, _ = invoke("run", str(path), "--json")
    assert (code, json.loads(out)["scenario"]) == (0, "mine")


def test_a_step_that_cannot_be_taken_names_its_line(invoke: Invoke, tmp_path: Path) -> None:
    """A scenario that kills the dead is bad input."""
    path = tmp_path / "dead.scn"
    path.write_text("kill 3\nkill 3\n", encoding="utf-8")
    code, _, err = invoke("run", str(path), "--json")
    assert (code, err) == (2, "holdfast: scenario dead, line 2 (kill 3): replica 3 is down\n")


def test_help_lists_every_command(invoke: Invoke) -> None:
    """Those of this module and those that are imported when called."""
    code, out, _ = invoke("--help")
    assert code == 0
    listed = [line.split()[0] for line in out.partition("Commands:")[2].splitlines() if line.strip()]
    assert listed == ["explore", "list", "run", "sweep"]


def test_scenarios_are_listed(invoke: Invoke) -> None:
    """Names and titles, for people and for programs."""
    code, out, _ = invoke("list")
    assert code == 0
    assert "tombstone" in out
    _, out, _ = invoke("list", "--json")
    assert {"stuck", "mixed-sources"} <= {row["name"] for row in json.loads(out)}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["run", "nonsense"], "unknown scenario 'nonsense'"),
        (["run", "../tombstone"], "unknown scenario '../tombstone'"),
        (["run", "tombstone", "--policy", "hope"], "unknown policy 'hope'; known are: kafka, coordinated"),
        (["run", "tombstone", "--engine", "steam"], "unknown engine 'steam'"),
        (["run", "tombstone", "--replicas", "-1"], "--replicas takes a number from 1 to 9, not -1"),
        (["run", "tombstone", "--replicas", "2"], "replica 3 needs more than 2 replicas"),
        (["run", "tombstone", "--replicas", "many"], "'many' is not a valid integer"),
        (["run", "tombstone", "--html", "/nowhere/at/all.html"], "cannot write /nowhere/at/all.html"),
        (["sweep", "--html", "/nowhere/at/all.html"], "cannot write /nowhere/at/all.html"),
        (["run", "/nowhere/at/all.scn"], "cannot read /nowhere/at/all.scn"),
        (["run", "mixed-sources", "--replicas", "9"], "no replica can join 9 replicas"),
        (["run"], "Missing argument 'SCENARIO'"),
        (["dance"], "No such command 'dance'"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(invoke: Invoke, words: list[str], complaint: str) -> None:
    """No traceback, nothing on stdout, one line on stderr that says what to do."""
    code, out, err = invoke(*words)
    assert (code, out) == (2, "")
    assert complaint in err
    assert len(err.strip().splitlines()) == 1
