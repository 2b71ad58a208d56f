"""Which names of transactional ids and groups are remembered."""

from holdfast.errors import InvalidGroupId, InvalidRequest

ID_BYTES_MAX = 2**15 - 1
"""As long as Kafka lets a string be; the compact lengths of flexible versions alone would allow for megabytes."""


def check_transactional_id(name: str) -> str:
    """The name, if it is one; InvalidRequest. Every request that brings one comes through here."""
    if not name:
        raise InvalidRequest("a transactional id without letters")
    if _is_too_long(name):
        raise InvalidRequest(f"a transactional id of more than {ID_BYTES_MAX} bytes")
    return name


def check_group(name: str) -> str:
    """The name of a group that is announced, if it is not too long; InvalidGroupId."""
    if _is_too_long(name):
        raise InvalidGroupId(f"a group whose name has more than {ID_BYTES_MAX} bytes")
    return name


def _is_too_long(name: str) -> bool:
    # A character takes four bytes at most: a name of usual length need not be encoded.
    return len(name) > ID_BYTES_MAX // 4 and len(name.encode()) > ID_BYTES_MAX
