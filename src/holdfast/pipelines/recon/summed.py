"""The fingerprints of a piece, and the records of some cells, straight from stored batches.

A kernel reads each batch in one pass. What it finds odd is left, from that batch to the end of its group, to `reading`,
which knows every case. Both ways have to agree: `tests/pipelines/recon/test_summed.py` holds one against the other.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.pipelines.config import DAY_MS
from holdfast.pipelines.recon.reading import (
    LATE,
    Piece,
    bounds_of,
    places_of,
    rows_of_scan,
    use_chunks,
)
from holdfast.records.arrow import make_columns
from holdfast.records.buffers import ReadableBytes
from holdfast.records.codecs import INFLATED_TOTAL_BYTES_MAX
from holdfast.records.fingerprints import make_secrets
from holdfast.records.kernel.book import FULL, Book, look_up_group, number_tenant
from holdfast.records.kernel.load import as_octets
from holdfast.records.kernel.scanning import Scan, Selection, Stretch, open_groups
from holdfast.records.kernel.summing import Lateness, Question, Room, pick_batches, sum_batches
from holdfast.spark.reconcile import Geometry, Group, Span, Summed, add_batch, empty_fingerprints

GROUP_BYTES: Final = 16 << 20
"""Of batches that are dealt with at once: more than most chunks have, which would be cut in two otherwise; and what is
compressed is inflated up to there."""


def sum_piece(piece: Piece, geometry: Geometry) -> Summed:
    """The fingerprints of all records that are in a piece's scope, canaries left out."""
    summing = Summing(piece, geometry)
    for _ in use_chunks(piece, summing.add):
        pass
    return summing.finish()


def ask(piece: Piece, geometry: Geometry) -> Question | None:
    """What the kernel is asked of a piece; None if it cannot find what counts."""
    places, lateness_ms = places_of(piece), piece.scope.lateness_ms
    if places is None:
        return None
    return Question(
        places=places,
        bounds=bounds_of(piece),
        lateness=Lateness(
            is_asked=lateness_ms is not None,
            day_ms=DAY_MS,
            late_ms=DAY_MS + (lateness_ms or 0),
            stage=LATE,
        ),
        secrets=make_secrets(geometry.seed),
        bucket_bits=geometry.bucket_bits,
    )


