"""What a data partition takes of a transactional producer, and tells of it; markers by hand."""

from typing import Any

from kafka.protocol.admin import DescribeProducersRequest
from kafka.protocol.producer import ProduceRequest, WriteTxnMarkersRequest

from holdfast.client.groups import TopicPartition
from holdfast.client.transactions import Identity, add_partitions, end_txn, init_producer_id
from holdfast.records.build import Record, build_batch
from tests.kafka.questions.asking import active_producers, aged, ends, question, strangers
from tests.kafka.talk import Talk, describe

PLAIN = build_batch([Record(value=b"plain")])


@question(ProduceRequest, first=3)
def produce_unannounced(talk: Talk) -> None:
    """From version 12 on the batch announces its partition itself."""
    talk.start()
    talk.tell("not added", talk.produce(talk.batch()))
    talk.tell("state", describe(talk.name), 0)
    ends(talk, "after")


@question(ProduceRequest, first=3)
def produce_announced(talk: Talk) -> None:
    talk.start()
    talk.open()
    talk.tell("first", talk.produce(talk.batch()))
    talk.tell("repeated", talk.produce(talk.batch()))
    talk.tell("next", talk.produce(talk.batch(sequence=1)))
    talk.tell("gap", talk.produce(talk.batch(sequence=5)))
    ends(talk, "while open")
    talk.tell("not transactional while open", talk.produce(talk.batch(sequence=2, transactional=False)))
    talk.tell(
        "the same without the id",
        talk.produce(talk.batch(sequence=2, transactional=False), transactional_id=None),
    )
    talk.end(committed=True)
    ends(talk, "after commit")
    talk.tell("repeated after commit", talk.produce(talk.batch(sequence=1)))
    talk.tell("next after commit, not added", talk.produce(talk.batch(sequence=2)))
    talk.tell("state", describe(talk.name), 0)


@question(ProduceRequest, first=3)
def produce_after_bump(talk: Talk) -> None:
    """After an end of the second generation the next transaction begins at sequence 0 of a new epoch."""
    talk.start()
    talk.open(data=True)
    before = talk.who
    talk.end(committed=True, version=5)
    talk.tell("old epoch", talk.produce(talk.batch(sequence=1, who=before)))
    talk.tell("repeat of old epoch", talk.produce(talk.batch(who=before)))
    talk.do(add_partitions(talk.who, [talk.place]), 3)
    talk.tell("new epoch, sequence goes on", talk.produce(talk.batch(sequence=1)))
    talk.tell("new epoch, sequence 0", talk.produce(talk.batch()))


@question(ProduceRequest, first=3)
def produce_first_sequence(talk: Talk) -> None:
    talk.start()
    talk.open()
    talk.tell("first batch with sequence 5", talk.produce(talk.batch(sequence=5)))


@question(ProduceRequest, first=3)
def produce_strangers(talk: Talk) -> None:
    aged(talk)
    talk.open(data=True)
    for label, who in strangers(talk).items():
        request = talk.produce(talk.batch(sequence=1, who=who), transactional_id=who.transactional_id or "")
        if not who.transactional_id:
            request.transactional_id = ""
        talk.tell(label, request)
    ends(talk, "after")


@question(ProduceRequest, first=3)
def produce_strangers_elsewhere(talk: Talk) -> None:
    """As before, to a partition that has seen nothing of the producer."""
    aged(talk)
    talk.open(data=True)
    for label, who in strangers(talk).items():
        request = talk.produce(talk.batch(who=who), transactional_id=who.transactional_id, partition=1)
        if not who.transactional_id:
            request.transactional_id = ""
        talk.tell(label, request)


@question(ProduceRequest, first=3)
def produce_id_and_bit(talk: Talk) -> None:
    """The request names a transactional id or not, the batch has the bit or not, or they contradict."""
    talk.start()
    talk.open()
    talk.tell("bit without id", talk.produce(talk.batch(), transactional_id=None))
    talk.tell("id, batch idempotent", talk.produce(talk.batch(transactional=False)))
    talk.tell("id, batch plain", talk.produce(PLAIN))
    plain = talk.do(init_producer_id(Identity(transactional_id=None), timeout_ms=1000), 4)  # type: ignore[arg-type]
    other = Identity(
        transactional_id=talk.name, producer_id=plain.producer_id, producer_epoch=plain.producer_epoch
    )
    talk.tell("bit and id, producer of another", talk.produce(talk.batch(who=other), partition=1))
    talk.tell(
        "bit without id, producer without id",
        talk.produce(talk.batch(who=other), transactional_id=None, partition=1),
    )
    ends(talk, "after")


