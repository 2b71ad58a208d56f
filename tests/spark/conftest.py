"""One Spark session and one Holdfast process for all tests in this folder: each costs seconds."""

from collections.abc import Iterator

import pytest

from tests.process import HoldfastProcess
from tests.spark.session import spark

__all__ = ["spark"]


@pytest.fixture(scope="session")
def holdfast(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Holdfast process whose new topics have three partitions."""
    with HoldfastProcess(tmp_path_factory.mktemp("holdfast") / "data", "--partitions", "3") as process:
        yield process.bootstrap
        assert process.stop() == 0
