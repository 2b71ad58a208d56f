"""Which transactional ids may be asked for."""

from holdfast.errors import InvalidRequest

ID_BYTES_MAX = 2**15 - 1
"""As long as Kafka lets a string be; the compact lengths of flexible versions alone would allow for megabytes."""


def check_transactional_id(name: str) -> str:
    """The name, if it is one; InvalidRequest. Every request that brings one comes through here."""
    if not name:
        raise InvalidRequest("a transactional id without letters")
    # A character takes four bytes at most: an id of usual length need not be encoded.
    if len(name) > ID_BYTES_MAX // 4 and len(name.encode()) > ID_BYTES_MAX:
        raise InvalidRequest(f"a transactional id of more than {ID_BYTES_MAX} bytes")
    return name
