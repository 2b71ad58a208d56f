"""Compiled code is kept on disk and found again; the plain modules never load it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba import config

from holdfast.records.kernel import jit
from holdfast.records.warm import warm

SOURCES = Path(__file__).parents[2] / "src"
COUNT = """
from holdfast.records.kernel import dedupe, fields, gather, index, select, tombstones
from holdfast.records.warm import warm
warm()
modules = (dedupe, fields, gather, index, select, tombstones)
everything = [value for module in modules for value in vars(module).values()]
stats = [kernel.stats for kernel in everything if hasattr(kernel, "stats")]
print(sum(one.cache_hits.total() for one in stats), sum(one.cache_misses.total() for one in stats))
"""


def run(code: str, cwd: Path, **environment: str) -> str:
    """What another process prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(SOURCES)} | environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=True,
    )
    return done.stdout.strip()


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    """After warm, a process in another directory loads every kernel from disk."""
    warm()
    hits, misses = map(int, run(COUNT, tmp_path).split())
    assert hits > 5
    assert misses == 0


def test_the_cache_goes_where_it_is_told(tmp_path: Path) -> None:
    """NUMBA_CACHE_DIR wins, as for every numba user."""
    where = run(
        "from holdfast.records.kernel.jit import cache_directory; print(cache_directory())",
        tmp_path,
        NUMBA_CACHE_DIR=str(tmp_path / "elsewhere"),
    )
    assert Path(where).parent == tmp_path / "elsewhere"


def test_sources_that_cannot_be_written_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation that belongs to someone else: the user's own cache is used."""
    (tmp_path / "__pycache__").write_text("not a directory")
    monkeypatch.setattr(jit, "_SOURCES", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(config, "CACHE_DIR", "")
    directory = jit.cache_directory()
    assert directory is not None
    assert directory.parent == tmp_path / "cache" / "holdfast"


def test_new_sources_get_a_new_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change in any kernel source, not just in the caller's file, makes old machine code unfindable."""
    monkeypatch.setattr(jit, "_SOURCES", tmp_path)
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "varint.py").write_text("one")
    before = jit.cache_directory()
    (tmp_path / "varint.py").write_text("two")
    assert jit.cache_directory() != before


def test_the_agents_modules_stay_light(tmp_path: Path) -> None:
    """batch, walk, build, control, crc and codecs import neither numba nor numpy nor Arrow."""
    heavy = run(
        "import sys\n"
        "from holdfast.records import batch, build, codecs, control, crc, walk\n"
        "print([name for name in ('numba', 'numpy', 'pyarrow', 'pandas') if name in sys.modules])",
        tmp_path,
    )
    assert heavy == "[]"
