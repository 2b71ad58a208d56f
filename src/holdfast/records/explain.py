"""What a batch means, in words: for people who look into a log."""

from datetime import UTC, datetime

from holdfast.records.batch import BatchView
from holdfast.records.control import Control, ControlType


def explain(view: BatchView, control: Control | None) -> list[str]:
    """Sentences on what is not plain to see in a batch; `control` is what `read_control` found in it."""
    sentences = []
    if view.is_control:
        sentences.append(_explain_control(view, control))
    elif view.record_count == 0:
        sentences.append(
            "Empty: a cleaner removed all records and left the header, which keeps the offsets taken and the "
            "producer's last sequence number known."
        )
    if view.delete_horizon_ms is not None:
        what = "this marker" if view.is_control else "tombstones in it"
        sentences.append(
            f"Delete horizon (KIP-534): a cleaner may drop {what} from {clock(view.delete_horizon_ms)} on."
        )
    return sentences


def clock(timestamp_ms: int) -> str:
    """A timestamp as people read it; one that no calendar holds stays a number."""
    if timestamp_ms < 0:
        return "no time" if timestamp_ms == -1 else f"{timestamp_ms} ms"
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"


def _explain_control(view: BatchView, control: Control | None) -> str:
    producer = f"producer {view.producer_id} (epoch {view.producer_epoch})"
    if control is None:
        return (
            f"Emptied control batch: a cleaner removed the marker of {producer}. Whether it said COMMIT or ABORT is "
            "gone; the header only keeps the offset taken and the producer's epoch known."
        )
    match control.type:
        case ControlType.COMMIT:
            return (
                f"COMMIT: the transaction of {producer} ends here and counts. Its records before this offset, back to "
                "its previous marker, are shown to read_committed consumers."
            )
        case ControlType.ABORT:
            return (
                f"ABORT: the transaction of {producer} ends here and is rolled back. Its records before this offset, "
                "back to its previous marker, are hidden from read_committed consumers."
            )
    return (
        f"Control record of type {control.type}: not a transaction marker; Kafka's internal logs hold such."
    )
