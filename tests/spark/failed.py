"""What Spark 4.2 has said of failed queries of a pipeline, whole, with the places where things lie made up."""

from pathlib import Path

import holdfast

TEXTS = Path(__file__).parent / "failures"


def read_failure(name: str) -> str:
    """The text of a StreamingQueryException; the Holdfast in it is the one that runs."""
    text = (TEXTS / f"{name}.txt").read_text(encoding="utf-8")
    return text.replace("HOLDFAST", holdfast.__path__[0])
