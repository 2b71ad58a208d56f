"""What a coordinator keeps of a transaction, and tells: added partitions and groups, lists, descriptions."""

from typing import Any

from kafka.protocol.admin import ListTransactionsRequest
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, InitProducerIdRequest

from holdfast.client.groups import TopicPartition
from holdfast.client.transactions import Identity, add_offsets, add_partitions
from tests.kafka.questions.asking import aged, question, strangers
from tests.kafka.talk import Talk, describe


@question(AddPartitionsToTxnRequest, last=3)
def add_partitions_strangers(talk: Talk) -> None:
    aged(talk)
    for label, who in strangers(talk).items():
        talk.tell(label, add_partitions(who, [talk.place]))
    talk.tell("state", describe(talk.name), 0)


@question(AddPartitionsToTxnRequest, last=3)
def add_partitions_places(talk: Talk) -> None:
    talk.start()
    talk.tell("no partitions", add_partitions(talk.who, []))
    talk.tell("unknown topic", add_partitions(talk.who, [TopicPartition("nowhere", 0)]))
    talk.tell("unknown partition", add_partitions(talk.who, [TopicPartition(talk.topic, 9)]))
    both = [talk.place, TopicPartition(talk.topic, 9)]
    talk.tell("good and unknown partition", add_partitions(talk.who, both))
    talk.tell("state before", describe(talk.name), 0)
    talk.tell("good", add_partitions(talk.who, [talk.place]))
    talk.tell("again", add_partitions(talk.who, [talk.place]))
    talk.tell("state after", describe(talk.name), 0)


@question(AddPartitionsToTxnRequest, first=4)
def add_partitions_batched(talk: Talk) -> None:
    talk.start()
    topic_part = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction.AddPartitionsToTxnTopic

    def ask(who: Identity, *, verify_only: bool) -> Any:
        transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
            transactional_id=who.transactional_id,
            producer_id=who.producer_id,
            producer_epoch=who.producer_epoch,
            verify_only=verify_only,
            topics=[topic_part(name=talk.topic, partitions=[0])],
        )
        return AddPartitionsToTxnRequest(transactions=[transaction])

    talk.tell("verify in empty state", ask(talk.who, verify_only=True))
    talk.tell("add", ask(talk.who, verify_only=False))
    talk.tell("verify", ask(talk.who, verify_only=True))
    for label, who in strangers(talk).items():
        talk.tell(f"verify, {label}", ask(who, verify_only=True))
        talk.tell(f"add, {label}", ask(who, verify_only=False))


@question(AddOffsetsToTxnRequest)
def add_offsets_strangers(talk: Talk) -> None:
    aged(talk)
    for label, who in strangers(talk).items():
        talk.tell(label, add_offsets(who, "g." + talk.name))
    talk.tell("empty group", add_offsets(talk.who, ""))
    talk.tell("good", add_offsets(talk.who, "g." + talk.name))
    talk.tell("again", add_offsets(talk.who, "g." + talk.name))


@question(ListTransactionsRequest)
def listed(talk: Talk) -> None:
    talk.start()

    def ask(label: str, **filters: Any) -> None:
        wanted = {"state_filters": [], "producer_id_filters": [], **filters}
        talk.tell(label, ListTransactionsRequest(**wanted))

    mine = {"producer_id_filters": [talk.who.producer_id]}
    ask("empty state", **mine)
    ask("state filter Empty", state_filters=["Empty"], **mine)
    talk.open(data=True)
    ask("open")
    ask("state filter Ongoing", state_filters=["Ongoing"])
    ask("state filter ongoing", state_filters=["ongoing"])
    ask("state filters CompleteCommit and Foo", state_filters=["CompleteCommit", "Foo"])
    ask("state filters Ongoing and Foo", state_filters=["Ongoing", "Foo"])
    ask("another producer", producer_id_filters=[1 << 40])
    if talk.version >= 1:
        for duration in (-1, -5, 0, 1, 3_600_000):
            ask(f"duration {duration}", duration_filter=duration)
    if talk.version >= 2:
        for pattern in (None, "", talk.name, talk.name[:-1], talk.name[:-1] + ".", ".*", "nobody", "("):
            ask(
                f"pattern {pattern and pattern.replace(talk.name[:-1], '<name less 1>')}",
                transactional_id_pattern=pattern,
            )
    talk.end(committed=True)
    ask("committed", **mine)
    if talk.version >= 1:
        ask("committed, duration 0", duration_filter=0, **mine)


@question(FindCoordinatorRequest, first=1)
def find_transaction_coordinator(talk: Talk) -> None:
    def ask(label: str, *keys: str, kind: int = 1) -> None:
        request = (
            FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
            if talk.version >= 4
            else FindCoordinatorRequest(key_type=kind, key=keys[0])
        )
        talk.tell(label, request)

    ask("unknown id", talk.name)
    ask("empty id", "")
    ask("type 7", talk.name, kind=7)
    if talk.version >= 4:
        ask("two ids", talk.name, "another")
        ask("no id")


@question(InitProducerIdRequest, first=4, last=4)
def described(talk: Talk) -> None:
    talk.start()
    talk.tell("unknown id", describe("nobody"), 0)
    talk.tell("empty id", describe(""), 0)
    talk.tell("no id", describe(), 0)
    talk.tell("empty state", describe(talk.name), 0)
    talk.tell("named twice", describe(talk.name, talk.name), 0)
    talk.open()
    talk.do(add_offsets(talk.who, "g." + talk.name), 3)
    talk.tell("open, with offsets", describe(talk.name), 0)
    talk.end(committed=False)
    talk.tell("aborted", describe(talk.name), 0)
    talk.open()
    talk.end(committed=True, version=5)
    talk.tell("committed by TV2", describe(talk.name), 0)
