"""Copied log directories side by side: the partitions that several of them have."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.client.groups import TopicPartition
from holdfast.doctor.copied import CopiedSource, find_partitions
from holdfast.doctor.examine import Examination, Examiner, NotExamined
from holdfast.errors import HoldfastError, UsageError


def examine_copies(directories: Sequence[Path]) -> Iterator[Examination]:
    """One examination for each partition that two directories or more have a copy of.

    A copy that ends before another is left out: it may only be behind, and will hear of nothing more.
    """
    names = [str(directory) for directory in directories]
    if len(set(names)) < 2:
        raise UsageError("name two directories or more, each a copy of one broker's log directory")
    found = [find_partitions(directory) for directory in directories]
    shared = sorted(place for place in set().union(*found) if sum(place in each for each in found) > 1)
    if not shared:
        raise UsageError("no partition is in more than one of these directories")
    for place in shared:
        yield _examine(
            place, {name: each[place] for name, each in zip(names, found, strict=True) if place in each}
        )


def _examine(place: TopicPartition, paths: dict[str, Path]) -> Examination:
    sources = [CopiedSource(name, path) for name, path in paths.items()]
    examiner = Examiner(place, sources, list_coordinated=frozenset, wait_s_max=0.0)
    try:
        return examiner.examine()
    except HoldfastError as failure:
        return Examination(
            place=place, not_examined=[NotExamined(place=place, replica=None, why=str(failure))]
        )
