"""Other people's readers and writers of record batches, and hypothesis strategies for what goes in."""

import warnings
from collections.abc import Sequence
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import strategies as st

from holdfast.records.batch import Codec
from holdfast.records.record import Record

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas in an old way
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

__all__ = ["AiokafkaBatch", "AiokafkaBuilder", "KafkaPythonBatch", "KafkaPythonBuilder"]

BATCH_BYTES_MAX = 1 << 24

# kafka-python finds only gzip here: it takes the other codecs from packages that we do not install.
READERS = {
    **{("aiokafka", codec): AiokafkaBatch for codec in Codec},
    **{("kafka-python", codec): KafkaPythonBatch for codec in (Codec.NONE, Codec.GZIP)},
}
WRITERS = {
    **{("aiokafka", codec): AiokafkaBuilder for codec in Codec},
    **{("kafka-python", codec): KafkaPythonBuilder for codec in (Codec.NONE, Codec.GZIP)},
}

field = st.none() | st.binary(max_size=200)
header = st.tuples(st.text(st.characters(codec="utf-8"), max_size=12), st.none() | st.binary(max_size=40))
timestamp_ms = st.integers(0, 2**42)
record = st.builds(
    Record,
    key=field,
    value=field,
    headers=st.lists(header, max_size=4).map(tuple),
    timestamp_ms=timestamp_ms,
)
records = st.lists(record, min_size=1, max_size=30)
base_offset = st.integers(0, 2**62)


@st.composite
def gapped_records(draw: st.DrawFn) -> tuple[int, list[Record]]:
    """A base offset, and records with offsets of their own that leave gaps."""
    start = draw(base_offset)
    steps = draw(st.lists(st.integers(1, 70_000), min_size=1, max_size=20))
    offsets = [start + sum(steps[: i + 1]) for i in range(len(steps))]
    bare = draw(st.lists(record, min_size=len(steps), max_size=len(steps)))
    return start, [at_offset(one, offset) for one, offset in zip(bare, offsets, strict=True)]


def at_offset(one: Record, offset: int) -> Record:
    """The record, placed."""
    return Record(
        key=one.key, value=one.value, headers=one.headers, timestamp_ms=one.timestamp_ms, offset=offset
    )


def numbered(bare: Sequence[Record], start: int) -> list[Record]:
    """Records placed one after the other."""
    return [at_offset(one, start + index) for index, one in enumerate(bare)]


def write(builder: Any, bare: Sequence[Record], codec: Codec, **producer: int) -> bytes:
    """A batch as another library builds it."""
    fields = {"is_transactional": 0, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1} | producer
    batch = builder(magic=2, compression_type=int(codec), batch_size=BATCH_BYTES_MAX, **fields)
    for index, one in enumerate(bare):
        assert batch.append(index, one.timestamp_ms, one.key, one.value, list(one.headers)) is not None
    return bytes(batch.build())


def read(reader: Any, batch: bytes) -> list[Record]:
    """The records that another library finds in a batch whose CRC it has checked."""
    parsed = reader(batch)
    assert parsed.validate_crc()
    return [
        Record(
            key=one.key,
            value=one.value,
            headers=tuple(one.headers),
            timestamp_ms=one.timestamp,
            offset=one.offset,
        )
        for one in parsed
    ]
