"""What a guard must not forget: which topics it has paused, how their owners had them, and who may be harmed.

All of it is written down before the lever is pulled (`state_file.py`); `docs/formats.md` has the file.
"""

from enum import Enum

import msgspec

from holdfast.guard.lever import Lags

FORMAT = 1


class Stage(Enum):
    """How far a pause is."""

    PAUSING = "pausing"
    """The lever is to be pulled, or was: not every broker has said so."""
    PAUSED = "paused"
    """Every broker that could be asked has said so."""
    OVERRIDDEN = "overridden"
    """Somebody has changed the setting during the pause, and has it as it is."""
    RESTORING = "restoring"
    """All is well; the owner's settings are to be put back, or were."""


class Outage(msgspec.Struct, frozen=True, kw_only=True):
    """A replica that is out of sync, as it was first seen so."""

    partition: int
    replica: int
    last_in_sync_ms: int | None
    """When it was last seen in sync; None if this guard never saw it so."""
    leader_epoch: int
    """The highest that is no change of the leader while it was out."""


class Taint(msgspec.Struct, frozen=True, kw_only=True):
    """A replica that the lever may not have protected; a doctor has to look at it before cleanup goes on."""

    partition: int
    replica: int
    why: str
    verdict: str | None = None
    """What stood against it when it was last examined."""


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """One topic that is paused, or is about to be, or is about to be given back."""

    topic: str
    topic_id: str
    stage: Stage
    owner_min_ms: str | None
    owner_max_ms: str | None
    since_ms: int
    acknowledged_ms: int | None = None
    outages: tuple[Outage, ...] = ()
    taints: tuple[Taint, ...] = ()
    size_bytes_then: int | None = None

    @property
    def owner(self) -> Lags:
        """The settings as the topic's owner had them."""
        return Lags(self.owner_min_ms, self.owner_max_ms)


class State(msgspec.Struct, frozen=True, kw_only=True):
    """All that one guard holds in one cluster."""

    cluster_id: str
    mark: int
    """How its pauses are told from another guard's."""
    holds: tuple[Hold, ...] = ()
    format: int = FORMAT

    def hold_of(self, topic: str) -> Hold | None:
        """The hold on a topic, if there is one."""
        return next((hold for hold in self.holds if hold.topic == topic), None)
