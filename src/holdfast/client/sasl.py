"""SASL as Kafka carries it: PLAIN, and SCRAM (RFC 5802) with SHA-256 or SHA-512; no socket in it."""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Final

from holdfast.errors import HandshakeFailed

SCRAM_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS: Final = ("PLAIN", *SCRAM_HASHES)
ITERATIONS_MAX: Final = 1_000_000
"""Kafka allows 16,384; a peer that is no broker shall not keep us busy."""

Exchange = Generator[bytes, bytes, None]
"""Yields what is to be sent, is sent what came back; raises HandshakeFailed if that proves nothing."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who we are, and how it is proved."""

    mechanism: str
    username: str
    password: str = field(repr=False)

    def exchange(self) -> Exchange:
        """One authentication, from the beginning."""
        if self.mechanism == "PLAIN":
            return _plain(self)
        return scram(self, secrets.token_urlsafe(24))


def _plain(who: Credentials) -> Exchange:
    yield b"\0".join((b"", who.username.encode(), who.password.encode()))


def scram(who: Credentials, nonce: str) -> Exchange:
    """Neither side tells the password, and each proves that it knows of it."""
    algorithm = SCRAM_HASHES[who.mechanism]
    name = who.username.replace("=", "=3D").replace(",", "=2C")
    client_first = f"n={name},r={nonce}"
    server_first = yield f"n,,{client_first}".encode()
    challenge = _fields(server_first)
    salt, iterations = _base64(challenge.get("s", "")), _count(challenge.get("i", ""))
    if not challenge.get("r", "").startswith(nonce):
        raise HandshakeFailed("the broker answered somebody else's SCRAM challenge")
    salted = hashlib.pbkdf2_hmac(algorithm, who.password.encode(), salt, iterations)
    client_final = f"c=biws,r={challenge['r']}"
    signed = b",".join((client_first.encode(), server_first, client_final.encode()))
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    signature = hmac.digest(hashlib.new(algorithm, client_key).digest(), signed, algorithm)
    proof = bytes(key ^ sign for key, sign in zip(client_key, signature, strict=True))
    verdict = _fields((yield f"{client_final},p={base64.b64encode(proof).decode()}".encode()))
    expected = hmac.digest(hmac.digest(salted, b"Server Key", algorithm), signed, algorithm)
    if not hmac.compare_digest(_base64(verdict.get("v", "")), expected):
        raise HandshakeFailed(
            "the broker does not know the password itself: it may not be the one that it claims"
        )


def _fields(message: bytes) -> dict[str, str]:
    try:
        parts = [part.partition("=") for part in message.decode().split(",")]
    except UnicodeDecodeError:
        raise HandshakeFailed("the broker's SCRAM answer cannot be read") from None
    return {name: value for name, _, value in parts}


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise HandshakeFailed("the broker's SCRAM answer cannot be read") from None


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) <= ITERATIONS_MAX):
        raise HandshakeFailed("the broker's SCRAM answer cannot be read")
    return int(text)
