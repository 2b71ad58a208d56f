"""The zip for executors: a Python without Holdfast imports it, runs the kernels, and knows its version."""

import os
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

from holdfast.records.kernel.jit import cache_directory
from holdfast.records.warm import warm
from holdfast.spark.shipping import package_zip

PROGRAM = """
import holdfast.errors
from importlib.metadata import version
from holdfast.records.kernel import fields
from holdfast.records.kernel.jit import cache_directory
from holdfast.records.warm import warm
from pyspark_holdfast import DefaultSource

warm()
stats = fields.scan_records.stats
print(holdfast.errors.__file__, version("holdfast"), cache_directory())
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()), DefaultSource.name())
"""


def test_the_zip_is_all_that_is_needed(tmp_path: Path) -> None:
    """Kernels that were compiled from sources elsewhere are found by what they hold, and loaded."""
    warm()
    kept = cache_directory()
    assert kept is not None
    copy = tmp_path / package_zip().name
    copy.write_bytes(package_zip().read_bytes())
    packages = next(path for path in sys.path if Path(path, "numba").is_dir())
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{copy}{os.pathsep}{packages}",
        "NUMBA_CACHE_DIR": str(kept.parent),
    }
    # -S: without the installed Holdfast, which a .pth file names.
    command = [sys.executable, "-S", "-c", PROGRAM]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stderr
    file, told, directory, hits, misses, name = done.stdout.split()
    assert file == f"{copy}/holdfast/errors.py"
    assert (told, directory) == (version("holdfast"), str(kept))
    assert (hits, misses, name) == ("1", "0", "holdfast")


def test_nothing_else_is_in_it() -> None:
    """No compiled files, which would be of this machine, and every module."""
    names = zipfile.ZipFile(package_zip()).namelist()
    assert not [name for name in names if "__pycache__" in name]
    metadata = f"holdfast-{version('holdfast')}.dist-info/METADATA"
    assert {"holdfast/spark/daemon.py", "pyspark_holdfast/__init__.py", metadata} <= set(names)
