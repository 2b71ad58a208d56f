"""A compacted topic from the command line: make it, fill it, delete keys, and see all of that."""

import pytest

from tests.cli.commands import Command


@pytest.fixture
def users(request: pytest.FixtureRequest, command: Command) -> str:
    """A compacted topic of the test's own."""
    name = request.node.name.replace("_", "-")
    command.ok("topic", "create", name, "-p", "1", "--config", "cleanup.policy=compact")
    return name


def test_policy_is_shown_and_changed(command: Command, users: str) -> None:
    """describe tells that the topic is compacted; config adds a policy, and refuses one that there is not."""
    shown = [line.split() for line in command.ok("topic", "describe", users).text.splitlines()]
    assert ["cleanup.policy", "compact", "topic"] in shown
    both = command.ok("topic", "config", users, "cleanup.policy=compact,delete", "--json").json
    assert both["cleanup.policy"] == {"value": "compact,delete", "source": "topic"}
    assert "compact" in command.refused("topic", "config", users, "cleanup.policy=burn")


def test_keys_are_deleted(command: Command, users: str) -> None:
    """Values by key, then tombstones by key, by lines and as JSON; consume shows which are which."""
    command.ok("produce", users, "--key-separator", ":", stdin=b"ann:1\nbob:2\ncid:3\n")
    command.ok("produce", users, "-k", "ann", "--null")
    command.ok("produce", users, "--null", stdin=b"bob\n")
    command.ok("produce", users, "--json", stdin=b'{"key": "cid", "value": null}\n')
    lines = [line.split()[2:] for line in command.ok("consume", users).text.splitlines()]
    assert lines == [
        ["ann", "1"],
        ["bob", "2"],
        ["cid", "3"],
        ["ann", "(tombstone)"],
        ["bob", "(tombstone)"],
        ["cid", "(tombstone)"],
    ]
    values = [each["value"] for each in command.ok("consume", users, "--json").lines]
    assert values == ["1", "2", "3", None, None, None]


def test_record_without_a_key_is_refused(command: Command, users: str) -> None:
    """In one line that says why; what was sent with it is not there either."""
    answer = command.run("produce", users, "--json", stdin=b'{"key": "a", "value": "1"}\n{"value": "2"}\n')
    assert answer.code == 1
    assert answer.json["records"] == 0
    assert "without a key" in answer.err or "without key" in answer.err
    assert command.ok("consume", users).out == b""
