"""The law of one id against a brute-force oracle, and its words."""

from itertools import product

import pytest

from holdfast.pipelines.config import EndState
from holdfast.pipelines.recon.law import Kind, Law, Place, Sighting, Stage, Tally, is_conserved, judge, tally

LAW = Law(delivered=frozenset({EndState.QUALIFIED}))
Q, N, F = EndState


def seen(stage: Stage, end_state: EndState | None = None, offset: int = 0, arrived_ms: int = 0) -> Sighting:
    place = Place(topic=stage.value, partition=0, offset=offset)
    return Sighting(stage=stage, end_state=end_state, place=place, time_ms=0, arrived_ms=arrived_ms)


def kinds(*sightings: Sighting, seal_ms: int | None = None) -> set[Kind]:
    return {finding.kind for finding in judge("a", sightings, LAW, seal_ms=seal_ms)}


INGESTED, DELIVERED = seen(Stage.INGEST), seen(Stage.DELIVERED, Q)
AUDITED = {state: seen(Stage.AUDIT, state) for state in EndState}


@pytest.mark.parametrize(
    ("sightings", "expected"),
    [
        ([INGESTED, DELIVERED, AUDITED[Q]], set()),
        ([INGESTED, AUDITED[N]], set()),
        ([INGESTED, AUDITED[F]], set()),
        ([INGESTED], {Kind.MISSING}),
        ([INGESTED, DELIVERED], {Kind.MISSING}),
        ([INGESTED, AUDITED[Q]], {Kind.MISSING}),
        ([INGESTED, DELIVERED, AUDITED[Q], AUDITED[Q]], {Kind.DUPLICATE}),
        ([INGESTED, DELIVERED, DELIVERED, AUDITED[Q]], {Kind.DUPLICATE}),
        ([INGESTED, DELIVERED, DELIVERED, AUDITED[Q], AUDITED[Q]], {Kind.DUPLICATE}),
        ([INGESTED, AUDITED[N], AUDITED[N]], {Kind.DUPLICATE}),
        ([INGESTED, AUDITED[N], AUDITED[F]], {Kind.CONFLICTING}),
        ([INGESTED, DELIVERED, AUDITED[Q], AUDITED[F]], {Kind.CONFLICTING}),
        ([INGESTED, DELIVERED, AUDITED[F]], {Kind.CONFLICTING, Kind.MISSING}),
        ([AUDITED[F]], {Kind.ORPHAN}),
        ([DELIVERED], {Kind.ORPHAN}),
        ([DELIVERED, AUDITED[Q]], {Kind.ORPHAN}),
        ([INGESTED, INGESTED, AUDITED[N]], set()),
        ([INGESTED, INGESTED, AUDITED[N], AUDITED[N]], set()),
        ([INGESTED, INGESTED, AUDITED[N], AUDITED[F]], set()),
        ([INGESTED, INGESTED, AUDITED[N], AUDITED[N], AUDITED[N]], {Kind.DUPLICATE}),
        ([INGESTED, INGESTED], {Kind.MISSING}),
        ([], set()),
    ],
)
def test_what_is_wrong_with_an_id(sightings: list[Sighting], expected: set[Kind]) -> None:
    assert kinds(*sightings) == expected


def test_whoever_counts_equal_on_all_sides_is_conserved_and_nobody_else_but_recognised_repetitions() -> None:
    """So equal fingerprints need no exact look: it would find nothing."""
    for ingested, q, n, f, delivered in product(range(4), repeat=5):
        found = Tally(ingested=ingested, audited={Q: q, N: n, F: f}, delivered={Q: delivered, N: 0, F: 0})
        balanced = ingested == q + n + f and delivered == q
        recognised = delivered == q and 1 <= q + n + f <= ingested
        assert is_conserved(found, LAW) == (balanced or recognised), found


def test_a_finding_names_every_record_of_the_id_in_the_order_of_its_life() -> None:
    records = [seen(Stage.AUDIT, N, 7, 30), seen(Stage.AUDIT, F, 3, 20), seen(Stage.INGEST, None, 9, 10)]
    [found] = judge("a", records, LAW)
    assert [each.place.offset for each in found.sightings] == [9, 3, 7]
    assert found.why == "it ended as not_qualified and as failed"
    assert str(found.sightings[0].place) == "ingest-0 at offset 9"


def test_late_is_what_arrives_at_the_seal_or_after_it() -> None:
    on_time, late = seen(Stage.AUDIT, N, arrived_ms=99), seen(Stage.AUDIT, N, arrived_ms=100)
    assert kinds(INGESTED, on_time, seal_ms=100) == set()
    assert kinds(INGESTED, late, seal_ms=100) == {Kind.LATE}
    assert kinds(late, seal_ms=100) == {Kind.LATE, Kind.ORPHAN}
    assert kinds(INGESTED, late) == set()


def test_an_end_state_without_a_topic_is_not_missed_there() -> None:
    law = Law(delivered=frozenset())
    assert judge("a", [INGESTED, AUDITED[Q]], law) == []
    assert tally([INGESTED, AUDITED[Q]]).ended == 1
