"""What Java's clients, and with them Spark's own Kafka connector, call the options of `security`."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from holdfast.errors import UsageError

JAAS: Final = "sasl.jaas.config"
STORES: Final = {"ssl.truststore": "ssl.ca.location", "ssl.keystore": "ssl.certificate.location"}
"""A store of type PEM is a file as librdkafka takes it; that of keys has the key and its certificate."""
NAMES: Final = (JAAS, *(f"{store}.{each}" for store in STORES for each in ("location", "type", "password")))

_MODULES: Final = "org.apache.kafka.common.security"
_OPTION: Final = r"""(\w+)\s*=\s*("(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*'|[^\s"';]+)"""
_ESCAPE: Final = re.compile(r"\\([0-3]?[0-7]{1,2}|.)")
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LOGIN: Final = re.compile(rf"\s*[\w.$]+\s+\w+((?:\s+{_OPTION})*)\s*;\s*", re.DOTALL)


def from_java(given: Mapping[str, str]) -> dict[str, str]:
    """The same by librdkafka's names; UsageError if it says something that librdkafka has no name for."""
    found = {name: value for name, value in given.items() if name not in NAMES}
    if found.get("ssl.endpoint.identification.algorithm") == "":
        found["ssl.endpoint.identification.algorithm"] = "none"
    for store, name in STORES.items():
        location, kind = given.get(f"{store}.location"), given.get(f"{store}.type", "JKS").upper()
        if location is None:
            if alone := [each for each in ("type", "password") if f"{store}.{each}" in given]:
                raise UsageError(f"{store}.{alone[0]}: of what? {store}.location is missing")
            continue
        if kind != "PEM":
            raise UsageError(
                f"{store}.location: a store of type {kind} cannot be read; export what it holds to a file in PEM,"
                f" with keytool and openssl, and name that with {name}"
            )
        if f"{store}.password" in given:
            raise UsageError(f"{store}.password: a file in PEM has none; that of a key is ssl.key.password")
        _put(found, name, location, f"{store}.location")
    if JAAS in given:
        for name, value in _read_login(given[JAAS]).items():
            _put(found, name, value, JAAS)
    return found


def to_java(given: Mapping[str, str]) -> dict[str, str]:
    """What librdkafka's names say, for a client in Java; UsageError for what it cannot be told."""
    found = {"security.protocol": given["security.protocol"].upper()} if given else {}
    if given.get("enable.ssl.certificate.verification") == "false":
        raise UsageError("enable.ssl.certificate.verification: a client in Java cannot do without")
    if given.get("ssl.endpoint.identification.algorithm") == "none":
        found["ssl.endpoint.identification.algorithm"] = ""
    if (trusted := given.get("ssl.ca.location")) is not None:
        if Path(trusted).is_dir():
            raise UsageError(f"ssl.ca.location: {trusted} is a directory; a client in Java takes one file")
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": trusted}
    if (ours := given.get("ssl.certificate.location")) is not None:
        key = given.get("ssl.key.location", ours)
        found |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": _read(ours),
            "ssl.keystore.key": _read(key),
        }
    if "ssl.key.password" in given:
        found["ssl.key.password"] = given["ssl.key.password"]
    if (mechanism := given.get("sasl.mechanism")) is not None:
        kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        who, secret = (_quote(given[name]) for name in ("sasl.username", "sasl.password"))
        found["sasl.mechanism"] = mechanism
        found[JAAS] = f"{_MODULES}.{kind}LoginModule required username={who} password={secret};"
    return found


def _put(found: dict[str, str], name: str, value: str, said: str) -> None:
    if found.setdefault(name, value) != value:
        raise UsageError(f"{said} and {name} say two things: give one of them")


def _read_login(text: str) -> dict[str, str]:
    login = _LOGIN.fullmatch(text)
    options = {name: _unquote(value) for name, value in re.findall(_OPTION, login[1] if login else "")}
    if not {"username", "password"} <= options.keys():
        raise UsageError(
            f"{JAAS}: only a user and a password can be read,"
            f' as in: {_MODULES}.plain.PlainLoginModule required username="…" password="…";'
        )
    return {f"sasl.{name}": options[name] for name in ("username", "password")}


def _quote(value: str) -> str:
    """For Java's StreamTokenizer, which ends a string at the end of a line."""
    told = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{told}"'


def _unquote(value: str) -> str:
    if value[0] not in "\"'":
        return value
    return _ESCAPE.sub(_escaped, value[1:-1])


def _escaped(match: re.Match[str]) -> str:
    told = match[1]
    return chr(int(told, 8)) if told.isdigit() and told < "8" else _ESCAPED.get(told, told)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"{path} is no certificate or key in PEM") from None
