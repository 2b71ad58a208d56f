"""How a client and its brokers come to trust each other, by librdkafka's names for what can be chosen."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from holdfast.client import java_names
from holdfast.client.sasl import MECHANISMS, Credentials
from holdfast.errors import UsageError

PROTOCOLS: Final = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
NAMES: Final = (
    "security.protocol",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "enable.ssl.certificate.verification",
    "ssl.endpoint.identification.algorithm",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
)
_ALIASES: Final = {"sasl.mechanisms": "sasl.mechanism"}
KNOWN: Final = (*NAMES, *_ALIASES, *java_names.NAMES)
_TRUTHS: Final = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class Security:
    """What was chosen, and nothing else: it can be sent to other processes."""

    tls: "Tls | None" = None
    credentials: Credentials | None = None


PLAINTEXT: Final = Security()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Whom to trust, and how to prove who we are."""

    ca: str | None
    certificate: str | None
    key: str | None
    password: str | None = field(repr=False)
    verify: bool
    check_host: bool

    def make_context(self) -> ssl.SSLContext:
        """For one connection, from the files as they are now; UsageError that names the one that is not sound."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.verify and self.check_host
        if not self.verify:
            context.verify_mode = ssl.CERT_NONE
        elif self.ca is None:
            context.load_default_certs()
        else:
            self._trust(context, self.ca)
        if self.certificate is not None:
            self._prove(context, self.certificate)
        return context

    def _trust(self, context: ssl.SSLContext, ca: str) -> None:
        _check_readable("ssl.ca.location", ca)
        try:
            if Path(ca).is_dir():
                context.load_verify_locations(capath=ca)
            else:
                context.load_verify_locations(cafile=ca)
        except (OSError, ValueError):
            raise UsageError(f"ssl.ca.location: {ca} holds no certificates in PEM") from None

    def _prove(self, context: ssl.SSLContext, certificate: str) -> None:
        _check_readable("ssl.certificate.location", certificate)
        key = certificate if self.key is None else self.key
        _check_readable("ssl.key.location", key)
        try:
            # Without a password OpenSSL would ask at the terminal.
            context.load_cert_chain(certificate, self.key, password=self.password or "")
        except (OSError, ValueError):
            raise UsageError(
                f"ssl.certificate.location and ssl.key.location: {certificate} and {key} are no pair in PEM,"
                " or ssl.key.password is not the key's"
            ) from None


def parse_security(properties: Mapping[str, str]) -> Security:
    """UsageError in one line for what is unknown, is not had or does not fit; files are looked at, too.

    What Java's clients have other names for may be told by those.
    """
    given = java_names.from_java({_ALIASES.get(name, name): value for name, value in properties.items()})
    for name in given:
        if name not in NAMES:
            raise UsageError(f"unknown client option {name!r}; known are: {', '.join(NAMES)}")
    protocol = given.get("security.protocol", "plaintext").lower()
    if protocol not in PROTOCOLS:
        raise UsageError(f"security.protocol: {protocol!r} is none of {', '.join(PROTOCOLS)}")
    has_tls, has_sasl = protocol.endswith("ssl"), protocol.startswith("sasl")
    for name in given:
        belongs = has_sasl if name.startswith("sasl.") else has_tls or "ssl." not in name
        if not belongs:
            raise UsageError(f"{name} has no effect with security.protocol={protocol}")
    tls = _parse_tls(given) if has_tls else None
    if tls is not None:
        tls.make_context()
    return Security(tls=tls, credentials=_parse_sasl(given) if has_sasl else None)


def tell_security(security: Security) -> dict[str, str]:
    """What `parse_security` makes the same of."""
    tls, credentials = security.tls, security.credentials
    if tls is None and credentials is None:
        return {}
    found: dict[str, str | None] = {
        "security.protocol": ("sasl_" if credentials else "") + ("ssl" if tls else "plaintext")
    }
    if tls is not None:
        found |= {
            "ssl.ca.location": tls.ca,
            "ssl.certificate.location": tls.certificate,
            "ssl.key.location": tls.key,
            "ssl.key.password": tls.password,
            "enable.ssl.certificate.verification": None if tls.verify else "false",
            "ssl.endpoint.identification.algorithm": None if tls.check_host else "none",
        }
    if credentials is not None:
        found |= {
            "sasl.mechanism": credentials.mechanism,
            "sasl.username": credentials.username,
            "sasl.password": credentials.password,
        }
    return {name: value for name, value in found.items() if value is not None}


def is_secret(name: str) -> bool:
    """Whether an option's value is not to be shown."""
    return name.endswith("password") or name == java_names.JAAS


def read_properties(path: Path) -> dict[str, str]:
    """A file of lines NAME=VALUE, as librdkafka's tools take it; a line that begins with # is passed over."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as failure:
        raise UsageError(f"cannot read {path}: {getattr(failure, 'strerror', None) or 'no text'}") from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            found.update([split_property(line.strip(), f"{path}, line {number}: ")])
    return found


def split_property(text: str, where: str = "") -> tuple[str, str]:
    """One NAME=VALUE; a value may hold further equals signs, and is not told if it is wrong: it may be a password."""
    name, equals, value = text.partition("=")
    if not (name.strip() and equals):
        raise UsageError(f"{where}a client option is written NAME=VALUE, such as security.protocol=ssl")
    return name.strip(), value.strip()


def _parse_tls(given: Mapping[str, str]) -> Tls:
    verification = given.get("enable.ssl.certificate.verification", "true").lower()
    if verification not in _TRUTHS:
        raise UsageError(f"enable.ssl.certificate.verification: {verification!r} is neither true nor false")
    algorithm = given.get("ssl.endpoint.identification.algorithm", "https").lower()
    if algorithm not in ("https", "none"):
        raise UsageError(f"ssl.endpoint.identification.algorithm: {algorithm!r} is neither https nor none")
    if "ssl.key.location" in given and "ssl.certificate.location" not in given:
        raise UsageError("ssl.key.location needs ssl.certificate.location beside it")
    return Tls(
        ca=given.get("ssl.ca.location"),
        certificate=given.get("ssl.certificate.location"),
        key=given.get("ssl.key.location"),
        password=given.get("ssl.key.password"),
        verify=_TRUTHS[verification],
        check_host=algorithm == "https",
    )


def _parse_sasl(given: Mapping[str, str]) -> Credentials:
    mechanism = given.get("sasl.mechanism", "").upper()
    if mechanism not in MECHANISMS:
        said = f"{mechanism!r} is not had" if mechanism else "must be named"
        raise UsageError(f"sasl.mechanism: {said}; known are: {', '.join(MECHANISMS)}")
    missing = [name for name in ("sasl.username", "sasl.password") if name not in given]
    if missing:
        raise UsageError(f"sasl.mechanism={mechanism} needs {' and '.join(missing)}")
    return Credentials(mechanism, given["sasl.username"], given["sasl.password"])


def _check_readable(name: str, path: str) -> None:
    try:
        if not Path(path).is_dir():
            Path(path).open("rb").close()
    except OSError as failure:
        raise UsageError(f"{name}: cannot read {path}: {failure.strerror}") from None
