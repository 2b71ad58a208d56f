"""The scenarios that come with Holdfast, and those that somebody wrote into a file."""

from importlib import resources
from pathlib import Path

from holdfast.errors import UsageError
from holdfast.lab.scenario import Scenario, parse

SUFFIX = ".scn"
CHARACTERS_MAX = 1_000_000
_FOLDER = resources.files("holdfast.lab") / "scenarios"


def names() -> list[str]:
    """What can be run, by name."""
    return sorted(item.name.removesuffix(SUFFIX) for item in _FOLDER.iterdir() if item.name.endswith(SUFFIX))


def text(name: str) -> str:
    """A scenario as it was written."""
    if name not in names():
        raise UsageError(f"unknown scenario '{name}'; known are: {', '.join(names())}")
    return (_FOLDER / (name + SUFFIX)).read_text(encoding="utf-8")


def load(name: str, *, replicas: int | None = None) -> Scenario:
    """A scenario by its name or its file's path, for its own or another number of replicas."""
    if name.endswith(SUFFIX):
        return parse(Path(name).stem, _read(Path(name)), replicas=replicas)
    return parse(name, text(name), replicas=replicas)


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            written = file.read(CHARACTERS_MAX + 1)
    except (OSError, UnicodeDecodeError) as failure:
        raise UsageError(f"cannot read {path}: {getattr(failure, 'strerror', None) or 'not UTF-8'}") from None
    if len(written) > CHARACTERS_MAX:
        raise UsageError(f"cannot read {path}: more than {CHARACTERS_MAX} characters")
    return written
