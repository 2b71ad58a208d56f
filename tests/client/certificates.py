"""Certificates for one test: an authority, and who it vouches for."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509 import (
    BasicConstraints,
    CertificateBuilder,
    IPAddress,
    Name,
    NameAttribute,
    NameOID,
    SubjectAlternativeName,
    random_serial_number,
)

HOST = "127.0.0.1"
PASSWORD = "for-the-key"
VALID = timedelta(days=1)
"""Before and after now: clocks may differ."""


@dataclass(frozen=True)
class Identity:
    """A certificate and its key, in PEM."""

    certificate: Path
    key: Path


class Authority:
    """Made anew in a directory of its own."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.certificate = directory / f"{name}.pem"
        self._directory = directory
        self._name = _named(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(self._name, self._name, self._key)
        builder = builder.add_extension(BasicConstraints(ca=True, path_length=None), critical=True)
        self._sign(builder, self.certificate)

    def vouch_for(self, name: str, *, host: str = HOST, password: str | None = None) -> Identity:
        """Somebody at a host, by its address."""
        identity = Identity(self._directory / f"{name}.pem", self._directory / f"{name}.key")
        key = ec.generate_private_key(ec.SECP256R1())
        address = SubjectAlternativeName([IPAddress(ip_address(host))])
        builder = _builder(_named(name), self._name, key).add_extension(address, critical=False)
        self._sign(builder, identity.certificate)
        locked = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        identity.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked))
        return identity

    def _sign(self, builder: CertificateBuilder, path: Path) -> None:
        path.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))


def _named(name: str) -> Name:
    return Name([NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(subject: Name, issuer: Name, key: ec.EllipticCurvePrivateKey) -> CertificateBuilder:
    now = datetime.now(UTC)
    return CertificateBuilder(
        subject_name=subject,
        issuer_name=issuer,
        public_key=key.public_key(),
        serial_number=random_serial_number(),
        not_valid_before=now - VALID,
        not_valid_after=now + VALID,
    )
