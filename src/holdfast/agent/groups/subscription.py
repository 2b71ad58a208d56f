"""The one thing that a coordinator reads in a member's metadata: the topics that a consumer subscribes to."""

import struct

CONSUMER = "consumer"
"""The protocol type of consumers; others (connect, schema registries) have metadata of their own."""

_HEAD = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Topics of a consumer's subscription, any version of it; None if the bytes are something else."""
    topics = set()
    try:
        _, count = _HEAD.unpack_from(metadata)
        position = _HEAD.size
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, position)
            position += _LENGTH.size
            name = metadata[position : position + length]
            if length < 0 or len(name) < length:
                return None
            topics.add(name.decode())
            position += length
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
