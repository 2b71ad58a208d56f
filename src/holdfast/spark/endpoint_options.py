"""The options of `format("holdfast")` that say which cluster, and how it is to be spoken to."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from holdfast.client.cluster import parse_bootstrap
from holdfast.client.endpoint import Endpoint
from holdfast.client.security import KNOWN, parse_security, read_properties, tell_security
from holdfast.errors import UsageError

ENDPOINT_OPTIONS: Final = ("bootstrap", "clientConfig")
PREFIX: Final = "kafka."
"""Before a client option's name, as in Spark's Kafka source."""
CLIENT_OPTIONS: Final = f"client options such as {PREFIX}security.protocol"
"""For messages that list what is known."""


def is_client_option(name: str) -> bool:
    """Whether it is a client's affair, by librdkafka's name or by Java's."""
    return name.lower().startswith(PREFIX) and name.lower().removeprefix(PREFIX) in KNOWN


def parse_endpoint(given: Mapping[str, str], options: Mapping[str, str]) -> Endpoint:
    """The cluster; `given` by the names of ENDPOINT_OPTIONS, client options from all `options`, which go before."""
    bootstrap = given.get("bootstrap", "").strip()
    if not bootstrap:
        raise UsageError('option bootstrap is missing; for example .option("bootstrap", "127.0.0.1:9092")')
    try:
        parse_bootstrap(bootstrap)
    except UsageError as error:
        raise UsageError(f"option bootstrap: {error}") from None
    file = given.get("clientConfig")
    properties = {} if file is None else read_properties(Path(file))
    for name, value in options.items():
        if is_client_option(name):
            properties[name.lower().removeprefix(PREFIX)] = value
    return Endpoint(bootstrap, parse_security(properties))


def tell_endpoint(endpoint: Endpoint) -> dict[str, str]:
    """The options of which `parse_endpoint` makes the same."""
    client = {f"{PREFIX}{name}": value for name, value in tell_security(endpoint.security).items()}
    return {"bootstrap": endpoint.bootstrap, **client}
