"""One connection to one Kafka endpoint."""

import select
import socket
import ssl
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from types import TracebackType
from typing import Any, Final, NoReturn, Self

from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from holdfast.client.sasl import Credentials
from holdfast.client.security import PLAINTEXT, Security, Tls
from holdfast.errors import ConnectionFailed, HandshakeFailed, UnsupportedVersion

FRAME_BYTES_MAX: Final = 256 << 20
"""Larger answers are refused: they come from something that does not speak Kafka, or from a broken peer."""

FEATURES_VERSIONS: Final = (3, 4)
"""Versions of ApiVersions that tell of features."""

SASL_HANDSHAKE_VERSIONS: Final = (1, 1)
SASL_AUTHENTICATE_VERSIONS: Final = (0, 2)
"""From 1 on the broker says how long it believes us (KIP-368)."""
ILLEGAL_SASL_STATE: Final = 34
BELIEVED_SHARE: Final = 0.8
"""Of that time, after which we prove anew who we are."""

Allocate = Callable[[int], memoryview]
"""Memory for so many bytes, whatever is in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taker:
    """How an answer without flexible headers is taken, in place of kafka-python, which copies what it decodes."""

    decode: Callable[[memoryview, int], Any]
    """Makes an answer of its bytes, without the header, and its version."""
    allocate: Allocate


NEEDS_TLS: Final = "With TLS it takes security.protocol=ssl or sasl_ssl"
BROKEN_TLS: Final = (
    "does it speak TLS there, and does it want a certificate of ours (ssl.certificate.location)?"
)


def allocate(size: int) -> memoryview:
    """Memory from Python, zeroed."""
    return memoryview(bytearray(size))


class Connection:
    """A connected socket that answers one request at a time; not for use by several threads.

    `timeout` bounds the connection attempt and every wait for bytes. After any failure the connection is
    closed for good, since the place in the byte stream is lost: make a new one. HandshakeFailed, once and for all, if
    the two sides do not trust each other.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str = "holdfast",
        timeout: float = 30.0,
        security: Security = PLAINTEXT,
    ) -> None:
        self.address: Final = f"{host}:{port}"
        self.closed = False
        self._client_id = client_id
        self._correlation_id = 0
        self._credentials = security.credentials
        self._believed_until: float | None = None
        try:
            self._socket = socket.create_connection((host, port), timeout=timeout)
        except OSError as error:
            self.closed = True
            raise ConnectionFailed(
                f"cannot connect to {self.address} ({_reason(error)}): "
                "is the broker running, and is this the address it listens on?"
            ) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if security.tls is not None:
            self._socket = self._wrap(security.tls, host)
        self._versions = self._negotiate()
        if self._credentials is not None:
            self._authenticate(self._credentials)

    def send(self, request: Any, *, versions: tuple[int, int], taker: Taker | None = None) -> Any:
        """Sends a kafka-python request in the highest of `versions` that both know; returns the answer."""
        self._stay_believed()
        request.API_VERSION = self._version_for(request, versions)
        return self._exchange(request, taker)

    def post(self, request: Any, *, versions: tuple[int, int]) -> None:
        """Sends a request that gets no answer: a produce with acks=0."""
        self._stay_believed()
        request.API_VERSION = self._version_for(request, versions)
        self._post(request)

    def check_offers(self, request_class: Any, *, versions: tuple[int, int]) -> None:
        """Raises UnsupportedVersion unless the broker takes such a request in one of these versions."""
        self._version_for(request_class, versions)

    def finalized_features(self) -> dict[str, int]:
        """The levels that the cluster has agreed on, by feature (KIP-584); none where it is too old for them."""
        if self._versions.get(ApiVersionsRequest.API_KEY, (0, 0))[1] < FEATURES_VERSIONS[0]:
            return {}
        request = ApiVersionsRequest(
            client_software_name="holdfast", client_software_version=version("holdfast")
        )
        answer = self.send(request, versions=FEATURES_VERSIONS)
        if answer.error_code:
            self._fail(f"refused to list its features (Kafka error {answer.error_code})")
        if answer.finalized_features_epoch < 0:
            return {}
        return {each.name: each.max_version_level for each in answer.finalized_features}

    def is_over(self) -> bool:
        """Whether it is closed, by us or, while nothing was asked, by a broker that restarted or found it idle."""
        if not self.closed and _hung_up(self._socket):
            self.close()
        return self.closed

    def close(self) -> None:
        """Ends the connection; calling it again does nothing."""
        if not self.closed:
            self.closed = True
            self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wrap(self, tls: Tls, host: str) -> ssl.SSLSocket:
        try:
            return tls.make_context().wrap_socket(self._socket, server_hostname=host)
        except ssl.SSLError as error:
            self._distrust(error)
        except OSError as error:
            self._fail(f"broke off while TLS began ({_reason(error)}): {BROKEN_TLS}", error)

    def _authenticate(self, credentials: Credentials) -> None:
        """SASL by requests of its own, as brokers take it since 1.0; the second time on a connection too (KIP-368)."""
        shaken = self._ask(SaslHandshakeRequest(mechanism=credentials.mechanism), SASL_HANDSHAKE_VERSIONS)
        if shaken.error_code == ILLEGAL_SASL_STATE:
            self._refuse("wants no SASL at this address: security.protocol is plaintext or ssl there")
        if shaken.error_code:
            offered = ", ".join(shaken.mechanisms) or "none"
            self._refuse(f"does not take sasl.mechanism {credentials.mechanism}: it offers {offered}")
        exchange = credentials.exchange()
        token = next(exchange)
        while True:
            answer = self._ask(SaslAuthenticateRequest(auth_bytes=token), SASL_AUTHENTICATE_VERSIONS)
            if answer.error_code:
                why = answer.error_message or f"Kafka error {answer.error_code}"
                self._refuse(f"does not take user {credentials.username!r} and the password for it ({why})")
            lifetime_ms = getattr(answer, "session_lifetime_ms", None) or 0
            try:
                token = exchange.send(bytes(answer.auth_bytes))
            except StopIteration:
                break
            except HandshakeFailed as failure:
                self.close()
                raise HandshakeFailed(f"{self.address}: {failure}") from None
        self._believed_until = time.monotonic() + lifetime_ms / 1000 * BELIEVED_SHARE if lifetime_ms else None

    def _ask(self, request: Any, versions: tuple[int, int]) -> Any:
        request.API_VERSION = self._version_for(request, versions)
        return self._exchange(request)

    def _stay_believed(self) -> None:
        """A broker hangs up on who does not prove anew in time who it is."""
        if self._believed_until is not None and time.monotonic() > self._believed_until:
            assert self._credentials is not None
            self._authenticate(self._credentials)

    def _negotiate(self) -> dict[int, tuple[int, int]]:
        # Version 0 is the one that every broker answers (KIP-511), and it says all that is needed here.
        answer = self._exchange(ApiVersionsRequest(version=0))
        if answer.error_code:
            self._fail(f"refused to list its API versions (Kafka error {answer.error_code})")
        return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}

    def _version_for(self, request: Any, versions: tuple[int, int]) -> int:
        theirs = self._versions.get(request.API_KEY)
        name = request.name.removesuffix("Request")
        if theirs is None:
            raise UnsupportedVersion(f"the broker at {self.address} does not offer {name}")
        version = min(versions[1], theirs[1])
        if version < max(versions[0], theirs[0]):
            raise UnsupportedVersion(
                f"the broker at {self.address} speaks {name} versions {theirs[0]} to {theirs[1]}, "
                f"this client {versions[0]} to {versions[1]}: upgrade the older side"
            )
        return int(version)

    def _post(self, request: Any) -> None:
        if self.closed:
            raise ConnectionFailed(f"the connection to {self.address} is closed")
        self._correlation_id = (self._correlation_id + 1) & 0x7FFF_FFFF
        request.with_header(correlation_id=self._correlation_id, client_id=self._client_id)
        try:
            self._socket.sendall(request.encode(header=True, framed=True))
        except OSError as error:
            self._look_for_alert()
            self._fail(f"broke off during {request.name} ({_reason(error)})", error)
        except BaseException:
            self.close()  # half of a request may be out: the next one would be taken for its rest
            raise

    def _look_for_alert(self) -> None:
        """With TLS 1.3 a broker that does not take our certificate says so after the handshake, and hangs up."""
        if isinstance(self._socket, ssl.SSLSocket):
            try:
                self._socket.recv(1)
            except ssl.SSLError as error:
                self._distrust(error)
            except OSError:
                return  # it hung up so fast that its reason was lost

    def _exchange(self, request: Any, taker: Taker | None = None) -> Any:
        try:
            self._post(request)
            frame = self._receive(self._frame_bytes(), allocate if taker is None else taker.allocate)
        except ssl.SSLError as error:
            self._distrust(error)
        except OSError as error:
            self._fail(f"broke off during {request.name} ({_reason(error)})", error)
        except BaseException:
            self.close()  # there may be no memory for the answer: it would be taken for the next one
            raise
        return self._decode(request, frame, taker)

    def _frame_bytes(self) -> int:
        (size,) = struct.unpack(">i", self._receive(4))
        if not 4 <= size <= FRAME_BYTES_MAX:
            self._fail(
                f"announced an answer of {size} bytes: does a Kafka broker listen there, without TLS? {NEEDS_TLS}"
            )
        return int(size)

    def _receive(self, size: int, allocate: Allocate = allocate) -> memoryview:
        buffer = allocate(size)
        filled = 0
        while filled < size:
            count = self._socket.recv_into(buffer[filled:])
            if count == 0:
                raise ConnectionResetError("the other side closed the connection")
            filled += count
        return buffer

    def _decode(self, request: Any, frame: memoryview, taker: Taker | None) -> Any:
        (correlation_id,) = struct.unpack_from(">i", frame)
        if correlation_id != self._correlation_id:
            self._fail(f"answered request {correlation_id} instead of {self._correlation_id}")
        response_class = request.header.get_response_class()
        try:
            if taker is not None:
                return taker.decode(frame[4:], request.API_VERSION)
            if response_class.flexible_version_q(request.API_VERSION):
                # kafka-python skips the header's tagged fields, at the cost of a copy.
                return response_class.decode(frame, header=True)
            return response_class.decode(frame[4:])
        except (ValueError, IndexError, KeyError, TypeError, EOFError, struct.error) as error:
            self._fail(f"sent an answer to {request.name} that cannot be read ({error})", error)

    def _distrust(self, error: ssl.SSLError) -> NoReturn:
        if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            self._fail(f"broke off within TLS: {BROKEN_TLS}", error)
        self._refuse(f"and this client do not agree on TLS ({_tls_reason(error)})", error)

    def _refuse(self, what: str, cause: Exception | None = None) -> NoReturn:
        self.close()
        raise HandshakeFailed(f"the broker at {self.address} {what}") from cause

    def _fail(self, what: str, cause: Exception | None = None) -> NoReturn:
        self.close()
        raise ConnectionFailed(f"the broker at {self.address} {what}") from cause


def _hung_up(connected: socket.socket) -> bool:
    look = select.poll()
    look.register(connected, getattr(select, "POLLRDHUP", 0))
    return bool(look.poll(0))


def _tls_reason(error: ssl.SSLError) -> str:
    """In the words of the certificate's check, else of OpenSSL; what people meet most often with what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate: {error.verify_message}; ssl.ca.location names whom to trust"
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if reason == "wrong version number":
        return "it does not speak TLS at this address"
    if "alert" in reason:
        return f"it says: {reason}; ssl.certificate.location and ssl.key.location name ours"
    return reason


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    return error.strerror or str(error)
