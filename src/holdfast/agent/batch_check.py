"""What a batch must be like before it is queued: whole, sound, within limits, and the client's to write."""

from holdfast.agent.topic_config import MAX_MESSAGE_BYTES, is_compacted
from holdfast.control.plane import Topic
from holdfast.errors import CorruptBatch, CorruptMessage, InflatesTooFar, InvalidRecord, MessageTooLarge
from holdfast.records.batch import HEADER_BYTES, MAGIC_AT, BatchView, validate
from holdfast.records.keys import find_keyless

OLD_MAGIC = (0, 1)

# What one batch of a compacted topic, whose records are looked at on the event loop, may cost everybody else.
INFLATED_BYTES_MAX = 64 << 20
RECORDS_MAX = 100_000
KEYLESS_MAX = 10_000
"""So many are named in an answer: as many as librdkafka puts into a batch."""


def check_batch(topic: Topic, records: memoryview | None, *, bytes_max: int) -> BatchView:
    """One valid batch and nothing else, such as the topic takes; its own limit comes before `bytes_max`."""
    if not records:
        raise InvalidRecord("no record batch")
    if len(records) > int(topic.configs.get(MAX_MESSAGE_BYTES, bytes_max)):
        raise MessageTooLarge(f"{len(records)} bytes are over {MAX_MESSAGE_BYTES} of {topic.name!r}")
    if len(records) > MAGIC_AT and records[MAGIC_AT] in OLD_MAGIC:
        raise InvalidRecord(f"record format v{records[MAGIC_AT]}: only v2 is stored")
    try:
        view = validate(records)
    except CorruptBatch as corrupt:
        refusal = CorruptMessage if _is_whole(records) else InvalidRecord
        raise refusal(str(corrupt)) from corrupt
    if view.size_bytes != len(records):
        raise InvalidRecord("more than one batch for a partition")
    _check_header(view)
    if is_compacted(topic):
        _check_keys(topic, view)
    return view


def _check_header(view: BatchView) -> None:
    """What is legal in a log, but not for a client to write."""
    if view.base_offset != 0 or view.record_count != view.last_offset_delta + 1:
        raise InvalidRecord(
            f"{view.record_count} records at offsets {view.base_offset} to {view.last_offset}: a producer counts"
            " from 0, without a gap"
        )
    if view.producer_id >= 0 and (view.producer_epoch < 0 or view.base_sequence < 0):
        raise InvalidRecord("a producer id without an epoch or a sequence number")
    if view.is_control:
        raise InvalidRecord("control batches are not for clients to write")
    if view.is_transactional and view.producer_id < 0:
        raise InvalidRecord("a transactional batch without a producer id")


def _check_keys(topic: Topic, view: BatchView) -> None:
    """Every record has a key; on the way all of them are found to be sound, so that none can stop a compaction."""
    if view.record_count > RECORDS_MAX:
        raise MessageTooLarge(
            f"{view.record_count} records: {RECORDS_MAX} at most in a batch of a compacted topic"
        )
    try:
        keyless = find_keyless(
            view,
            found_max=KEYLESS_MAX,
            inflated_bytes_max=max(INFLATED_BYTES_MAX, view.size_bytes),
        )
    except InflatesTooFar as bomb:
        # Clients that can make smaller batches of it do so when they are told this.
        raise MessageTooLarge(str(bomb)) from bomb
    except CorruptBatch as corrupt:
        raise InvalidRecord(str(corrupt)) from corrupt
    if keyless:
        raise InvalidRecord(
            f"records without a key are not taken: topic {topic.name!r} is compacted", records=keyless
        )


def _is_whole(records: memoryview) -> bool:
    """Whether the batch has as many bytes as it says; Kafka tells a cut from damage by the error code."""
    return len(records) >= HEADER_BYTES and BatchView(records).size_bytes <= len(records)
