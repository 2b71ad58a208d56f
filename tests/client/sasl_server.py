"""The broker's side of SASL, written from RFC 5802 alone: a client is believed only if it proves itself."""

import base64
import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

SALT = b"salt of a test"
ITERATIONS = 4096
REFUSED = 58
OFFERED = {3: (0, 12), 17: (0, 1), 18: (0, 3), 36: (0, 2)}


@dataclass
class SaslServer:
    """Knows one user; `handlers` are for a FakeBroker."""

    username: str
    password: str
    offers: tuple[str, ...] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    session_ms: int = 0
    knows_password: bool = True
    """Else it lets everybody in, as one would who only wants to be told secrets."""
    handshakes: list[str] = field(default_factory=list)
    _first: str = ""
    _challenge: str = ""

    @property
    def handlers(self) -> dict[Any, Any]:
        return {SaslHandshakeRequest: self._shake, SaslAuthenticateRequest: self._authenticate}

    def _shake(self, request: Any) -> dict[str, Any]:
        self.handshakes.append(request.mechanism)
        self._first = ""
        code = 0 if request.mechanism in self.offers else 33
        return {"error_code": code, "mechanisms": list(self.offers)}

    def _authenticate(self, request: Any) -> dict[str, Any]:
        told = bytes(request.auth_bytes)
        answer = self._plain(told) if self.handshakes[-1] == "PLAIN" else self._scram(told.decode())
        return {
            "error_code": REFUSED if answer is None else 0,
            "error_message": "Authentication failed" if answer is None else None,
            "auth_bytes": answer or b"",
            "session_lifetime_ms": self.session_ms,
        }

    def _plain(self, told: bytes) -> bytes | None:
        return b"" if told == f"\0{self.username}\0{self.password}".encode() else None

    def _scram(self, told: str) -> bytes | None:
        if not self._first:
            assert told.startswith("n,,")
            self._first = told.removeprefix("n,,")
            fields = dict(part.split("=", 1) for part in self._first.split(","))
            if fields["n"].replace("=2C", ",").replace("=3D", "=") != self.username:
                return None
            salt = base64.b64encode(SALT).decode()
            self._challenge = f"r={fields['r']}of-the-server,s={salt},i={ITERATIONS}"
            return self._challenge.encode()
        return self._check(told)

    def _check(self, told: str) -> bytes | None:
        digest = "sha256" if self.handshakes[-1].endswith("256") else "sha512"
        final, _, proof = told.rpartition(",p=")
        salted = hashlib.pbkdf2_hmac(digest, self.password.encode(), SALT, ITERATIONS)
        message = f"{self._first},{self._challenge},{final}".encode()
        stored = hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest()
        signature = hmac.digest(stored, message, digest)
        key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        if self.knows_password and hashlib.new(digest, key).digest() != stored:
            return None
        if not self.knows_password:
            return b"v=" + base64.b64encode(b"whatever it takes")
        server = hmac.digest(hmac.digest(salted, b"Server Key", digest), message, digest)
        return b"v=" + base64.b64encode(server)
