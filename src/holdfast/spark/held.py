"""A reading in the hands of who reads: taken where the stores are in reach, renewed while it is in use."""

import math
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.client.admin import find_address
from holdfast.client.beside import find_admin_beside
from holdfast.client.cluster import Cluster
from holdfast.client.endpoint import Endpoint
from holdfast.client.offsets import Isolation
from holdfast.client.readings import (
    Reading,
    ReadingWanted,
    ReplicaPieces,
    load_reading,
    release_reading,
    renew_reading,
    take_reading,
)
from holdfast.errors import (
    AdminKnowsNot,
    AdminRefused,
    ConnectionFailed,
    HoldfastError,
    ReadingRefused,
    StoreFailed,
    UnknownTopicOrPartition,
    UsageError,
)
from holdfast.spark.options import ReadOptions
from holdfast.spark.store_options import StoreOptions
from holdfast.store.identity import read_identity

RENEW_PARTS = 4
"""A reading is renewed so many times in the time for which it is held."""
HOLDS_MAX = 64
"""That a process remembers to have renewed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """What it takes to go on holding a reading, for whichever process has it."""

    address: str
    name: str
    seconds: float


class Holding:
    """Renews a hold from time to time. It only ever helps: whoever finds a file gone says so himself."""

    def __init__(self, hold: Hold | None) -> None:
        self._hold = hold

    def renew(self) -> None:
        """If it is time to, for all that this process reads of it: ranges may be many and short."""
        hold, now_s = self._hold, time.monotonic()
        if hold is None or now_s - _RENEWED_S.get(hold, -math.inf) < hold.seconds / RENEW_PARTS:
            return
        if len(_RENEWED_S) >= HOLDS_MAX:
            _RENEWED_S.clear()  # whoever is still read is renewed once too often
        _RENEWED_S[hold] = now_s
        with suppress(HoldfastError):
            renew_reading(hold.address, hold.name, hold.seconds)


_RENEWED_S: dict[Hold, float] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldReading:
    """A reading, and the way to hold it; `hold` None if somebody else sees to that."""

    reading: Reading
    hold: Hold | None

    def release(self) -> None:
        """Its files may go. That it cannot be said is no harm: the time runs out."""
        if self.hold is not None:
            with suppress(HoldfastError):
                release_reading(self.hold.address, self.hold.name)


def find_reading(options: ReadOptions) -> HeldReading | None:
    """The reading that the options ask for; None if the log is to be read through an agent."""
    stores = options.stores
    if stores.through == "agent":
        return None
    if options.agent_only is not None:
        if stores.through == "stores" or stores.is_enough:
            raise UsageError(f"option through: {options.agent_only} is asked of an agent, not of the stores")
        return None
    if stores.snapshot is not None:
        return HeldReading(reading=_load(stores.snapshot), hold=None)
    try:
        address = find_admin(stores, options.endpoint)
        if address is None:
            raise ConnectionFailed(
                f"option bootstrap: {options.endpoint} is no Holdfast of this machine, whose stores could be read"
            )
        return hold_reading(
            address,
            ReadingWanted(
                topics=list(options.topics),
                store=stores.replica,
                committed_only=options.isolation is Isolation.READ_COMMITTED,
                seconds=stores.held_seconds,
            ),
        )
    except (ConnectionFailed, StoreFailed) as failure:
        # The agent of a replica that is asked for has the same store before it, and takes long to find out.
        is_its_store = isinstance(failure, StoreFailed) and stores.replica is not None
        if is_its_store or stores.through == "stores" or stores.is_enough:
            raise
        return None


def find_admin(stores: StoreOptions, endpoint: Endpoint) -> str | None:
    """The admin service: the one that is named, or that of a Holdfast of this machine."""
    if stores.admin is not None:
        return stores.admin
    if stores.data is not None:
        return find_address(stores.data)
    with Cluster(endpoint) as cluster:
        return find_admin_beside(cluster)


def hold_reading(address: str, wanted: ReadingWanted) -> HeldReading:
    """Takes a reading; StoreFailed if the stores' directories are not those of this machine."""
    try:
        reading = take_reading(address, wanted)
    except AdminKnowsNot as refusal:
        raise UnknownTopicOrPartition(f"option topic: there is {refusal}") from None
    except AdminRefused as refusal:
        raise ReadingRefused(str(refusal)) from None
    held = HeldReading(
        reading=reading, hold=Hold(address=address, name=reading.name, seconds=reading.seconds)
    )
    try:
        for directory, store in {
            replica.directory: replica for each in reading.partitions for replica in each.replicas
        }.items():
            check_directory(Path(directory), reading.cluster_id, store)
    except StoreFailed as failure:
        held.release()
        if wanted.store is None:
            raise
        raise StoreFailed(
            f"replica {wanted.store} cannot be read here: {failure}; read another one with the option replica,"
            " or through an agent with the option through"
        ) from failure
    except BaseException:
        held.release()
        raise
    return held


def check_directory(directory: Path, cluster_id: str, expected: ReplicaPieces) -> None:
    """StoreFailed unless the directory is that store, in that life, as seen from this machine."""
    found = read_identity(directory)
    if (str(found.cluster_id), found.store, found.incarnation) != (
        cluster_id,
        expected.store,
        expected.incarnation,
    ):
        raise StoreFailed(f"{directory} is {found}: not the store that the admin service speaks of")


def _load(path: Path) -> Reading:
    try:
        return load_reading(path)
    except OSError as failure:
        raise ReadingRefused(f"option snapshot: cannot read {path}: {failure.strerror}") from failure
