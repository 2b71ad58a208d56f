"""An executor's Python that lacks something."""


def explain_missing(missing: ImportError) -> str:
    """What to do about it; the driver has it, or would not have come so far."""
    return (
        f"the executors' Python has no module {missing.name!r}: install there what Holdfast needs "
        "(docs/for-spark-users.md, On a cluster), or name another Python with PYSPARK_PYTHON"
    )
