"""What Java's clients call the options: read as they take them, told so that they mean the same."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.client.java_names import JAAS, from_java, to_java
from holdfast.client.sasl import Credentials
from holdfast.client.security import Security, Tls, parse_security, tell_security
from holdfast.errors import UsageError
from tests.client.certificates import PASSWORD, Authority

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
LOGIN = f'{MODULE} required username="acme" password="secret";'
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}


@pytest.mark.parametrize(
    ("login", "user", "password"),
    [
        (LOGIN, "acme", "secret"),
        (f"{MODULE} required\n  username=acme\n  password='i\\t\\164\\9\"';\n", "acme", 'i\tt9"'),
        (f'{MODULE} required serviceName="k" password = "a;b=\\"c\\\\" username="u v" ;', "u v", 'a;b="c\\'),
        (f'{MODULE} required username="" password="";', "", ""),
    ],
)
def test_a_login_of_java(login: str, user: str, password: str) -> None:
    """With its quotes, its order and what stands beside."""
    found = parse_security({**SASL, JAAS: login})
    assert found.credentials == Credentials("PLAIN", user, password)


@pytest.mark.parametrize(
    "login",
    [
        "",
        MODULE,
        f'{MODULE} required username="acme";',
        f'{MODULE} required username="acme" password="secret"',
        f'{MODULE} required username="acme" password="secret;',
        LOGIN + LOGIN,
        'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="secret";',
    ],
)
def test_a_login_that_cannot_be_read(login: str) -> None:
    """It is told what one looks like, and nothing of it, since it may hold a password."""
    with pytest.raises(UsageError, match=r"sasl\.jaas\.config: only a user and a password") as caught:
        parse_security({**SASL, JAAS: login})
    assert "secret" not in str(caught.value)


@given(
    mechanism=st.sampled_from(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]),
    username=st.text(),
    password=st.text(),
)
def test_a_login_survives(mechanism: str, username: str, password: str) -> None:
    """Whatever stands in it."""
    said = tell_security(Security(credentials=Credentials(mechanism, username, password)))
    assert from_java(to_java(said)) == said | {"security.protocol": "SASL_PLAINTEXT"}


def test_files_in_pem(tmp_path: Path) -> None:
    """A store of type PEM is the file that librdkafka takes; a certificate and its key are told as they stand."""
    authority = Authority(tmp_path)
    ours = authority.vouch_for("client", password=PASSWORD)
    both = tmp_path / "both.pem"
    both.write_text(ours.key.read_text() + ours.certificate.read_text())
    found = parse_security(
        {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.certificate),
            "ssl.keystore.type": "pem",
            "ssl.keystore.location": str(both),
            "ssl.key.password": PASSWORD,
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    trusted, mine = str(authority.certificate), str(both)
    assert found.tls == Tls(
        ca=trusted, certificate=mine, key=None, password=PASSWORD, verify=True, check_host=False
    )
    assert parse_security(tell_security(found)) == found
    apart = tell_security(found) | {
        "ssl.certificate.location": str(ours.certificate),
        "ssl.key.location": str(ours.key),
    }
    assert to_java(apart) == {
        "security.protocol": "SSL",
        "ssl.endpoint.identification.algorithm": "",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": trusted,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": ours.certificate.read_text(),
        "ssl.keystore.key": ours.key.read_text(),
        "ssl.key.password": PASSWORD,
    }


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        (
            {"ssl.truststore.location": "/t.jks"},
            "ssl.truststore.location: a store of type JKS cannot be read; export what it holds to a file in PEM,"
            " with keytool and openssl, and name that with ssl.ca.location",
        ),
        (
            {
                "ssl.keystore.location": "/k",
                "ssl.keystore.type": "pkcs12",
                "ssl.keystore.password": "secret",
            },
            "of type PKCS12 cannot be read",
        ),
        (
            {"ssl.keystore.location": "/k", "ssl.keystore.type": "PEM", "ssl.keystore.password": "secret"},
            "ssl.keystore.password: a file in PEM has none; that of a key is ssl.key.password",
        ),
        (
            {"ssl.truststore.location": "/a", "ssl.truststore.type": "PEM", "ssl.ca.location": "/b"},
            "ssl.truststore.location and ssl.ca.location say two things: give one of them",
        ),
        ({**SASL, JAAS: LOGIN, "sasl.username": "other"}, "sasl.jaas.config and sasl.username say two"),
    ],
)
def test_what_does_not_fit(said: dict[str, str], refused: str) -> None:
    """One line that says what to do."""
    with pytest.raises(UsageError) as caught:
        parse_security({"security.protocol": "ssl"} | said)
    assert refused in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        ({"enable.ssl.certificate.verification": "false"}, "a client in Java cannot do without"),
        ({"ssl.ca.location": "/"}, "/ is a directory; a client in Java takes one file"),
        ({"ssl.certificate.location": "/none"}, "/none is no certificate or key in PEM"),
    ],
)
def test_what_a_client_in_java_cannot_be_told(said: dict[str, str], refused: str) -> None:
    """It is refused, not left out."""
    with pytest.raises(UsageError, match=refused):
        to_java({"security.protocol": "ssl"} | said)


def test_nothing_is_nothing() -> None:
    """Without security no option is told."""
    assert to_java(tell_security(Security())) == from_java({}) == {}
