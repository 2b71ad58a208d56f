"""Where fingerprints of a window say that the law may be broken."""

from holdfast.pipelines.config import EndState
from holdfast.pipelines.recon.law import Law, Stage
from holdfast.pipelines.recon.reading import INGESTED, number_of
from holdfast.records.fingerprints import Fingerprints, differing
from holdfast.spark.reconcile import Group


def unbalanced(made: Fingerprints[Group], tenant: str, window: int, law: Law) -> set[int]:
    """The buckets in which ingest and audit differ, or audit and what was delivered."""
    audited = {state: Group(tenant, number_of(Stage.AUDIT, state), window) for state in EndState}
    ended = made.sum(audited.values())
    buckets = set(differing(made.cells(Group(tenant, INGESTED, window)) - ended).tolist())
    for state in law.delivered:
        delivered = made.cells(Group(tenant, number_of(Stage.DELIVERED, state), window))
        buckets |= set(differing(made.cells(audited[state]) - delivered).tolist())
    return buckets
