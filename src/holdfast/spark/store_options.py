"""The options of `format("holdfast")` that say where the stores are, and which replica to read."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from holdfast.client.cluster import parse_bootstrap
from holdfast.client.readings import HELD_SECONDS_DEFAULT, HELD_SECONDS_MAX
from holdfast.errors import UsageError

STORE_OPTIONS: Final = ("data", "admin", "through", "replica", "heldSeconds", "snapshot")

Through = Literal["auto", "stores", "agent"]
_WAYS: Final[dict[str, Through]] = {"auto": "auto", "stores": "stores", "agent": "agent"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """How to come to the bytes."""

    data: Path | None = None
    admin: str | None = None
    through: Through = "auto"
    replica: int | None = None
    held_seconds: float = HELD_SECONDS_DEFAULT
    snapshot: Path | None = None
    """A file with a reading that somebody has taken already, and holds."""

    @property
    def is_enough(self) -> bool:
        """Whether the stores can be found without a bootstrap address."""
        has_way = self.data is not None or self.admin is not None or self.snapshot is not None
        return has_way and self.through != "agent"


def parse_store_options(given: Mapping[str, str]) -> StoreOptions:
    """Reads those options that are given; a UsageError names the one that is wrong."""
    data, snapshot = given.get("data"), given.get("snapshot")
    return StoreOptions(
        data=None if data is None else Path(data),
        admin=_admin(given.get("admin")),
        through=_through(given.get("through", "auto")),
        replica=_replica(given.get("replica")),
        held_seconds=_seconds(given.get("heldSeconds")),
        snapshot=None if snapshot is None else Path(snapshot),
    )


def _admin(value: str | None) -> str | None:
    if value is None:
        return None
    try:
        return str(parse_bootstrap(value)[0])
    except UsageError as error:
        raise UsageError(f"option admin: {error}") from None


def _through(value: str) -> Through:
    way = _WAYS.get(value.strip().lower())
    if way is None:
        raise UsageError(f"option through: {value!r} is not one of {', '.join(_WAYS)}")
    return way


def _replica(value: str | None) -> int | None:
    if value is None:
        return None
    if not (value.strip().isascii() and value.strip().isdigit() and int(value) > 0):
        raise UsageError(f"option replica: {value!r} is not the number of a store")
    return int(value)


def _seconds(value: str | None) -> float:
    if value is None:
        return HELD_SECONDS_DEFAULT
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= HELD_SECONDS_MAX:
        raise UsageError(
            f"option heldSeconds: {value!r} is not a number of seconds up to {HELD_SECONDS_MAX:.0f}"
        )
    return seconds
