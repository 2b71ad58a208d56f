"""How much of what is there a micro-batch takes, shared out fairly. Pure."""

from collections.abc import Mapping

from holdfast.client.groups import TopicPartition

Positions = dict[TopicPartition, int]


def admit(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], *, offsets_max: int
) -> Positions:
    """Ends that cover `offsets_max` offsets at most, each partition's share in proportion to what waits there.

    What rounding leaves goes to the partitions with the most, so that something is taken while something waits.
    """
    waiting = {place: max(0, end - starts[place]) for place, end in ends.items()}
    total = sum(waiting.values())
    if total <= offsets_max:
        return {place: starts[place] + count for place, count in waiting.items()}
    shares = {place: count * offsets_max // total for place, count in waiting.items()}
    left = offsets_max - sum(shares.values())
    # Every share is less than what waits, or nothing waits: there is room for one more each.
    for place in sorted(waiting, key=lambda place: (-waiting[place], place))[:left]:
        shares[place] += 1
    return {place: starts[place] + share for place, share in shares.items()}


def offsets_for_bytes(
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    bytes_per_offset: Mapping[TopicPartition, float],
    *,
    bytes_max: int,
) -> int:
    """How many offsets make about so many bytes, if they are taken in proportion; 1 at least."""
    waiting = {place: max(0, end - starts[place]) for place, end in ends.items()}
    total = sum(waiting.values())
    total_bytes = sum(count * bytes_per_offset.get(place, 0.0) for place, count in waiting.items())
    if total_bytes <= bytes_max:
        return max(1, total)
    return max(1, int(total * bytes_max / total_bytes))
