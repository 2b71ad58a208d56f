"""Topic configs: what is known is kept, what is not is refused by name."""

import pytest

from holdfast.agent.topic_config import check_configs
from holdfast.errors import InvalidConfig


@pytest.mark.parametrize(
    "configs",
    [
        {},
        {"max.message.bytes": "1000"},
        {"message.timestamp.type": "LogAppendTime", "compression.type": "producer"},
        {"cleanup.policy": "delete"},
    ],
)
def test_known_configs_are_kept(configs: dict[str, str | None]) -> None:
    """They come back as they were."""
    assert check_configs(configs) == configs


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max.message.bytes", None),
        ("max.message.bytes", "-1"),
        ("max.message.bytes", "many"),
        ("max.message.bytes", ""),
        ("max.message.bytes", str(2**31)),
        ("message.timestamp.type", "createtime"),
        ("compression.type", "zstd"),
        ("cleanup.policy", "compact"),
        ("no.such.config", "1"),
        ("no.such.config", None),
    ],
)
def test_what_would_not_be_obeyed_is_refused_by_name(name: str, value: str | None) -> None:
    """A config that is silently ignored would be worse than an error."""
    with pytest.raises(InvalidConfig, match=name):
        check_configs({name: value})
