"""Sends without transactions: tried again ten times, then given up, and what that does to the sequence numbers."""

from typing import Any

import pytest

from holdfast.client.cluster import Cluster
from holdfast.client.endpoint import Endpoint
from holdfast.client.groups import TopicPartition
from holdfast.client.offsets import LATEST, list_offsets
from holdfast.client.piece_producer import PieceProducer
from holdfast.client.topics import alter_configs, create_topic
from holdfast.client.transactions import Identity
from holdfast.errors import ConnectionFailed
from holdfast.pipelines.dual import RETRIES_MAX, Sender
from holdfast.records.build import Record, build_batch


class Few:
    """Some records for a partition."""

    def __init__(self, *values: bytes) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def build(self, identity: Identity, base_sequence: int, *, transactional: bool) -> bytes:
        """See Piece."""
        return build_batch(
            [Record(value=value) for value in self.values],
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
        )

    def halves(self) -> tuple["Few", "Few"]:
        """See Piece."""
        middle = len(self.values) // 2
        return Few(*self.values[:middle]), Few(*self.values[middle:])


def ends(cluster: Cluster, topic: str) -> dict[int, int]:
    """How many records each partition has."""
    return list_offsets(cluster, topic, dict.fromkeys(cluster.topic(topic).partitions, LATEST))


def test_ten_retries_then_it_gives_up(cluster: Cluster) -> None:
    """The eleventh attempt is the last one; a refusal of one topic does not hold the other one back."""
    for name in ("sends.good", "sends.bad"):
        create_topic(cluster, name, partitions=1)
    alter_configs(cluster, "sends.bad", put={"min.insync.replicas": "2"}, unset=[])
    good, bad = TopicPartition("sends.good", 0), TopicPartition("sends.bad", 0)
    pauses: list[float] = []
    sender = Sender(Endpoint(cluster.bootstrap), pause_s=0.5, sleep=pauses.append)
    sender.send({good: [Few(b"1", b"2")], bad: [Few(b"3")]})
    assert pauses == [0.5] * RETRIES_MAX == [0.5] * 10
    assert sender.given_up == {"sends.bad": 1}
    alter_configs(cluster, "sends.bad", put={}, unset=["min.insync.replicas"])
    # What comes after is not taken for what was given up: it would bear the same sequence number.
    sender.send({bad: [Few(b"4")], good: [Few(b"5")]})
    sender.close()
    assert sender.given_up == {"sends.bad": 1}
    assert (ends(cluster, "sends.good"), ends(cluster, "sends.bad")) == ({0: 3}, {0: 1})


def test_recovers_within_the_retries(cluster: Cluster) -> None:
    """The tenth retry still counts."""
    create_topic(cluster, "sends.late", partitions=1)
    alter_configs(cluster, "sends.late", put={"min.insync.replicas": "2"}, unset=[])
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == RETRIES_MAX:
            alter_configs(cluster, "sends.late", put={}, unset=["min.insync.replicas"])

    sender = Sender(Endpoint(cluster.bootstrap), sleep=sleep)
    sender.send({TopicPartition("sends.late", 0): [Few(b"1"), Few(b"2")]})
    sender.close()
    assert not sender.given_up
    assert ends(cluster, "sends.late") == {0: 2}


def test_what_can_never_be_sent_is_given_up_at_once(cluster: Cluster) -> None:
    """A record that is too large; those beside it get there."""
    create_topic(cluster, "sends.small", partitions=1, configs={"max.message.bytes": "200"})
    pauses: list[float] = []
    sender = Sender(Endpoint(cluster.bootstrap), sleep=pauses.append)
    sender.send({TopicPartition("sends.small", 0): [Few(b"1", b"2", b"x" * 300), Few(b"3")]})
    sender.close()
    assert pauses == []
    assert sender.given_up["sends.small"] + ends(cluster, "sends.small")[0] == 4
    assert ends(cluster, "sends.small")[0] >= 2


def test_given_up_although_it_was_written(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer is lost, so that nobody knows; the next record must not be taken for that one sent again."""
    create_topic(cluster, "sends.doubt", partitions=1)
    place = TopicPartition("sends.doubt", 0)
    sender = Sender(Endpoint(cluster.bootstrap), sleep=lambda seconds: None)
    produce = PieceProducer._produce

    def lose_the_answer(self: PieceProducer, *about: Any) -> None:
        produce(self, *about)
        raise ConnectionFailed("the answer is lost")

    with monkeypatch.context() as patched:
        patched.setattr(PieceProducer, "_produce", lose_the_answer)
        sender.send({place: [Few(b"1")]})
    assert sender.given_up == {"sends.doubt": 1}
    assert ends(cluster, "sends.doubt") == {0: 1}
    sender.send({place: [Few(b"2")]})
    sender.close()
    assert ends(cluster, "sends.doubt") == {0: 2}
