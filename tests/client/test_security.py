"""TLS and SASL between a client and a broker of the test's own: who is trusted, who is not, and what is said then."""

import pickle
import ssl
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest

from holdfast.client.connection import Connection
from holdfast.client.sasl import Credentials, scram
from holdfast.client.security import Security, parse_security, read_properties
from holdfast.errors import ConnectionFailed, HandshakeFailed, UsageError
from tests.client.certificates import HOST, PASSWORD, Authority
from tests.client.fake_broker import FakeBroker
from tests.client.peer import peer
from tests.client.sasl_server import OFFERED, SaslServer

USER = "ad,min=1"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def broker_side(authority: Authority, *, host: str = HOST, wants_ours: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    mine = authority.vouch_for(f"broker-{host}", host=host)
    context.load_cert_chain(mine.certificate, mine.key)
    if wants_ours:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority.certificate)
    return context


def ask(broker: FakeBroker, security: Security) -> Any:
    """One question over one connection."""
    with Connection(HOST, broker.port, security=security, timeout=10) as connection:
        return connection.send(MetadataRequest(topics=[]), versions=(4, 9)).topics


def no_topics(_: Any) -> dict[str, Any]:
    return {"brokers": [], "topics": []}


def sasl(mechanism: str = "PLAIN", password: str = "secret", **others: str) -> Security:
    return parse_security(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": mechanism,
            "sasl.username": USER,
            "sasl.password": password,
        }
        | others
    )


def test_tls_to_whom_we_trust(authority: Authority) -> None:
    """By its authority and its address; without one of them only if we say so."""
    trusting = {"security.protocol": "ssl", "ssl.ca.location": str(authority.certificate)}
    handlers: dict[Any, Any] = {MetadataRequest: no_topics}
    with FakeBroker(handlers, tls=broker_side(authority)) as broker:
        assert ask(broker, parse_security(trusting)) == []
        with pytest.raises(
            HandshakeFailed, match=r"its certificate: .*; ssl.ca.location names whom to trust"
        ):
            ask(broker, parse_security({"security.protocol": "ssl"}))
        unchecked = {"security.protocol": "ssl", "enable.ssl.certificate.verification": "false"}
        assert ask(broker, parse_security(unchecked)) == []
    with FakeBroker(handlers, tls=broker_side(authority, host="127.0.0.2")) as elsewhere:
        with pytest.raises(HandshakeFailed, match="IP address mismatch"):
            ask(elsewhere, parse_security(trusting))
        anywhere = trusting | {"ssl.endpoint.identification.algorithm": "none"}
        assert ask(elsewhere, parse_security(anywhere)) == []


def test_tls_with_a_certificate_of_ours(authority: Authority, tmp_path: Path) -> None:
    """The broker asks for one; one of another authority, or none, is told of in a line."""
    ours = authority.vouch_for("client", password=PASSWORD)
    given = {
        "security.protocol": "ssl",
        "ssl.ca.location": str(authority.certificate),
        "ssl.certificate.location": str(ours.certificate),
        "ssl.key.location": str(ours.key),
        "ssl.key.password": PASSWORD,
    }
    stranger = Authority(tmp_path, "another").vouch_for("stranger")
    strange = given | {
        "ssl.certificate.location": str(stranger.certificate),
        "ssl.key.location": str(stranger.key),
    }
    none = {name: given[name] for name in ("security.protocol", "ssl.ca.location")}
    with FakeBroker({MetadataRequest: no_topics}, tls=broker_side(authority, wants_ours=True)) as broker:
        assert ask(broker, pickle.loads(pickle.dumps(parse_security(given)))) == []
        for refused in (strange, none):
            # The broker's reason may be lost when it hangs up.
            with pytest.raises((HandshakeFailed, ConnectionFailed), match=r"TLS.*ssl\.certificate\.location"):
                ask(broker, parse_security(refused))
    for wrong in (given | {"ssl.key.password": "other"}, given | {"ssl.key.location": str(stranger.key)}):
        with pytest.raises(UsageError, match=r"are no pair in PEM, or ssl.key.password is not the key's"):
            parse_security(wrong)


def test_one_side_speaks_tls(authority: Authority) -> None:
    """Each way round is told in a line that says what is the matter."""
    with peer(b"") as port, pytest.raises(ConnectionFailed, match="does it speak TLS there"):
        Connection(HOST, port, security=parse_security({"security.protocol": "ssl"}))
    with (
        FakeBroker({}, tls=broker_side(authority)) as broker,
        pytest.raises(ConnectionFailed, match=r"broke off|security.protocol=ssl"),
    ):
        ask(broker, Security())


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_sasl(mechanism: str) -> None:
    """The password is taken, a wrong one is not, and the error is final."""
    server = SaslServer(USER, "secret")
    with FakeBroker(server.handlers | {MetadataRequest: no_topics}, offered=OFFERED) as broker:
        assert ask(broker, sasl(mechanism)) == []
        with pytest.raises(
            HandshakeFailed, match=r"does not take user 'ad,min=1' .*Authentication failed"
        ) as caught:
            ask(broker, sasl(mechanism, "wrong"))
        assert "wrong" not in str(caught.value)
        assert not caught.value.retriable
        assert (server.handshakes, caught.value.exit_code) == ([mechanism, mechanism], 3)


