"""Pipeline files for tests: the example's, with other topics and another delivery mode."""

from pathlib import Path

from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.loading import load_pipeline

EXAMPLE = Path(__file__).parents[2] / "examples" / "compliance"


def write_pipeline(
    directory: Path, *, mode: str, prefix: str, bootstrap: str = "127.0.0.1:1", records: int = 50_000
) -> Path:
    """The example with topics that begin with `prefix` and the delivery mode; its checks come along."""
    text = (EXAMPLE / "pipeline.yaml").read_text(encoding="utf-8")
    text = text.replace("payments", prefix).replace("127.0.0.1:9092", bootstrap)
    text = text.replace("delivery: transaction", f"delivery: {mode}")
    text = text.replace("records: 50_000", f"records: {records}")
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "checks.py").write_text(
        (EXAMPLE / "checks.py").read_text(encoding="utf-8"), encoding="utf-8"
    )
    path = directory / "pipeline.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def make_pipeline(
    directory: Path, *, mode: str, prefix: str, bootstrap: str = "127.0.0.1:1", records: int = 50_000
) -> Pipeline:
    """The same, read."""
    return load_pipeline(
        write_pipeline(directory, mode=mode, prefix=prefix, bootstrap=bootstrap, records=records)
    )