class Summing:
    """The fingerprints of a piece while its batches are added."""

    def __init__(self, piece: Piece, geometry: Geometry) -> None:
        self._piece = piece
        self._question = ask(piece, geometry)
        self._bucket_bits = geometry.bucket_bits
        self._book = Book.make(bucket_bits=geometry.bucket_bits)
        self._made = empty_fingerprints(geometry)
        self._spans: dict[Group, Span] = {}

    def add(self, batches: ReadableBytes, selection: Selection) -> None:
        """All of them, or none if they inflate too far.

        Where that is bounded they come again, in halves: so all of them are opened before any is added.
        """
        stretches: Iterable[Stretch] = open_groups(batches, selection, group_bytes=GROUP_BYTES)
        if selection.inflated_total_bytes_max < INFLATED_TOTAL_BYTES_MAX:
            stretches = list(stretches)
        for stretch in stretches:
            self._add_stretch(stretch)

    def finish(self) -> Summed:
        """What there is now."""
        self._take_out()
        return Summed(cells=self._made, spans=self._spans)

    def _add_stretch(self, stretch: Stretch) -> None:
        first, why = 0, FULL
        if self._question is not None:
            room = _room(stretch)
            first, why = self._sum(stretch, 0, room)
            while why == FULL:
                self._take_out()
                self._book = Book.make(bucket_bits=self._bucket_bits)
                before = first
                first, why = self._sum(stretch, before, room)
                if first == before:
                    # Not even an empty book has room for what is in this batch alone.
                    break
        if first < len(stretch.batches):
            found = stretch.scan(make_columns, first=first)
            for rows in rows_of_scan(found, self._piece) if len(found.columns.offset) else ():
                self._add_rows(rows)

    def _sum(self, stretch: Stretch, first: int, room: Room) -> tuple[int, int]:
        assert self._question is not None
        return sum_batches(
            stretch.source,
            stretch.data,
            stretch.batches,
            first,
            stretch.wanted,
            self._question,
            self._book,
            room,
        )

    def _add_rows(self, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            offsets = np.asarray(rows["offset"])
            for group in add_batch(self._made, rows):
                self._stretch(group, int(offsets.min()), int(offsets.max()) + 1)

    def _take_out(self) -> None:
        """Takes from the book what was added up; groups of a batch that did not count come again by another way."""
        count, book, names = self._book.group_count, self._book, self._book.list_names()
        tenants, stages, windows, firsts, lasts = (
            column[:count].tolist()
            for column in (book.tenant, book.stage, book.window, book.first, book.last)
        )
        groups = [Group(names[tenant], *rest) for tenant, *rest in zip(tenants, stages, windows, strict=True)]
        self._made.merge(groups, book.cells[:count])
        for group, first, last in zip(groups, firsts, lasts, strict=True):
            self._stretch(group, first, last + 1)

    def _stretch(self, group: Group, start: int, end: int) -> None:
        known = self._spans.get(group, (start, end))
        self._spans[group] = min(start, known[0]), max(end, known[1])


class Picker:
    """Reads the rows of a piece that are in some cells, and some more: all of what the kernel finds odd."""

    def __init__(self, wanted: Mapping[Group, Iterable[int]], geometry: Geometry) -> None:
        self._wanted = {group: tuple(buckets) for group, buckets in wanted.items()}
        self._geometry = geometry

    def __call__(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """A reader for `drill`."""
        for made in use_chunks(piece, self.picking(piece)):
            yield from made

    def picking(self, piece: Piece) -> Callable[[ReadableBytes, Selection], list[pa.RecordBatch]]:
        """What makes rows of the piece's batches."""
        question = ask(piece, self._geometry)
        book = None if question is None else self._open_book()

        def pick(batches: ReadableBytes, selection: Selection) -> list[pa.RecordBatch]:
            return [
                rows
                for stretch in open_groups(batches, selection, group_bytes=GROUP_BYTES)
                for found in _picked(stretch, question, book)
                for rows in rows_of_scan(found, piece)
            ]

        return pick

    def __getstate__(self) -> dict[str, Any]:
        """The book is written again where it is needed: it is larger than what it says."""
        return {name: value for name, value in self.__dict__.items() if name != "_written"}

    def _open_book(self) -> tuple[Book, NDArray[np.bool_]] | None:
        """A copy of its own for each piece: kernels note in it what they saw last, and several may be at work."""
        if self._written is None:
            return None
        book, cells = self._written
        return book.copy(), cells

    @cached_property
    def _written(self) -> tuple[Book, NDArray[np.bool_]] | None:
        """The wanted groups alone, and which of their cells; None if there are too many of them."""
        book = Book.make(bucket_bits=0, groups_max=len(self._wanted))
        secret = make_secrets(self._geometry.seed)[0]
        cells = np.zeros((len(self._wanted), 1 << self._geometry.bucket_bits), np.bool_)
        for group, buckets in self._wanted.items():
            name = as_octets(group.tenant.encode() + b"\0")[:-1]
            tenant = number_tenant(name, 0, len(name), secret, book)
            number = tenant if tenant < 0 else look_up_group(tenant, group.stage, group.window, secret, book)
            if number < 0:
                return None
            cells[number, list(buckets)] = True
        book.grows[0] = False
        return book, cells


def _picked(
    stretch: Stretch, question: Question | None, book: tuple[Book, NDArray[np.bool_]] | None
) -> Iterator[Scan]:
    """The records of marked cells up to a batch that is odd, and all from there on."""
    done = 0
    if question is not None and book is not None:
        room, columns = _room(stretch), make_columns(stretch.count_records()[0])
        done, count = pick_batches(
            stretch.source,
            stretch.data,
            stretch.batches,
            stretch.wanted,
            question,
            *book,
            room,
            columns,
        )
        if count:
            yield Scan(data=stretch.data, batches=stretch.batches[:done], columns=columns.head(count))
    if done < len(stretch.batches):
        found = stretch.scan(make_columns, first=done)
        if len(found.columns.offset):
            yield found


def _room(stretch: Stretch) -> Room:
    return Room.make(stretch.count_records()[1])
