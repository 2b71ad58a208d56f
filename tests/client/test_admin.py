"""What answers at the address of an admin service need not be one."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast.client.admin import get_json
from holdfast.errors import ConnectionFailed


@contextmanager
def answering(body: bytes) -> Iterator[str]:
    """One answer, then it hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(1 << 16)
                head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n"
                peer.sendall(head.encode() + body)

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize("body", [b"<html>", b"", b'{"a": ', b'"\xff"', b'{"\xff": 1}', b"\x00"])
def test_what_is_no_json_is_told_as_such(body: bytes) -> None:
    with answering(body) as address, pytest.raises(ConnectionFailed, match="not Holdfast's admin service"):
        get_json(address, "/status")


def test_json_is_read() -> None:
    with answering(b'{"a": [1, null, "\xc3\xa4"]}') as address:
        assert get_json(address, "/status") == {"a": [1, None, "ä"]}
