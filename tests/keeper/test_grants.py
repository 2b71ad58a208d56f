"""The ledger of grants: lawful histories pass, and of each other kind the first fault is named."""

import pytest

from holdfast.control.replicas import StorePhase
from holdfast.keeper.grants import (
    Frame,
    GrantLedger,
    GroupAccount,
    ReplicaAccount,
    StoreAccount,
    Violation,
)
from holdfast.rules.removal import Removable
from holdfast.store.footer import Change, LogStartMoved, PartitionsAdded, TopicCreated, TopicDeleted
from holdfast.store.replica_changes import (
    Granted,
    KeeperLeased,
    ReplicasAssigned,
    StoreFenced,
    StoreJoined,
    StoreJoining,
    StoreLeft,
    StoreRebuilt,
)
from tests.keeper.ledgers import TOPIC, Told

KEY = (TOPIC, 0)


@pytest.fixture
def told() -> Told:
    """Stores 1 and 2 are clean up to 20, store 3 up to 10."""
    told = Told()
    for store, end in ((1, 20), (2, 20), (3, 10)):
        told.clean(store, end)
    return told


def removable(told: Told) -> Removable:
    """What the ledger makes of a history without fault."""
    ledger = GrantLedger()
    assert told.check(ledger) is None
    return ledger.find_removable(KEY)


def why(told: Told, frame: int, store: int) -> str:
    """What is wrong with a publication; it must be that one."""
    found = told.check()
    assert found is not None
    assert (found.frame, found.topic, found.partition, found.store) == (frame, "orders", 0, store)
    return found.why


def test_the_least_report_is_what_counts(told: Told) -> None:
    """A rewrite under exactly that is right, and every one of them is counted."""
    assert removable(told) == Removable(mtro=10, mxro=10)
    told.clean(1, 20, granted=10, forgets=10)
    ledger = GrantLedger()
    assert told.check(ledger) is None
    assert (ledger.rewrites, ledger.partitions) == (4, 1)


@pytest.mark.parametrize("grant", [Granted(11, 10, 0), Granted(10, 11, 0)])
def test_a_grant_above_the_least_report(told: Told, grant: Granted) -> None:
    """On either track."""
    number = told.clean(1, 20, granted=10)
    told.doctor(number, grant=grant)
    assert why(told, number, 1) == (
        f"was granted MTRO {grant.mtro}, MXRO {grant.mxro},"
        " while the members' reports allowed MTRO 10, MXRO 10"
    )


def test_a_grant_that_would_be_covered_only_later(told: Told) -> None:
    """It is held against what was reported before its frame, not against what is known at the end."""
    number = told.clean(1, 20, granted=20)
    told.clean(3, 20)
    assert "allowed MTRO 10" in why(told, number, 1)


def test_a_report_does_not_cover_its_own_grant() -> None:
    """What a rewrite reports counts from the next frame on."""
    told = Told()
    told.clean(1, 20)
    told.clean(2, 20)
    number = told.clean(3, 20, granted=20)
    assert "allowed MTRO 0" in why(told, number, 3)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"generation": 3}, "published generation 3 after 1"),
        ({"generation": 1}, "published generation 1 after 1"),
        ({"lease": 2}, "is leased under 1, and 2 published"),
        ({"incarnation": 2}, "is in life 1, and life 2 published"),
        ({"lineage": 2}, "published under lineage 2, in lineage 1"),
        ({"grant": Granted(9, 9, 10)}, "let tombstones go below 10 under a grant for 9"),
        ({"mcco": 21, "mxfo": 21}, "reported MCCO 21 and MXFO 21, while its segments end at 20"),
        ({"mxfo": 30}, "reported MCCO 20 and MXFO 30, while its segments end at 20"),
        ({"mcco": 20, "mxfo": -1, "added": ()}, None),
        ({"partition": 1}, "published segments of a partition that it does not hold"),
        ({"store": 9}, "published segments of a partition that it does not hold"),
    ],
)
def test_a_publication_that_does_not_fit(told: Told, fields: dict[str, object], said: str | None) -> None:
    """Each of what it says is held against what was said before."""
    number = told.clean(1, 20, granted=10)
    told.doctor(number, **fields)
    found = told.check()
    assert (None if found is None else found.why) == said
    if found is not None:
        assert (found.frame, found.store) == (number, fields.get("store", 1))


def test_a_fenced_store_publishes_nothing(told: Told) -> None:
    """It has left the minimum: the others go on without it, and nothing that it says counts."""
    told.say(StoreFenced(3))
    told.clean(1, 20, granted=20, forgets=20)
    assert removable(told) == Removable(mtro=20, mxro=20)
    assert why(told, told.clean(3, 15), 3) == "is fenced, and published"


def test_a_store_that_is_away_counts(told: Told) -> None:
    """And so does one that comes back."""
    told.say(StoreLeft(3, ()))
    told.say(StoreJoining(3, 1))
    told.say(StoreJoined(3))
    assert removable(told) == Removable(mtro=10, mxro=10)
    assert "allowed MTRO 10" in why(told, told.clean(1, 20, granted=20), 1)