def test_sasl_over_tls(authority: Authority) -> None:
    """Both, one after the other."""
    server = SaslServer(USER, "secret")
    tls = {"security.protocol": "sasl_ssl", "ssl.ca.location": str(authority.certificate)}
    handlers = server.handlers | {MetadataRequest: no_topics}
    with FakeBroker(handlers, offered=OFFERED, tls=broker_side(authority)) as broker:
        assert ask(broker, sasl("SCRAM-SHA-512", **tls)) == []


def test_a_broker_that_only_wants_to_be_told(authority: Authority) -> None:
    """With SCRAM it has to know the password itself."""
    server = SaslServer(USER, "secret", knows_password=False)
    with (
        FakeBroker(server.handlers, offered=OFFERED) as broker,
        pytest.raises(HandshakeFailed, match="does not know the password itself"),
    ):
        ask(broker, sasl("SCRAM-SHA-256"))


@pytest.mark.parametrize(
    "answer", [b"", b"r=nonce,s=!,i=4096", b"r=nonce,s=AA==,i=-1", b"r=nonce,s=AA==,i=99999999999", b"\xff"]
)
def test_scram_answers_that_make_no_sense(answer: bytes) -> None:
    """Nothing of a stranger's answer is taken on trust, or keeps us busy."""
    exchange = scram(Credentials("SCRAM-SHA-256", USER, "secret"), "nonce")
    assert next(exchange) == b"n,,n=ad=2Cmin=3D1,r=nonce"
    with pytest.raises(HandshakeFailed):
        exchange.send(answer)


def test_scram_as_the_rfc_has_it() -> None:
    """The example of RFC 7677."""
    exchange = scram(Credentials("SCRAM-SHA-256", "user", "pencil"), "rOprNGfwEbeRWgbNEkqO")
    assert next(exchange) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    final = exchange.send(nonce + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    assert final == b"c=biws," + nonce + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    with pytest.raises(StopIteration):
        exchange.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_a_mechanism_that_the_broker_has_not() -> None:
    """It says what it has."""
    server = SaslServer(USER, "secret", offers=("SCRAM-SHA-512",))
    with (
        FakeBroker(server.handlers, offered=OFFERED) as broker,
        pytest.raises(HandshakeFailed, match=r"does not take sasl.mechanism PLAIN: it offers SCRAM-SHA-512"),
    ):
        ask(broker, sasl())


def test_belief_does_not_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the broker says for how long it believes us, we prove who we are again in time, on the same connection."""
    server = SaslServer(USER, "secret", session_ms=60_000)
    now = [0.0]
    monkeypatch.setattr("holdfast.client.connection.time.monotonic", lambda: now[0])
    with (
        FakeBroker(server.handlers | {MetadataRequest: no_topics}, offered=OFFERED) as broker,
        Connection(HOST, broker.port, security=sasl("SCRAM-SHA-256")) as connection,
    ):
        for time_s, handshakes in ((47, 1), (49, 2), (90, 2), (98, 3)):
            now[0] = time_s
            connection.send(MetadataRequest(topics=[]), versions=(4, 9))
            assert len(server.handshakes) == handshakes


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"security.protocl": "ssl"},
            "unknown client option 'security.protocl'; known are: security.protocol",
        ),
        ({"security.protocol": "tls"}, "security.protocol: 'tls' is none of plaintext, ssl"),
        ({"sasl.username": "u"}, "sasl.username has no effect with security.protocol=plaintext"),
        (
            {"security.protocol": "sasl_ssl", "sasl.mechanism": "GSSAPI"},
            "'GSSAPI' is not had; known are: PLAIN",
        ),
        ({"security.protocol": "sasl_ssl"}, "sasl.mechanism: must be named"),
        (
            {"security.protocol": "sasl_plaintext", "sasl.mechanism": "plain", "sasl.username": "u"},
            "sasl.mechanism=PLAIN needs sasl.password",
        ),
        ({"security.protocol": "ssl", "ssl.ca.location": "/none"}, "ssl.ca.location: cannot read /none"),
        ({"security.protocol": "ssl", "ssl.ca.location": __file__}, "holds no certificates in PEM"),
        ({"security.protocol": "ssl", "ssl.key.location": "k"}, "needs ssl.certificate.location beside it"),
        ({"security.protocol": "ssl", "enable.ssl.certificate.verification": "no"}, "neither true nor false"),
        (
            {"security.protocol": "ssl", "ssl.endpoint.identification.algorithm": "x"},
            "neither https nor none",
        ),
    ],
)
def test_options_that_do_not_fit(given: dict[str, str], said: str) -> None:
    """One line, before anybody is asked."""
    with pytest.raises(UsageError) as caught:
        parse_security(given)
    assert said in str(caught.value)


def test_options_from_a_file(tmp_path: Path) -> None:
    """One a line; values may hold equals signs, and one that is wrong is not told."""
    file = tmp_path / "client.properties"
    file.write_text("# ours\n\nsecurity.protocol = sasl_plaintext\nsasl.password=a=b\n")
    assert read_properties(file) == {"security.protocol": "sasl_plaintext", "sasl.password": "a=b"}
    file.write_text("security.protocol=ssl\nsecret\n")
    with pytest.raises(
        UsageError, match=r"client.properties, line 2: a client option is written NAME=VALUE"
    ) as caught:
        read_properties(file)
    assert "secret" not in str(caught.value)
    with pytest.raises(UsageError, match="cannot read"):
        read_properties(tmp_path / "none")


def test_a_secret_is_not_shown() -> None:
    """Wherever such an object is printed."""
    assert "secret" not in repr(sasl())
