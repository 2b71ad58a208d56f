"""Holdfast for executors that do not have it: the Holdfast that runs here, as a zip that Python imports from.

What it is made of travels, what it needs does not: numba, numpy and the rest hold machine code for one kind of
machine, and are installed where executors run. The kernels are compiled there, and kept (`records/kernel/jit.py`).
"""

import atexit
import functools
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from holdfast.spark.source import HoldfastDataSource

PACKAGES: Final = ("holdfast", "pyspark_holdfast")
ZIP_NAME: Final = "holdfast-package.zip"


@functools.cache
def package_zip() -> Path:
    """A zip of this Holdfast, with the same bytes whenever it is made; it is removed when this process ends."""
    directory = Path(tempfile.mkdtemp(prefix="holdfast-package-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    path = directory / ZIP_NAME
    installed = distribution("holdfast")
    with zipfile.ZipFile(path, "w") as made:
        for inner, data in [
            *((inner, file.read_bytes()) for name in PACKAGES for inner, file in _walk(files(name), name)),
            # Clients tell brokers their version, and find it here.
            (
                f"holdfast-{installed.version}.dist-info/METADATA",
                (installed.read_text("METADATA") or "").encode(),
            ),
        ]:
            made.writestr(zipfile.ZipInfo(inner), data, zipfile.ZIP_DEFLATED)
    return path


def ship(session: SparkSession) -> None:
    """Let the executors of a session import Holdfast. Twice is no harm. Sessions of `spark_session` are shipped to."""
    if is_connect(session):
        session.addArtifacts(str(package_zip()), pyfile=True)
        session.dataSource.register(HoldfastDataSource)
    else:
        session.sparkContext.addPyFile(str(package_zip()))


def is_connect(session: SparkSession) -> bool:
    """Whether it is a client of Spark Connect, which has no context."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def _walk(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for each in sorted(folder.iterdir(), key=lambda it: it.name):
        inner = f"{path}/{each.name}"
        if each.is_dir():
            if each.name != "__pycache__":
                yield from _walk(each, inner)
        else:
            yield inner, each
