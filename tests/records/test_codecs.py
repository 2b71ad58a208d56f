"""Every codec in every framing that clients produce, and payloads that lie."""

import gzip
import random
import struct
import time
import tracemalloc

import cramjam
import pytest
from aiokafka import codec as aiokafka_codec

from holdfast.errors import CorruptBatch
from holdfast.records.batch import Codec
from holdfast.records.codecs import compress, decompress

MIB = 1 << 20
TEXT = b"the quick brown fox jumps over the lazy dog; " * 5_000
NOISE = random.Random(1).randbytes(100_000)
COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]


def zstd_stream(data: bytes) -> bytes:
    """A frame without a content size, as streaming encoders (the Java client's) write it."""
    compressor = cramjam.zstd.Compressor(level=3)
    compressor.compress(data)
    return bytes(compressor.finish())


def xerial(data: bytes, block_bytes: int = 32 << 10) -> bytes:
    """snappy as the Java client frames it."""
    framed = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for start in range(0, len(data), block_bytes):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + block_bytes]))
        framed += struct.pack(">i", len(block)) + block
    return framed


def bombs() -> dict[str, tuple[Codec, bytes]]:
    """Small payloads that inflate to 64 MiB, or claim to."""
    zeros = bytes(64 * MIB)
    return {
        "gzip": (Codec.GZIP, gzip.compress(zeros, 9)),
        "gzip members": (Codec.GZIP, gzip.compress(zeros[: 2 * MIB], 9) * 32),
        "snappy": (Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(zeros))),
        "snappy that lies": (Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(100)),
        "xerial": (Codec.SNAPPY, xerial(zeros, 2 * MIB)),
        "lz4": (Codec.LZ4, compress(Codec.LZ4, zeros)),
        "zstd": (Codec.ZSTD, compress(Codec.ZSTD, zeros)),
        "zstd without size": (Codec.ZSTD, zstd_stream(zeros)),
        "zstd frames": (Codec.ZSTD, compress(Codec.ZSTD, zeros[: 2 * MIB]) * 32),
        "zstd that claims 2**63": (Codec.ZSTD, bytes.fromhex("28b52ffd e0 ffffffffffffff7f") + bytes(50)),
    }


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize(
    "data", [b"", b"x", TEXT, NOISE, bytes(5 * MIB)], ids=["0", "1", "text", "noise", "zeros"]
)
def test_there_and_back(codec: Codec, data: bytes) -> None:
    """What was compressed comes back, from nothing at all to a ratio in the thousands."""
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize(
    ("codec", "payload"),
    [
        (Codec.GZIP, aiokafka_codec.gzip_encode(TEXT)),
        (Codec.GZIP, gzip.compress(TEXT[:7000]) + gzip.compress(TEXT[7000:])),
        (Codec.SNAPPY, aiokafka_codec.snappy_encode(TEXT)),
        (Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))),
        (Codec.SNAPPY, xerial(TEXT, 999)),
        (Codec.LZ4, aiokafka_codec.lz4_encode(TEXT)),
        (Codec.LZ4, bytes(cramjam.lz4.compress(TEXT))),
        (Codec.LZ4, compress(Codec.LZ4, TEXT[:9]) + compress(Codec.LZ4, TEXT[9:])),
        (Codec.ZSTD, aiokafka_codec.zstd_encode(TEXT)),
        (Codec.ZSTD, zstd_stream(TEXT)),
        (Codec.ZSTD, compress(Codec.ZSTD, TEXT[:9]) + zstd_stream(TEXT[9:])),
    ],
    ids=[
        "gzip",
        "gzip members",
        "xerial",
        "plain snappy",
        "xerial blocks",
        "lz4",
        "lz4 linked blocks",
        "lz4 frames",
        "zstd",
        "zstd without size",
        "zstd frames",
    ],
)
def test_framings_that_clients_produce(codec: Codec, payload: bytes) -> None:
    """Each framing seen in the wild inflates, from the middle of a read-only buffer too."""
    buffer = memoryview(b"before" + payload + b"after")[6 : 6 + len(payload)]
    assert decompress(codec, buffer) == TEXT


def test_lz4_blocks_are_independent() -> None:
    """The Java client refuses frames whose blocks depend on each other (KIP-57)."""
    flags = compress(Codec.LZ4, TEXT)[4]
    assert flags >> 5 & 1 == 1


@pytest.mark.parametrize("name", bombs())
def test_a_bomb_is_refused_within_the_bound(name: str) -> None:
    """64 MiB out of a few kilobytes: refused, and never more than a few times the bound in memory."""
    codec, payload = bombs()[name]
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch):
            decompress(codec, payload, bytes_max=4 * MIB)
        assert tracemalloc.get_traced_memory()[1] < 10 * MIB
    finally:
        tracemalloc.stop()


def test_gzip_members_cost_no_more_than_their_bytes() -> None:
    """8 MiB of empty members, 419,430 of them, are refused at once; 1,000 in 8 MiB are read in one pass."""
    empty = gzip.compress(b"")
    noise = gzip.compress(random.Random(2).randbytes(8 << 10), 1)
    start = time.process_time()
    with pytest.raises(CorruptBatch, match="gzip members"):
        decompress(Codec.GZIP, empty * (8 * MIB // len(empty)))
    assert len(decompress(Codec.GZIP, noise * 1000)) == 1000 * (8 << 10)
    assert time.process_time() - start < 0.5


@pytest.mark.parametrize("codec", Codec)
def test_the_bound_itself_is_allowed(codec: Codec) -> None:
    """Exactly bytes_max inflates; one byte less of room does not."""
    payload = compress(codec, TEXT)
    assert decompress(codec, payload, bytes_max=len(TEXT)) == TEXT
    with pytest.raises(CorruptBatch, match="more than"):
        decompress(codec, payload, bytes_max=len(TEXT) - 1)


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("kind", ["truncated", "flipped", "noise"])
def test_broken_payloads_raise_one_error(codec: Codec, kind: str) -> None:
    """Cut, changed or random payloads inflate to something or raise CorruptBatch, and nothing else."""
    seeded = random.Random(7)
    whole = [compress(codec, TEXT[:3000])]
    whole.append(xerial(TEXT[:3000], 500) if codec is Codec.SNAPPY else whole[0] * 2)
    for _ in range(300):
        payload = bytearray(seeded.choice(whole))
        if kind == "truncated":
            del payload[seeded.randrange(len(payload)) :]
        elif kind == "flipped":
            payload[seeded.randrange(len(payload))] ^= 1 << seeded.randrange(8)
        else:
            payload[seeded.randrange(4, 20) :] = seeded.randbytes(seeded.randrange(60))
        try:
            inflated = decompress(codec, bytes(payload), bytes_max=MIB)
        except CorruptBatch:
            continue
        assert len(inflated) <= MIB


@pytest.mark.parametrize("codec", COMPRESSED)
def test_nothing_is_not_a_payload(codec: Codec) -> None:
    """An empty payload was never compressed by anyone."""
    with pytest.raises(CorruptBatch):
        decompress(codec, b"")
