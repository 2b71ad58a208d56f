"""The scenarios that come with Holdfast."""

from importlib import resources

from holdfast.errors import UsageError
from holdfast.lab.scenario import Scenario, parse

SUFFIX = ".scn"
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
    """A scenario by its name, for its own or another number of replicas."""
    return parse(name, text(name), replicas=replicas)
