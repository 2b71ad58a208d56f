"""Where Spark runs: what is a master, who is on this machine, and nobody there is told at once."""

import socket

import pytest

from holdfast.errors import SparkLost, UsageError
from holdfast.spark.master import check_master, is_local, is_on_loopback, is_remote


@pytest.mark.parametrize(
    ("master", "local", "remote", "loopback"),
    [
        ("local[*]", True, False, True),
        ("local", True, False, True),
        ("local-cluster[2,1,1024]", False, False, True),
        ("spark://127.0.0.1:7077", False, False, True),
        ("spark://localhost:7077,127.0.0.2:7077", False, False, True),
        ("spark://10.0.0.1:7077,127.0.0.1:7077", False, False, False),
        ("spark://[::1]:7077", False, False, True),
        ("sc://127.0.0.1", False, True, True),
        ("sc://example.net:15002/;use_ssl=true", False, True, False),
        ("yarn", False, False, False),
        ("k8s://https://example.net:443", False, False, False),
    ],
)
def test_kinds(master: str, local: bool, remote: bool, loopback: bool) -> None:
    """Executors in the driver's JVM, behind a Connect server, all on this machine."""
    assert (is_local(master), is_remote(master), is_on_loopback(master)) == (local, remote, loopback)


@pytest.mark.parametrize(
    "master", ["", "spark", "http://host:1", "127.0.0.1:7077", "spark://host", "local[2"]
)
def test_what_is_no_master(master: str) -> None:
    """The line says what would be one."""
    with pytest.raises(UsageError, match="is no Spark master"):
        check_master(master)


@pytest.mark.parametrize("scheme", ["spark", "sc"])
def test_somebody_has_to_listen(scheme: str) -> None:
    """Of several standalone masters one is enough; Spark itself would try for minutes, and then say something else."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        check_master(f"{scheme}://127.0.0.1:{port}")
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    with pytest.raises(SparkLost, match=f"nobody to talk to at {scheme}://127.0.0.1:{port}"):
        check_master(f"{scheme}://127.0.0.1:{port}")
