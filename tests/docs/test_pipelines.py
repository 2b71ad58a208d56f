"""The page on pipelines tells what the code knows."""

import re
from pathlib import Path

import pytest

from holdfast.errors import UsageError
from holdfast.pipelines.document import Section, read_document
from holdfast.pipelines.loading import load_pipeline

PAGE = (Path(__file__).parents[2] / "docs" / "pipelines.md").read_text(encoding="utf-8")
(FILE,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def keys(section: Section) -> set[str]:
    """All of them, from the top."""
    found = set()
    for key, entry in section.entries.items():
        found.add(f"{section.name}.{key}" if section.name else key)
        found |= keys(entry) if isinstance(entry, Section) else set()
    return found


def test_the_file_on_the_page_is_whole(tmp_path: Path) -> None:
    """It is read, and has every key that may stand in a file."""
    path = tmp_path / "pipeline.yaml"
    path.write_text(FILE, encoding="utf-8")
    (tmp_path / "client.properties").write_text("security.protocol=ssl\n", encoding="utf-8")
    load_pipeline(path)
    written = {re.sub(r"^adapters\.forward", "adapters.NAME", key) for key in keys(read_document(path))}
    assert written == {
        *(
            "pipeline",
            "bootstrap",
            "client_config",
            "transform",
            "delivery",
            "reader",
            "checkpoint",
            "recovery_window",
        ),
        *("identity", "identity.id", "identity.source", "identity.tenant", "identity.time"),
        *("ingest", "ingest.topic", "ingest.starting", "audit", "audit.topic"),
        *(
            "end_states",
            "end_states.column",
            "end_states.qualified",
            "end_states.not_qualified",
            "end_states.failed",
        ),
        *("adapters", "adapters.NAME", "adapters.NAME.from", "adapters.NAME.group", "adapters.NAME.starting"),
        *("tally", "tally.topic", "tally.window", "trigger", "trigger.interval", "trigger.records"),
        *("budget", "budget.failed", "budget.missing", "budget.duplicate", "budget.late"),
        *("alarms", "alarms.stall", "alarms.age", "alarms.age.warn", "alarms.age.page", "alarms.canary"),
        *("alarms.runway", "alarms.runway.warn", "alarms.runway.page"),
    }


def test_the_refusal_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is what is said of a file with that mistake."""
    (told,) = re.findall(r"holdfast: (pipeline.yaml:\d+: delivery: .*)", PAGE)
    monkeypatch.chdir(tmp_path)
    Path("pipeline.yaml").write_text(FILE.replace("delivery: adapter", "delivery: adaptor"), encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        load_pipeline(Path("pipeline.yaml"))
    assert re.sub(r":\d+:", ":", str(caught.value)) == re.sub(r":\d+:", ":", told)
