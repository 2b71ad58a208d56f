"""A broker of a few lines whose every answer a test decides."""

import socket
import ssl
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from kafka.protocol.admin import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse
from kafka.protocol.producer import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

Handler = Callable[[Any], Any]

MESSAGES = (
    (ApiVersionsRequest, ApiVersionsResponse),
    (DescribeProducersRequest, DescribeProducersResponse),
    (FetchRequest, FetchResponse),
    (InitProducerIdRequest, InitProducerIdResponse),
    (ListOffsetsRequest, ListOffsetsResponse),
    (ListTransactionsRequest, ListTransactionsResponse),
    (MetadataRequest, MetadataResponse),
    (ProduceRequest, ProduceResponse),
    (SaslAuthenticateRequest, SaslAuthenticateResponse),
    (SaslHandshakeRequest, SaslHandshakeResponse),
)
REQUESTS = {request.API_KEY: request for request, _ in MESSAGES}
RESPONSES = {request.API_KEY: response for request, response in MESSAGES}
OFFERED = {1: (4, 12), 2: (1, 7), 3: (0, 12), 18: (0, 3)}


class FakeBroker:
    """Listens on loopback and answers each request by the handler of its class; None breaks off.

    A handler gets the decoded request and returns the fields of the answer.
    """

    def __init__(
        self,
        handlers: dict[Any, Handler],
        *,
        offered: dict[int, tuple[int, int]] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._tls = tls
        self.handlers = {request.API_KEY: handler for request, handler in handlers.items()}
        self.offered = OFFERED if offered is None else offered
        self.received: list[Any] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _accept(self) -> None:
        workers = []
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                worker = threading.Thread(target=self._serve, args=(connection,))
                worker.start()
                workers.append(worker)
        for worker in workers:
            worker.join()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError, struct.error):
            if self._tls is not None:
                connection.settimeout(10)
                connection = self._tls.wrap_socket(connection, server_side=True)
                self._open.append(connection)
            with connection, connection.makefile("rb") as incoming:
                while True:
                    (size,) = struct.unpack(">i", incoming.read(4))
                    answer = self._answer(incoming.read(size))
                    if answer is None:
                        return
                    connection.sendall(answer)

    def _answer(self, frame: bytes) -> bytes | None:
        api_key, version = struct.unpack_from(">hh", frame)
        request = REQUESTS[api_key].decode(frame, version=version, header=True)
        is_asked_for_versions = api_key == ApiVersionsRequest.API_KEY and api_key not in self.handlers
        fields = self.api_versions() if is_asked_for_versions else self._handle(api_key, request)
        if fields is None:
            return None
        response = RESPONSES[api_key](version=version, **fields)
        response.with_header(correlation_id=request.header.correlation_id)
        return bytes(response.encode(header=True, framed=True))

    def _handle(self, api_key: int, request: Any) -> Any:
        self.received.append(request)
        return self.handlers[api_key](request)

    def api_versions(self) -> dict[str, Any]:
        """What it offers, as it says so unless a handler says something else."""
        entry = ApiVersionsResponse.ApiVersion
        keys = [
            entry(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.offered.items()
        ]
        return {"error_code": 0, "api_keys": keys}
