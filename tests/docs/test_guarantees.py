"""The guarantees page points at tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
PROOFS = sorted(set(re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", PAGE)))


def test_the_page_names_proofs() -> None:
    """A page without proofs would prove the next test vacuously."""
    assert len(PROOFS) > 15


@pytest.mark.parametrize("proof", PROOFS)
def test_every_proof_exists(proof: str) -> None:
    """The file is there, and so is the test in it."""
    path, _, name = proof.partition("::")
    source = (ROOT / path).read_text(encoding="utf-8")
    assert f"def {name}(" in source if name else source
