"""Who a topic's records are, column by column: what `identify` says of one record, for a whole Arrow batch.

Where a batch holds what only plain Python can judge, a broken text or a JSON path, that column is made record by
record.
"""

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.pipelines.config import EndState
from holdfast.pipelines.identity import EPOCH_MS, INSTANT, Identity, Location, Part, parse_time_ms
from holdfast.pipelines.identity import SEPARATOR as SEPARATOR  # noqa: PLC0414  it is told from here
from holdfast.pipelines.json_paths import find_in_json

CANARY_HEADER: Final = "holdfast_canary"
"""A record that bears it was sent to see whether it arrives: it is nobody's message."""


def needed_columns(identity: Identity) -> list[str]:
    """The decoder's columns that have to be read."""
    parts = {each.part for each in (identity.id, identity.source, identity.tenant, identity.time) if each}
    names = ["offset", "timestamp", "headers"]
    return names + [part.value for part in (Part.KEY, Part.VALUE) if part in parts]


def find_text(batch: pa.RecordBatch, location: Location) -> pa.Array:
    """The text there; null for none and for what cannot be read."""
    texts = _read_text(batch, location)
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


def _read_text(batch: pa.RecordBatch, location: Location) -> pa.Array:
    """The text there; empty for none, null for what cannot be read."""
    if location.part is Part.VALUE:
        found = [find_in_json(value, location.json_path) for value in batch["value"].to_pylist()]
        return pa.array(found, pa.string())
    raw = batch["key"] if location.part is Part.KEY else find_header(batch["headers"], location.header)
    return _as_text(pc.fill_null(raw, b""))


def _read_names(batch: pa.RecordBatch, location: Location) -> pa.Array:
    """Texts that may be a part of an identity."""
    texts = _read_text(batch, location)
    return pc.if_else(pc.match_substring(texts, SEPARATOR), pa.scalar(None, pa.string()), texts)


def find_header(lists: pa.ListArray, name: str) -> pa.Array:
    """The value of each record's last header of this name; null for none."""
    entries = lists.flatten()
    starts = np.asarray(lists.offsets) - lists.offsets[0].as_py()
    hits = np.flatnonzero(np.asarray(pc.fill_null(pc.equal(entries.field("key"), name), False)))
    positions = np.full(len(lists), -1, np.int64)
    # In rising order: of several the last is what stays.
    positions[np.searchsorted(starts, hits, side="right") - 1] = hits
    return entries.field("value").take(pa.array(positions, mask=positions < 0))


def find_times(batch: pa.RecordBatch, location: Location) -> pa.Array:
    """When each message happened, in milliseconds; the record's own time where it does not say."""
    own = batch["timestamp"].view(pa.int64())
    if location.part is Part.TIMESTAMP:
        return own
    return pc.coalesce(parse_times(find_text(batch, location)), own)


def parse_times(texts: pa.Array) -> pa.Array:
    """`parse_time_ms` of each."""
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), pa.int64())
    for pattern, read in ((EPOCH_MS.pattern, _read_numbers), (INSTANT.pattern, _read_instants)):
        alike = pc.match_substring_regex(texts, f"^(?:{pattern})$")
        if pc.all(alike, skip_nulls=True).as_py():
            try:
                return read(texts)
            except pa.ArrowInvalid:
                break
    return pa.array([None if text is None else parse_time_ms(text) for text in texts.to_pylist()], pa.int64())


def identities(
    batch: pa.RecordBatch, identity: Identity, fallback: Callable[[pa.Array], Iterable[str]]
) -> tuple[pa.Array, pa.Array]:
    """Which messages these are, as bytes to compare, and for each whether it does not say so itself.

    Source and id together are unique. For a message without an id `fallback` tells, given the rows' numbers: behind
    two separators, so that no source and no id can say the same.
    """
    ids = _read_names(batch, identity.id)
    nameless = pc.fill_null(pc.equal(ids, ""), True)
    named = ids
    if identity.source is not None:
        sources = _read_names(batch, identity.source)
        nameless = pc.or_(nameless, sources.is_null())
        named = pc.binary_join_element_wise(sources, ids, SEPARATOR)
    if nameless.true_count:
        rows = pc.indices_nonzero(nameless)
        told = pa.array([2 * SEPARATOR + each for each in fallback(rows)], pa.string())
        named = pc.replace_with_mask(named, nameless, told)
    return named.cast(pa.binary()), nameless


def split_identity(identity: bytes) -> tuple[str | None, str]:
    """Source and id again."""
    source, _, single = identity.decode(errors="replace").rpartition(SEPARATOR)
    return source.strip(SEPARATOR) or None, single


def end_states(texts: pa.Array) -> pa.Array:
    """The number of each end state among all, null for none that is known."""
    return pc.index_in(texts, value_set=pa.array([state.value for state in EndState], pa.string()))


def _read_numbers(texts: pa.Array) -> pa.Array:
    return texts.cast(pa.int64())


def _read_instants(texts: pa.Array) -> pa.Array:
    # Arrow reads a capital T, a space, Z and +HH:MM; what else the pattern lets through makes it raise.
    moments = texts.cast(pa.timestamp("us", "UTC")).view(pa.int64())
    return pa.array(
        np.asarray(pc.fill_null(moments, 0)) // 1000, pa.int64(), mask=np.asarray(texts.is_null())
    )


def _as_text(raw: pa.Array) -> pa.Array:
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_decode(each) for each in raw.to_pylist()], pa.string())


def _decode(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None
