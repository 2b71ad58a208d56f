"""Options of `format("holdfast")`."""

import pytest

from holdfast.client.endpoint import Endpoint
from holdfast.client.offsets import Isolation
from holdfast.errors import UsageError
from holdfast.spark.options import parse_options
from holdfast.spark.schema import COLUMNS

NEEDED = {"bootstrap": "127.0.0.1:9092", "topic": "orders"}


def test_defaults() -> None:
    """Bootstrap and topic are enough: everything committed, all columns, one task per partition."""
    options = parse_options(NEEDED)
    assert (options.starting, options.ending) == ("earliest", "latest")
    assert options.isolation is Isolation.READ_COMMITTED
    assert options.columns == COLUMNS
    assert (options.partitions_min, options.records_max) == (None, None)


def test_names_in_any_case_and_aliases() -> None:
    """Spark hands option names on in lower case, and Kafka users write Spark's own names."""
    options = parse_options(
        {"kafka.Bootstrap.servers": "a:1,b:2", "SUBSCRIBE": "x, y,x", "startingoffsets": "EARLIEST"}
    )
    assert options.endpoint == Endpoint("a:1,b:2")
    assert options.topics == ("x", "y")
    assert options.starting == "earliest"


def test_offsets_by_partition() -> None:
    """JSON as in Spark's Kafka source."""
    options = parse_options(
        NEEDED | {"startingOffsets": '{"orders": {"0": 5, "1": -2}}', "endingOffsets": "latest"}
    )
    assert options.starting == {"orders": {0: 5, 1: -2}}


@pytest.mark.parametrize(
    ("wrong", "option"),
    [
        ({"bootstrap": ""}, "bootstrap"),
        ({"bootstrap": "somewhere"}, "bootstrap"),
        ({"topic": " "}, "topic"),
        ({"topic": ","}, "topic"),
        ({"subscribe": "other"}, "topic is given twice"),
        ({"topics": "x"}, "topics"),
        ({"kafka.max.poll.records": "5"}, "kafka.max.poll.records"),
        ({"startingOffsets": "latest"}, "startingOffsets"),
        ({"endingOffsets": "earliest"}, "endingOffsets"),
        ({"startingOffsets": "yesterday"}, "startingOffsets"),
        ({"startingOffsets": "[1]"}, "startingOffsets"),
        ({"startingOffsets": '{"orders": 1}'}, "startingOffsets"),
        ({"startingOffsets": '{"orders": {"0": "1"}}'}, "startingOffsets"),
        ({"startingOffsets": '{"orders": {"0": 1.5}}'}, "startingOffsets"),
        ({"startingOffsets": '{"orders": {"0": true}}'}, "startingOffsets"),
        ({"startingOffsets": '{"orders": {"x": 1}}'}, "startingOffsets"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "startingOffsets"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "endingOffsets"),
        ({"endingOffsets": '{"orders": {"0": -3}}'}, "endingOffsets"),
        ({"isolation": "snapshot"}, "isolation"),
        ({"columns": "key,colour"}, "columns"),
        ({"minPartitions": "0"}, "minPartitions"),
        ({"minPartitions": "many"}, "minPartitions"),
        ({"maxRecordsPerPartition": "-5"}, "maxRecordsPerPartition"),
    ],
)
def test_mistakes(wrong: dict[str, str], option: str) -> None:
    """Every mistake is a UsageError that names the option."""
    with pytest.raises(UsageError, match=f"^option {option}"):
        parse_options(NEEDED | wrong)
