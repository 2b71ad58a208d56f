"""What one examination of a cluster, or of copied directories, came to; and in what two of them differ."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from holdfast.doctor.examine import Examination, NotExamined
from holdfast.doctor.findings import Finding

CLEAN: Final = 0
DIVERGED: Final = 1
NOT_EXAMINED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All partitions together; `failure` is why nothing at all could be examined."""

    examined: Sequence[Examination] = ()
    failure: str | None = None

    @property
    def findings(self) -> list[Finding]:
        """Every confirmed difference."""
        return [finding for each in self.examined for finding in each.findings]

    @property
    def missed(self) -> list[NotExamined]:
        """Everything that could not be looked at."""
        return [missed for each in self.examined for missed in each.not_examined]

    @property
    def compared(self) -> int:
        """Partitions of which two replicas or more were compared."""
        return sum(len(each.replicas) > 1 for each in self.examined)

    @property
    def alone(self) -> int:
        """Partitions that have one replica."""
        return sum(len(each.replicas) <= 1 and not each.not_examined for each in self.examined)

    @property
    def code(self) -> int:
        """The exit code: what differs comes before what could not be seen."""
        if self.findings:
            return DIVERGED
        return NOT_EXAMINED if self.missed or self.failure else CLEAN

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        told = {
            "clean": self.code == CLEAN,
            "examined": [
                {"topic": each.place.topic, "partition": each.place.partition, "replicas": each.replicas}
                for each in self.examined
                if len(each.replicas) > 1
            ],
            "findings": [finding.as_json() for finding in self.findings],
            "not_examined": [
                {
                    "topic": each.place.topic,
                    "partition": each.place.partition,
                    "replica": each.replica,
                    "why": each.why,
                }
                for each in self.missed
            ],
        }
        return told if self.failure is None else told | {"failure": self.failure}


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is in a report and was not in the one before, and the other way round."""

    found: list[Finding]
    healed: list[Finding]
    missed: list[NotExamined]
    seen_again: list[NotExamined]
    failure: str | None
    """Why nothing can be examined any more."""

    def __bool__(self) -> bool:
        return bool(self.found or self.healed or self.missed or self.seen_again or self.failure)


def changes(before: Report, now: Report) -> Changes:
    """Of a look that failed as a whole nothing is said but that: what it did not see has not healed."""
    if now.failure is not None:
        failure = None if now.failure == before.failure else now.failure
        return Changes(found=[], healed=[], missed=[], seen_again=[], failure=failure)
    unseen = {each.place for each in now.missed}
    return Changes(
        found=_only_in(now.findings, before.findings),
        healed=[each for each in _only_in(before.findings, now.findings) if each.place not in unseen],
        missed=_only_in(now.missed, before.missed),
        seen_again=_only_in(before.missed, now.missed),
        failure=None,
    )


def by_reason(missed: Iterable[NotExamined]) -> Iterator[tuple[str, str]]:
    """Where and why in words, one line for all partitions of a topic that one reason keeps from us."""
    for (topic, why), group in groupby(missed, key=lambda each: (each.place.topic, each.why)):
        each, *more = group
        if more and all(other.replica is None for other in (each, *more)):
            yield f"{topic} ({1 + len(more)} partitions)", why
            continue
        for one in (each, *more):
            yield _place(one), why


def _place(missed: NotExamined) -> str:
    place = f"{missed.place.topic}:{missed.place.partition}"
    return place if missed.replica is None else f"{place}  replica {missed.replica}"


def _only_in(these: Sequence[Any], those: Sequence[Any]) -> list[Any]:
    known = {_identity(each) for each in those}
    return [each for each in these if _identity(each) not in known]


def _identity(each: Finding | NotExamined) -> tuple[object, ...]:
    """What makes it the same one next time; how far a replica is behind does not."""
    if isinstance(each, NotExamined):
        return each.place, each.replica
    return each.place, each.replica, each.variant, each.key, each.producer_id
