"""When upkeep is worth it, and how large it may become."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperLimits:
    """Bounds on rewrites, and on giving space back."""

    settle_bytes_min: int = 64 * 1024 * 1024
    """Decided bytes in the journals that are worth a segment of their own."""
    settle_ms_max: int = 300_000
    """How long decided records stay in the journals, however few they are, by their own timestamps."""
    segment_bytes_max: int = 256 * 1024 * 1024
    """The largest segment; a topic's segment.bytes may ask for less."""
    map_bytes_max: int = 512 * 1024 * 1024
    """Memory for the keys of one rewrite; with too little of it the log is gone through several times."""
    spark_bytes_min: int = 256 * 1024 * 1024
    """Rounds with less to rewrite run in the keeper's process, without a Spark session."""
    split_bytes_min: int = 512 * 1024 * 1024
    """A replica with less to rewrite is one task; of more, several (here: threads of one) share keys, then offsets."""
    spark_master: str = "local[*]"
    """Where the others run: a Spark master, or sc://HOST:PORT for Spark Connect. Executors must reach the stores."""
    collect_seconds: float = 60.0
    """How long files stay that nobody needs any more: readers may have planned to read them."""
    collect_bytes_min: int = 16 * 1024 * 1024
    """Space in journals that is worth a new journal, or a snapshot of the control plane, to be given back."""
    snapshot_seconds: float = 900.0
    """How long journals wait for a snapshot, however small they are."""
    round_seconds: float = 15.0
    """How often to look for what is due."""
    idle_seconds: float = 60.0
    """How long a keeper that `holdfast up` has started stays when nothing is due."""
