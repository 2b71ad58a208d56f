"""Where Spark runs: in this process's own JVM, on a cluster, or behind a Spark Connect server."""

import re
import socket
from typing import Final

from holdfast.errors import SparkLost, UsageError

MASTER_DEFAULT: Final = "local[*]"
CONNECT_PORT: Final = 15002
REACH_S_MAX: Final = 10.0

_KNOWN: Final = re.compile(r"local(\[.*\]|-cluster\[.*\])?|(spark|sc|k8s)://.+|yarn")
_ADDRESS: Final = re.compile(r"(\[[^\]]+\]|[^:/;,\[\]]+)(?::(\d{1,5}))?")


def check_master(master: str) -> None:
    """A UsageError for what is no master, a SparkLost if nobody listens there: Spark would try for minutes."""
    if not _KNOWN.fullmatch(master):
        raise UsageError(
            f"{master!r} is no Spark master: local[*], spark://HOST:PORT, yarn, k8s://…, "
            "or sc://HOST:PORT for Spark Connect"
        )
    addresses = _addresses(master)
    refusals = []
    for host, port in addresses:
        try:
            socket.create_connection((host, port), REACH_S_MAX).close()
        except OSError as failure:
            refusals.append(f"{host}:{port}: {failure.strerror or failure}")
        else:
            return
    if refusals:
        raise SparkLost(f"nobody to talk to at {master} ({'; '.join(refusals)})")


def is_local(master: str) -> bool:
    """Whether executors are threads of the driver's JVM."""
    return master.startswith("local") and not master.startswith("local-cluster")


def is_remote(master: str) -> bool:
    """Whether it is the address of a Spark Connect server."""
    return master.startswith("sc://")


def is_on_loopback(master: str) -> bool:
    """Whether all of it runs on this machine, so that nobody else needs to reach the driver."""
    if master.startswith("local"):
        return True
    addresses = _addresses(master)
    return bool(addresses) and all(
        host == "localhost" or host.startswith("127.") or host == "::1" for host, _ in addresses
    )


def _addresses(master: str) -> list[tuple[str, int]]:
    """Of a standalone master, of which there may be several, or of a Connect server."""
    scheme, _, rest = master.partition("://")
    if scheme not in ("spark", "sc"):
        return []
    parts = rest.split(",") if scheme == "spark" else [re.split("[/;]", rest)[0]]
    found = [_ADDRESS.fullmatch(part) for part in parts]
    addresses = [
        (each[1].strip("[]"), int(each[2] or CONNECT_PORT))
        for each in found
        if each is not None and (each[2] or scheme == "sc")
    ]
    if len(addresses) < len(parts):
        raise UsageError(f"{master!r} is no Spark master: say {scheme}://HOST:PORT")
    return addresses
