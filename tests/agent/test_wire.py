"""Kafka's primitive types: what kafka-python writes is read, what is written kafka-python reads."""

import struct
from collections.abc import Callable
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.schemas.fields.codecs.types import UUID as KafkaUuid
from kafka.protocol.schemas.fields.codecs.types import Bytes, String, UnsignedVarInt32

from holdfast.agent.wire import Reader, Writer
from holdfast.errors import InvalidRequest

texts = st.none() | st.text(st.characters(codec="utf-8"), max_size=300)
STRING = String("utf-8")


def read(data: bytes, *, flexible: bool = True) -> Reader:
    return Reader(memoryview(data), flexible=flexible)


def written(write: Callable[[Writer], None], *, flexible: bool = True) -> bytes:
    writer = Writer(flexible=flexible)
    write(writer)
    return b"".join(writer.finish())


@given(texts, st.booleans())
def test_strings_are_kafka_pythons(text: str | None, flexible: bool) -> None:
    """Both encodings, null and empty included."""
    encoded = STRING.encode(text, compact=flexible)
    assert written(lambda writer: writer.string(text), flexible=flexible) == encoded
    reader = read(encoded, flexible=flexible)
    assert reader.string() == text
    assert not reader.rest()


@given(st.none() | st.binary(max_size=300), st.booleans())
def test_blobs_are_kafka_pythons(data: bytes | None, flexible: bool) -> None:
    """Bytes come back as they were, without a copy."""
    reader = read(Bytes.encode(data, compact=flexible), flexible=flexible)
    blob = reader.blob()
    assert (None if blob is None else bytes(blob)) == data
    assert not reader.rest()


@given(st.lists(st.binary(max_size=50), max_size=5), st.booleans())
def test_blob_of_chunks_is_one_blob(chunks: list[bytes], flexible: bool) -> None:
    """Chunks keep their order and whatever is written around them."""

    def write(writer: Writer) -> None:
        writer.raw(b"before")
        writer.blob(chunks)
        writer.raw(b"after")

    assert written(write, flexible=flexible) == b"before" + Bytes.encode(
        b"".join(chunks), compact=flexible
    ) + (b"after")


@given(st.integers(0, 2**32 - 1))
def test_varints_are_kafka_pythons(value: int) -> None:
    """All unsigned 32-bit values."""
    encoded = UnsignedVarInt32.encode(value)
    assert written(lambda writer: writer.varint(value)) == encoded
    assert read(encoded).varint() == value


@given(st.integers(-(2**7), 2**7 - 1), st.integers(-(2**15), 2**15 - 1), st.integers(-(2**63), 2**63 - 1))
def test_integers_are_big_endian_and_signed(small: int, short: int, large: int) -> None:
    """Every width at its limits."""
    reader = read(struct.pack(">bhiq", small, short, short, large))
    assert (reader.int8(), reader.int16(), reader.int32(), reader.int64()) == (small, short, short, large)


@given(st.uuids())
def test_topic_ids_are_kafka_pythons(topic_id: UUID) -> None:
    """Sixteen bytes as they are."""
    assert read(KafkaUuid.encode(topic_id)).uuid() == topic_id


def test_tagged_fields_are_stepped_over() -> None:
    """Unknown tags of any size leave the reader behind them; older versions have none."""
    tagged = b"\x02" + b"\x05\x03abc" + b"\x90\x4e\x00" + b"rest"
    reader = read(tagged)
    reader.tags()
    assert bytes(reader.rest()) == b"rest"
    reader = read(tagged, flexible=False)
    reader.tags()
    assert bytes(reader.rest()) == tagged


@pytest.mark.parametrize(
    ("data", "flexible", "take"),
    [
        (b"\0\0\0", False, Reader.int32),
        (b"\0" * 7, False, Reader.int64),
        (b"", False, Reader.int8),
        (b"\0" * 15, False, Reader.uuid),
        (b"\0\x05abcd", False, Reader.string),
        (b"\x06abcd", True, Reader.string),
        (b"\0\x02\xff\xfe", False, Reader.string),
        (b"\0\0\0\x05abcd", False, Reader.blob),
        (b"\x7f\xff\xff\xffabcd", False, Reader.blob),
        (b"\x80\x80\x80\x80\x80\x01", True, Reader.varint),
        (b"\x80", True, Reader.varint),
        (b"\x7f\xff\xff\xff", False, Reader.count),
        (b"\xff\xff\xff\xff\x0f", True, Reader.count),
        (b"\xff\xff\xff\xff\x0f\0\0", True, Reader.tags),
        (b"\x01\x00\x7f", True, Reader.tags),
    ],
)
def test_lengths_are_not_believed(data: bytes, flexible: bool, take: Callable[[Reader], object]) -> None:
    """A length past the end, an endless varint, a count that cannot fit, and bad UTF-8 are one error."""
    with pytest.raises(InvalidRequest):
        take(read(data, flexible=flexible))


@settings(max_examples=300)
@given(
    st.binary(max_size=40),
    st.booleans(),
    st.lists(
        st.sampled_from(
            ["int8", "int16", "int32", "int64", "uuid", "varint", "string", "blob", "count", "tags"]
        )
    ),
)
def test_random_bytes_do_nothing_but_raise_invalid_request(
    data: bytes, flexible: bool, steps: list[str]
) -> None:
    """Whatever is asked of whatever bytes, the reader stays inside of them."""
    reader = read(data, flexible=flexible)
    try:
        for step in steps:
            getattr(reader, step)()
    except InvalidRequest:
        pass
    assert data.endswith(bytes(reader.rest()))