@question(ProduceRequest, first=3)
def produce_odd(talk: Talk) -> None:
    talk.start()
    talk.open()
    for acks in (1, 2):
        request = talk.produce(talk.batch())
        request.acks = acks
        talk.tell(f"acks {acks}", request)
    talk.tell("unknown partition", talk.produce(talk.batch(), partition=9))
    both = talk.produce(talk.batch(sequence=0), partition=0)
    both.topic_data[0].partition_data += talk.produce(PLAIN, partition=1).topic_data[0].partition_data
    talk.tell("a transactional and a plain batch", both)
    two = talk.produce(talk.batch(sequence=1), partition=0)
    two.topic_data[0].partition_data += talk.produce(talk.batch(), partition=1).topic_data[0].partition_data
    talk.tell("an added and another partition", two)
    control = build_batch(
        [Record(key=bytes(4), value=bytes(6))],
        control=True,
        transactional=True,
        producer_id=talk.who.producer_id,
        producer_epoch=talk.who.producer_epoch,
        base_sequence=2,
    )
    talk.tell("control batch", talk.produce(control))
    ends(talk, "after")


@question(ProduceRequest, first=3)
def produce_without_key(talk: Talk) -> None:
    """A compacted topic refuses the batch; the transaction goes on without it."""
    talk.start(cleanup_policy="compact")
    talk.open()
    talk.tell("no key", talk.produce(talk.batch()))
    ends(talk, "after the refusal")
    talk.tell("key, same sequence", talk.produce(talk.batch(key=b"k")))
    talk.tell("no key, next sequence", talk.produce(talk.batch(sequence=1)))
    talk.tell("producers", active_producers(talk.place), 0)
    ends(talk, "while open")
    talk.end(committed=True)
    ends(talk, "after commit")


@question(ProduceRequest, first=12)
def produce_without_key_unannounced(talk: Talk) -> None:
    """The refused batch is the first word of its transaction."""
    talk.start(cleanup_policy="compact")
    talk.tell("no key", talk.produce(talk.batch()))
    talk.tell("state", describe(talk.name), 0)
    talk.tell("abort", end_txn(talk.who, committed=False), 5)


@question(DescribeProducersRequest)
def producers_described(talk: Talk) -> None:
    talk.start()
    mine = active_producers(talk.place)
    talk.tell("nothing", mine)
    talk.tell("unknown partition", active_producers(TopicPartition(talk.topic, 9)))
    talk.tell("unknown topic", active_producers(TopicPartition("nowhere", 0)))
    talk.open()
    talk.tell("added, no data", mine)
    talk.do(talk.produce(talk.batch(count=3)), 11)
    talk.tell("open", mine)
    talk.end(committed=True)
    talk.tell("committed", mine)
    talk.do(add_partitions(talk.who, [talk.place]), 3)
    talk.do(talk.produce(talk.batch(sequence=3)), 11)
    talk.tell("open again", mine)
    talk.end(committed=False)
    talk.tell("aborted", mine)
    talk.do(add_partitions(talk.who, [talk.place]), 3)
    talk.do(talk.produce(talk.batch(sequence=4)), 11)
    talk.end(committed=True, version=5)
    talk.tell("committed by TV2", mine)


@question(WriteTxnMarkersRequest, first=1)
def markers_written(talk: Talk) -> None:
    """What `kafka-transactions abort` does to a transaction that hangs."""
    aged(talk)

    def ask(who: Identity, *places: TopicPartition, committed: bool = False, coordinator: int = -1) -> Any:
        part = WriteTxnMarkersRequest.WritableTxnMarker
        topics = [
            part.WritableTxnMarkerTopic(name=place.topic, partition_indexes=[place.partition])
            for place in places
        ]
        marker = part(
            producer_id=who.producer_id,
            producer_epoch=who.producer_epoch,
            transaction_result=committed,
            topics=topics,
            coordinator_epoch=coordinator,
            transaction_version=0,
        )
        return WriteTxnMarkersRequest(markers=[marker])

    talk.tell("unknown partition", ask(talk.who, TopicPartition(talk.topic, 9)))
    talk.tell("unknown topic", ask(talk.who, TopicPartition("nowhere", 0)))
    talk.tell("unknown producer", ask(talk.claim(producer_id=1 << 40), talk.place))
    talk.tell("nothing open", ask(talk.who, talk.place))
    ends(talk, "after markers without a transaction")
    talk.open(data=True)
    talk.tell("old epoch", ask(talk.claim(epoch=-1), talk.place))
    talk.tell("open, coordinator epoch -1", ask(talk.who, talk.place))
    ends(talk, "after abort")
    talk.tell("again", ask(talk.who, talk.place))
    talk.tell("state", describe(talk.name), 0)
    talk.tell("producers", active_producers(talk.place), 0)
    talk.tell("produce after abort", talk.produce(talk.batch(sequence=1)), 11)
    talk.tell("then commit", end_txn(talk.who, committed=True), 4)
    talk.completed()
    talk.open()
    talk.do(talk.produce(talk.batch(sequence=2)), 11)
    talk.tell("coordinator epoch -1 after one of 0", ask(talk.who, talk.place))
    talk.tell("coordinator epoch 0", ask(talk.who, talk.place, coordinator=0))