def test_a_rebuilt_store_starts_at_the_groups_values(told: Told) -> None:
    """In its next life, from generation 1 on; before it is clean further, nothing more goes."""
    told.say(StoreFenced(3))
    told.clean(1, 30, granted=20)
    told.clean(2, 30, granted=20)
    assert removable(told) == Removable(mtro=30, mxro=30)
    told.say(StoreRebuilt(3, 2))
    told.clean(1, 40, granted=30)
    told.clean(2, 40, granted=30)
    assert removable(told) == Removable(mtro=30, mxro=30)
    told.begin_life(3)
    told.doctor(told.clean(3, 20), mcco=-1, mxfo=-1)
    told.clean(3, 40, granted=30)
    assert removable(told) == Removable(mtro=40, mxro=40)


def test_other_replicas(told: Told) -> None:
    """Who leaves holds nothing back any more; who joins counts at once, from the group's values on."""
    told.say(ReplicasAssigned(TOPIC, 0, (1, 2)))
    assert removable(told) == Removable(mtro=20, mxro=20)
    told.say(ReplicasAssigned(TOPIC, 0, (1, 2, 4)))
    told.clean(1, 30, granted=20)
    told.clean(2, 30, granted=20)
    assert removable(told) == Removable(mtro=20, mxro=20)
    assert "does not hold" in why(told, told.clean(3, 30), 3)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([KeeperLeased(1, 3)], "lease 3 follows lease 1"),
        ([KeeperLeased(1, 1)], "lease 1 follows lease 1"),
        ([StoreJoining(1, 1)], "came back in life 1, while it was in sync in life 1"),
        ([StoreLeft(1, ()), StoreJoining(1, 2)], "came back in life 2, while it was away in life 1"),
        ([StoreLeft(1, ()), StoreJoined(1)], "is in sync out of being away"),
        (
            [StoreFenced(1), StoreLeft(1, ()), StoreJoining(1, 1)],
            "came back in life 1, while it was fenced in life 1",
        ),
        ([StoreFenced(1), StoreRebuilt(1, 3)], "life 3 follows life 1"),
        ([StoreRebuilt(1, 2)], "begins another life while it is in sync"),
    ],
)
def test_stores_out_of_order(told: Told, changes: list[Change], said: str) -> None:
    """Leases and lives go up by one, and phases follow each other."""
    number = told.say(*changes)
    assert told.check() == Violation(frame=number, topic=None, partition=None, store=1, why=said)


def test_topics_come_and_go(told: Told) -> None:
    """New partitions begin with nothing, a log start moves what may be reported, and a deleted topic is forgotten."""
    told.say(PartitionsAdded(TOPIC, 1, [[1, 2]]))
    told.say(LogStartMoved(TOPIC, 0, 50))
    told.say(LogStartMoved(TOPIC, 0, 40))
    told.doctor(told.clean(1, 20), mcco=50, mxfo=50)
    ledger = GrantLedger()
    assert told.check(ledger) is None
    assert ledger.find_removable((TOPIC, 1)) == Removable()
    told.doctor(told.clean(1, 20), partition=1, generation=1, grant=Granted(1, 1, 0))
    found = told.check()
    assert found is not None
    assert (found.topic, found.partition) == ("orders", 1)
    told.frames.pop()
    told.say(TopicDeleted(TOPIC))
    ledger = GrantLedger()
    assert told.check(ledger) is None
    assert ledger.partitions == 0


def test_a_snapshot_that_contradicts_itself() -> None:
    """The reports in it must cover what it lets go; those of a fenced store do not count."""
    replicas = {1: ReplicaAccount(mcco=9, mxfo=9), 2: ReplicaAccount(mcco=7, mxfo=9)}
    group = GroupAccount(topic="orders", removable=Removable(mtro=8, mxro=9), replicas=replicas)
    found = GrantLedger({}, {KEY: group}).check_start(70)
    assert found == Violation(
        frame=70,
        topic="orders",
        partition=0,
        store=1,
        why="the snapshot lets MTRO 8, MXRO 9 go, the reports in it MTRO 7, MXRO 9",
    )
    fenced = {2: StoreAccount(phase=StorePhase.FENCED)}
    assert GrantLedger(fenced, {KEY: group}).check_start(70) is None


def test_a_ledger_that_begins_with_accounts() -> None:
    """What was reported before counts."""
    replicas = {
        1: ReplicaAccount(generation=5, settled_to=9, mcco=9, mxfo=9),
        2: ReplicaAccount(mcco=7, mxfo=9),
    }
    group = GroupAccount(topic="orders", removable=Removable(mtro=7, mxro=9), replicas=replicas)
    told = Told()
    told.clean(1, 9, granted=7)
    told.doctor(5, generation=6, lease=4)
    ledger = GrantLedger({1: StoreAccount(lease=4)}, {KEY: group})
    assert ledger.follow(told.frames[4]) is None
    assert ledger.follow(Frame(number=6, changes=[TopicCreated("u", TOPIC, [[1]], {})])) is None
