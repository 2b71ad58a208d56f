"""The steps that scenarios and random schedules are made of; every engine takes the same ones."""

from dataclasses import dataclass

from holdfast.rules.entry import Isolation
from holdfast.rules.transaction import Outcome


@dataclass(frozen=True, slots=True)
class Produce:
    """Write one record; a value of None is a tombstone. With a producer, inside that producer's transaction.

    Unacknowledged means that the leader has it and nobody else yet: it may be lost with the leader.
    """

    key: str
    value: str | None
    producer: str | None = None
    acknowledged: bool = True


@dataclass(frozen=True, slots=True)
class Begin:
    """A transactional producer begins; under transaction.version 2 every end bumps its epoch."""

    producer: str
    version: int = 1


@dataclass(frozen=True, slots=True)
class End:
    """The producer's transaction is committed or aborted: its marker is written."""

    producer: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Fetch:
    """A follower fetches from its own log end: `batches` at most, or all that there is."""

    replica: int
    batches: int | None = None


@dataclass(frozen=True, slots=True)
class AwaitIsr:
    """Every live replica catches up and is in sync again."""


@dataclass(frozen=True, slots=True)
class Kill:
    """A replica is gone until it returns; its log stays on its disk."""

    replica: int


@dataclass(frozen=True, slots=True)
class Return:
    """A killed replica is back, with the log that it had."""

    replica: int


@dataclass(frozen=True, slots=True)
class Lag:
    """A live follower stops fetching and leaves the ISR; its cleaner goes on."""

    replica: int


@dataclass(frozen=True, slots=True)
class Advance:
    """Time passes."""

    ms: int


@dataclass(frozen=True, slots=True)
class Clean:
    """A replica's cleaner looks at the log, and makes a pass if one is due by its rules."""

    replica: int


@dataclass(frozen=True, slots=True)
class Settle:
    """A replica applies outcomes without compacting, where its policy knows how."""

    replica: int


@dataclass(frozen=True, slots=True)
class ForceLeader:
    """Leadership moves to a replica that is in sync."""

    replica: int


@dataclass(frozen=True, slots=True)
class Join:
    """A new, empty replica becomes a member; it has yet to fetch its first byte."""

    replica: int


@dataclass(frozen=True, slots=True)
class Leave:
    """A replica stops being a member, and its log is dropped."""

    replica: int


@dataclass(frozen=True, slots=True)
class Truncate:
    """An operator lets the log end at this offset on every replica: offsets are used again."""

    offset: int


@dataclass(frozen=True, slots=True)
class ConsumeVia:
    """A consumer reads the partition through one replica, from the beginning."""

    replica: int
    isolation: Isolation = Isolation.READ_COMMITTED


@dataclass(frozen=True, slots=True)
class Exchange:
    """The removal protocol runs over a network without faults until nobody learns anything new."""


@dataclass(frozen=True, slots=True)
class Collect:
    """A replica that believes to lead sends out the first messages of a round."""

    replica: int


@dataclass(frozen=True, slots=True)
class ReadMembership:
    """A replica reads which members are recorded, and acts on it if it believes to lead."""

    replica: int


@dataclass(frozen=True, slots=True)
class Deliver:
    """The message at this place among those in flight arrives."""

    message: int


@dataclass(frozen=True, slots=True)
class Lose:
    """The message at this place among those in flight is lost."""

    message: int


@dataclass(frozen=True, slots=True)
class Repeat:
    """A copy of a message that was sent before arrives, however late; 0 is the last one sent."""

    message: int


@dataclass(frozen=True, slots=True)
class Talk:
    """Two replicas reach each other: all that is in flight between them arrives, answers included."""

    one: int
    other: int


@dataclass(frozen=True, slots=True)
class BackUp:
    """A copy of a replica's disk is laid aside."""

    replica: int


@dataclass(frozen=True, slots=True)
class PutBack:
    """While a replica is down, its disk is replaced by the copy that was laid aside."""

    replica: int


Step = (
    Produce
    | Begin
    | End
    | Fetch
    | AwaitIsr
    | Kill
    | Return
    | Lag
    | Advance
    | Clean
    | Settle
    | ForceLeader
    | Join
    | Leave
    | Truncate
    | ConsumeVia
    | Exchange
    | Collect
    | ReadMembership
    | Deliver
    | Lose
    | Repeat
    | Talk
    | BackUp
    | PutBack
)

LEAVES_LOGS_ALONE = (
    Begin,
    Advance,
    BackUp,
    Exchange,
    Collect,
    ReadMembership,
    Deliver,
    Lose,
    Repeat,
    Talk,
)
"""After these every replica holds what it held before."""
