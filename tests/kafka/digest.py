"""Answers about transactions in one line: error codes by name, producer ids by their order of appearance."""

from typing import Any

import kafka.errors

from holdfast.client.transactions import verdicts


def named_code(code: int) -> str:
    """`48 INVALID_TXN_STATE`; 0 for success."""
    if code == 0:
        return "0"
    found: Any = kafka.errors.for_code(code)
    return f"{code} {found.message or found.__name__}"


def codes(answer: Any) -> list[int]:
    """Every error code of an answer, those of partitions in the order of their numbers."""
    if hasattr(answer, "groups"):
        return [
            part.error_code for group in answer.groups for topic in group.topics for part in topic.partitions
        ]
    found = sorted(verdicts(answer), key=lambda verdict: verdict.place or ("", -1))
    return [verdict.code for verdict in found] + [
        each.partition_error_code
        for transaction in getattr(answer, "results_by_transaction", ())
        for topic in transaction.topic_results
        for each in topic.results_by_partition
    ]


def digest(answer: Any, known: dict[int, str]) -> str:
    """What an answer says, without what is the broker's own."""
    return _DIGESTS.get(answer.name, _plain)(answer, known)


def _plain(answer: Any, known: dict[int, str]) -> str:
    # A top-level code stands beside those of partitions also in versions that do not have it.
    found = codes(answer)
    return (
        ", ".join(named_code(code) for code in (found[1:] or found if found[:1] == [0] else found))
        or "nothing"
    )


def _producer(answer: Any, known: dict[int, str]) -> str:
    pid = known.setdefault(answer.producer_id, f"p{len(known)}")
    return f"{named_code(answer.error_code)} ({pid}, {answer.producer_epoch})"


def _end(answer: Any, known: dict[int, str]) -> str:
    return _producer(answer, known) if answer.API_VERSION >= 5 else _plain(answer, known)


def _produced(answer: Any, known: dict[int, str]) -> str:
    found = {
        each.index: f"{named_code(each.error_code)} @{each.base_offset}"
        for topic in answer.responses
        for each in topic.partition_responses
    }
    return ", ".join(found[index] for index in sorted(found))


def _described(answer: Any, known: dict[int, str]) -> str:
    return "; ".join(
        f"{named_code(each.error_code)} {each.transaction_state or '-'} timeout={each.transaction_timeout_ms} "
        f"({known.get(each.producer_id, each.producer_id)}, {each.producer_epoch}) "
        f"started={'yes' if each.transaction_start_time_ms > 0 else each.transaction_start_time_ms} "
        f"partitions={sorted(part for topic in each.topics for part in topic.partitions)}"
        for each in answer.transaction_states
    )


def _listed(answer: Any, known: dict[int, str]) -> str:
    states = [
        f"{known[each.producer_id]} {each.transaction_state}"
        for each in answer.transaction_states
        if each.producer_id in known
    ]
    unknown = f" unknown={sorted(answer.unknown_state_filters)}" if answer.unknown_state_filters else ""
    return f"{named_code(answer.error_code)} [{', '.join(sorted(states))}]{unknown}"


def _active(answer: Any, known: dict[int, str]) -> str:
    return "; ".join(
        f"{named_code(part.error_code)} "
        + str(
            [
                f"({known.get(each.producer_id, '?')}, {each.producer_epoch}) last={each.last_sequence} "
                f"start={each.current_txn_start_offset} coordinator={each.coordinator_epoch}"
                for each in part.active_producers
            ]
        )
        for topic in answer.topics
        for part in topic.partitions
    )


def _offsets(answer: Any, known: dict[int, str]) -> str:
    groups = getattr(answer, "groups", None) or [answer]
    return "; ".join(
        f"{named_code(getattr(group, 'error_code', 0))} "
        + str(
            {
                part.partition_index: f"{named_code(part.error_code)} ={part.committed_offset}"
                for topic in group.topics or ()
                for part in topic.partitions
            }
        )
        for group in groups
    )


def _coordinators(answer: Any, known: dict[int, str]) -> str:
    found = getattr(answer, "coordinators", None) or [answer]
    return "; ".join(
        f"{named_code(each.error_code)} {'a node' if each.node_id >= 0 else 'no node'}" for each in found
    )


def _markers(answer: Any, known: dict[int, str]) -> str:
    return ", ".join(
        named_code(part.error_code)
        for marker in answer.markers
        for topic in marker.topics
        for part in topic.partitions
    )


_DIGESTS: dict[str, Any] = {
    "InitProducerIdResponse": _producer,
    "EndTxnResponse": _end,
    "ProduceResponse": _produced,
    "DescribeTransactionsResponse": _described,
    "ListTransactionsResponse": _listed,
    "DescribeProducersResponse": _active,
    "OffsetFetchResponse": _offsets,
    "FindCoordinatorResponse": _coordinators,
    "WriteTxnMarkersResponse": _markers,
}
