"""`holdfast group` against a real cluster."""

import select

import pytest

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition, commit_group_offsets, fetch_group_offsets
from holdfast.client.producer import Producer
from holdfast.records.record import Record
from tests.cli.commands import SECONDS_MAX, Command

T0 = 1_700_000_000_000


@pytest.fixture
def group(cluster: Cluster, topic: str) -> str:
    """A group that has read 1 of 4 and 2 of 4 records, a second apart."""
    records = [Record(value=b"%d" % number, timestamp_ms=T0 + 1000 * number) for number in range(4)]
    Producer(cluster, topic).send({0: records, 1: records})
    commit_group_offsets(
        cluster, f"{topic}-group", {TopicPartition(topic, 0): 1, TopicPartition(topic, 1): 2}
    )
    return f"{topic}-group"


def test_list_and_describe(command: Command, topic: str, group: str) -> None:
    """A group is listed, and described with its lag, partition by partition."""
    assert {"name": group, "state": "Empty", "type": "classic"} in command.ok("group", "list", "--json").json
    listed = [line.split() for line in command.ok("group", "list").text.splitlines()]
    assert listed[0] == ["GROUP", "STATE", "TYPE"]
    assert [group, "Empty", "classic"] in listed
    place = {"topic": topic, "end": 4, "member": None}
    assert command.ok("group", "describe", group, "--json").json == {
        "name": group,
        "state": "Empty",
        "protocol": "",
        "lag": 5,
        "members": [],
        "partitions": [
            {**place, "partition": 0, "committed": 1, "lag": 3},
            {**place, "partition": 1, "committed": 2, "lag": 2},
        ],
    }
    shown = [line.split() for line in command.ok("group", "describe", group).text.splitlines()]
    assert [topic, "1", "2", "4", "2", "-"] in shown


def test_members(command: Command, cluster: Cluster, topic: str, group: str) -> None:
    """Members are shown with what they read; while there are any, a reset is refused and changes nothing."""
    with command.start("consume", topic, "-g", group, "--follow", "--raw") as reader:
        try:
            assert reader.stdout is not None
            assert select.select([reader.stdout], [], [], SECONDS_MAX)[0], "it has joined and reads"
            described = command.ok("group", "describe", group, "--json").json
            (member,) = described["members"]
            assert (described["state"], described["protocol"]) == ("Stable", "range")
            assert member["partitions"] == [[topic, 0], [topic, 1]]
            assert member["client_id"] == "holdfast"
            assert [each["member"] for each in described["partitions"]] == [member["id"]] * 2
            assert "stop them first" in command.refused("group", "reset", group, "--to-earliest")
        finally:
            reader.terminate()
    assert all(fetch_group_offsets(cluster, group).values()), "nothing went back to 0"


@pytest.mark.parametrize(
    ("options", "after"),
    [
        (("--to-earliest",), (0, 0)),
        (("--to-latest",), (4, 4)),
        (("--to-offset", "3"), (3, 3)),
        (("--to-time", "2023-11-14T22:13:21.500Z"), (2, 2)),
        (("--to-time", str(T0 + 99_000)), (4, 4)),
        (("--to-latest", "--topic", "TOPIC:1"), (1, 4)),
        (("--to-earliest", "--dry-run"), (1, 2)),
    ],
)
def test_reset(
    command: Command,
    cluster: Cluster,
    topic: str,
    group: str,
    options: tuple[str, ...],
    after: tuple[int, int],
) -> None:
    """Offsets go where they are told to, for all that the group has read or for what is named."""
    named = [word.replace("TOPIC", topic) for word in options]
    changes = command.ok("group", "reset", group, "--json", *named).json
    assert fetch_group_offsets(cluster, group) == {
        TopicPartition(topic, partition): offset for partition, offset in enumerate(after)
    }
    assert changes["dry_run"] == ("--dry-run" in options)
    before = {0: 1, 1: 2}
    for change in changes["changes"]:
        assert change["topic"] == topic
        assert change["before"] == before[change["partition"]]
        if not changes["dry_run"]:
            assert change["after"] == after[change["partition"]]


def test_reset_of_a_group_to_be(command: Command, cluster: Cluster, topic: str) -> None:
    """With a topic named, a group gets its offsets before its first member comes."""
    command.ok("group", "reset", "to-be", "--to-earliest", "-t", topic)
    assert fetch_group_offsets(cluster, "to-be") == {TopicPartition(topic, number): 0 for number in range(2)}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("describe", "no-such-group"), 1, "`holdfast group list`"),
        (("reset", "no-such-group", "--to-earliest"), 1, "`holdfast group list`"),
        (("reset", "GROUP"), 2, "say where to"),
        (("reset", "GROUP", "--to-earliest", "--to-latest"), 2, "say where to"),
        (("reset", "GROUP", "--to-offset", "5"), 1, "offset 5 is not in"),
        (("reset", "GROUP", "--to-latest", "-t", "no-such-topic"), 1, "`holdfast topic list`"),
        (("reset", "GROUP", "--to-latest", "-t", "TOPIC:7"), 1, "has no partition 7"),
        (("reset", "GROUP", "--to-latest", "-t", "TOPIC:x"), 2, "TOPIC:0,1"),
        (("reset", "GROUP", "--to-time", "noon"), 2, "an ISO time such as"),
    ],
)
def test_refusals(
    command: Command, topic: str, group: str, arguments: tuple[str, ...], code: int, said: str
) -> None:
    """What cannot be done is one line that says why, and the right exit code."""
    named = [word.replace("GROUP", group).replace("TOPIC:", f"{topic}:") for word in arguments]
    assert said in command.refused("group", *named, code=code)
