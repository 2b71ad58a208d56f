"""How `format("holdfast")` is told of a cluster: by options of each name, or by a file."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from holdfast.client.endpoint import Endpoint
from holdfast.client.sasl import Credentials
from holdfast.client.security import Security
from holdfast.errors import UsageError
from holdfast.spark.endpoint_options import parse_endpoint, tell_endpoint
from holdfast.spark.options import parse_options, parse_stream_options
from holdfast.spark.write_options import Delivery, parse_write_options

LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="acme" password="secret";'
JAVA = {
    "kafka.bootstrap.servers": "h:1",
    "kafka.Security.Protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": LOGIN,
}
SECURED = Endpoint("h:1", Security(credentials=Credentials("PLAIN", "acme", "secret")))

Read = Callable[[Mapping[str, str]], Endpoint]


def written(options: Mapping[str, str]) -> Endpoint:
    """As a sink reads them."""
    return parse_write_options(options, default=Delivery.EXACTLY_ONCE).endpoint


READERS: dict[str, Read] = {
    "batch": lambda options: parse_options(options).endpoint,
    "stream": lambda options: parse_stream_options(options).endpoint,
    "sink": written,
}


@pytest.fixture(params=READERS)
def read(request: pytest.FixtureRequest) -> Read:
    """What a source, a stream and a sink make of the same options."""
    found = READERS[request.param]
    return lambda options: found({"topic": "t", **options})


def test_as_sparks_own_connector_is_told(read: Read) -> None:
    """Options that were written for it do."""
    assert read(JAVA) == SECURED


def test_told_again(read: Read) -> None:
    """What another session is told means the same."""
    assert read(tell_endpoint(SECURED)) == SECURED
    assert tell_endpoint(Endpoint("h:1")) == {"bootstrap": "h:1"}


def test_from_a_file(read: Read, tmp_path: Path) -> None:
    """By the names of librdkafka; an option goes before the file."""
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=sasl_plaintext\nsasl.mechanism=PLAIN\nsasl.username=acme\nsasl.password=other\n"
    )
    given = {"bootstrap": "h:1", "clientConfig": str(file), "kafka.sasl.password": "secret"}
    assert read(given) == SECURED
    with pytest.raises(UsageError, match=f"cannot read {tmp_path}/none"):
        read(given | {"clientConfig": f"{tmp_path}/none"})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"kafka.security.protocl": "ssl"}, "option kafka.security.protocl is not known"),
        ({"kafka.sasl.mechanism": "GSSAPI"}, "sasl.mechanism: 'GSSAPI' is not had"),
        ({"kafka.security.protocol": "PLAINTEXT"}, "has no effect with security.protocol=plaintext"),
    ],
)
def test_what_does_not_fit(read: Read, changed: dict[str, str], said: str) -> None:
    """One line, before anybody is asked."""
    with pytest.raises(UsageError, match=said) as caught:
        read(JAVA | changed)
    assert "secret" not in str(caught.value)


def test_no_address() -> None:
    """It is said where it belongs."""
    with pytest.raises(UsageError, match="option bootstrap is missing"):
        parse_endpoint({}, {})
