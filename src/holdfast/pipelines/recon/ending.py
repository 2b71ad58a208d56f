"""Ends messages anew that the service has passed and nobody has heard of since: by the pipeline's own transform.

A transform is deterministic by contract, so that it comes to what the service came to when it gave the message up.
"""

import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark import cloudpickle

from holdfast.pipelines.frames import ORIGIN_HEADER, end, route, with_identity
from holdfast.pipelines.recon.close import Desk
from holdfast.pipelines.recon.law import Place
from holdfast.pipelines.transform import find_transform
from holdfast.records.build import Record
from holdfast.spark.schema import SCHEMA

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def end_anew(desk: Desk, ingested: Mapping[Place, Record]) -> list[tuple[str, Place, Record]]:
    """For each record that the delivery mode asks for: its topic, where its message was ingested, and itself."""
    if not ingested:
        return []
    pipeline, transform = desk.pipeline, find_transform(desk.pipeline)
    # Workers need not find the module where this process has found it.
    cloudpickle.register_pickle_by_value(sys.modules[pipeline.transform.partition(":")[0]])
    frame = desk.session.createDataFrame([_row(*each) for each in ingested.items()], SCHEMA)
    ended = end(with_identity(frame, pipeline.identity), pipeline, transform)
    places = {f"{place.topic}/{place.partition}@{place.offset}".encode(): place for place in ingested}
    due = []
    for row in route(ended, pipeline).collect():
        headers = [(each.key, None if each.value is None else bytes(each.value)) for each in row.headers]
        place = places[next(value for name, value in headers if name == ORIGIN_HEADER and value is not None)]
        record = Record(
            key=None if row.key is None else bytes(row.key),
            value=None if row.value is None else bytes(row.value),
            headers=headers,
            timestamp_ms=ingested[place].timestamp_ms,
        )
        due.append((row.topic, place, record))
    return due


def _row(place: Place, record: Record) -> tuple[object, ...]:
    """As the source gives it."""
    headers = list(record.headers) or None
    moment = _EPOCH + timedelta(milliseconds=record.timestamp_ms)
    return record.key, record.value, place.topic, place.partition, place.offset, moment, 0, headers
