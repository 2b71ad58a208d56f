"""Settings from a TOML file, checked by name and type; `docs/configuration.md` is written from the same table.

`python -m holdfast.agent.config_file > docs/configuration.md` writes the page.
"""

import ast
import inspect
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from holdfast.agent.groups.messages import GroupLimits
from holdfast.agent.settings import Settings
from holdfast.errors import UsageError
from holdfast.keeper.limits import KeeperLimits

FROM_COMMAND_LINE = frozenset({"data", "host", "port"})
"""Where to listen and where to store is said with `--listen` and `--data`."""

TABLES: dict[str, type[Any]] = {"groups": GroupLimits, "keeper": KeeperLimits}
"""Settings that have a table of their own."""

OPENING = """\
# Configuration

`holdfast up --config FILE` reads settings from a TOML file; an option on the command line has the last word. This
page is written by `python -m holdfast.agent.config_file > docs/configuration.md`, and a test holds it to the code.
Topic configs are another thing: they are set by `holdfast topic config` or any Kafka admin client.

```toml
default_partitions = 4

[groups]
members_max = 50
```
"""


def load(path: Path) -> dict[str, Any]:
    """Arguments for `Settings`; UsageError names the file and what is wrong with it."""
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except OSError as failure:
        raise UsageError(f"cannot read {path}: {failure.strerror}") from failure
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as failure:
        raise UsageError(f"{path} is not TOML: {failure}") from failure
    tables = {name: table.pop(name, {}) for name in TABLES}
    for name, found in tables.items():
        if not isinstance(found, dict):
            raise UsageError(f"{path}: [{name}] is a table")
    settings = _checked(path, table, Settings, except_for=FROM_COMMAND_LINE | TABLES.keys())
    return settings | {name: owner(**_checked(path, tables[name], owner)) for name, owner in TABLES.items()}


def _checked(
    path: Path, table: dict[str, Any], owner: Any, except_for: frozenset[str] = frozenset()
) -> dict[str, Any]:
    known = {field.name: field for field in fields(owner) if field.name not in except_for}
    for name, value in table.items():
        if name not in known:
            raise UsageError(f"{path}: unknown setting {name!r}; known are {', '.join(sorted(known))}")
        if known[name].type is str:
            if not isinstance(value, str) or not value:
                raise UsageError(f"{path}: {name} takes a word in quotes, not {value!r}")
            continue
        wanted = float if known[name].type is float else int
        is_number = isinstance(value, (int, float) if wanted is float else int) and not isinstance(
            value, bool
        )
        if not is_number or value < 0:
            what = "a number" if wanted is float else "a whole number"
            raise UsageError(f"{path}: {name} takes {what} from 0 on, not {value!r}")
    return table


def page() -> Iterator[str]:
    """The reference, line by line."""
    yield OPENING
    yield from _section("Settings", Settings, except_for=FROM_COMMAND_LINE | TABLES.keys())
    for name, owner in TABLES.items():
        yield from _section(f"[{name}]", owner)


def _section(title: str, owner: Any, except_for: frozenset[str] = frozenset()) -> Iterator[str]:
    told = _told(owner)
    yield f"## {title}\n"
    yield "| Setting | Default | |"
    yield "|---|---|---|"
    for field in fields(owner):
        if field.name not in except_for:
            yield f"| `{field.name}` | {_default(field)} | {told[field.name]} |"
    yield ""


def _default(field: "Field[Any]") -> str:
    if field.default is MISSING or field.default is None:
        return ""
    if isinstance(field.default, str):
        return f"`{field.default}`"
    return f"{field.default:,}".replace(",", "_")


def _told(owner: Any) -> dict[str, str]:
    """What stands below each field in the source; that is what readers of the code read too."""
    (definition,) = ast.parse(inspect.getsource(owner)).body
    assert isinstance(definition, ast.ClassDef)
    told = {}
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
        ):
            told[field.target.id] = " ".join(ast.literal_eval(text.value).split())
    return told


if __name__ == "__main__":
    sys.stdout.write("\n".join(page()))
