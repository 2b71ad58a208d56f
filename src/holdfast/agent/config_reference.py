"""Writes `docs/configs.md` from the table: `python -m holdfast.agent.config_reference > docs/configs.md`."""

import sys
from collections.abc import Iterator

from holdfast.agent.topic_config import TOPIC_CONFIGS

OPENING = """\
# Topic configs

Written by `python -m holdfast.agent.config_reference > docs/configs.md`; a test holds it to the table in
`src/holdfast/agent/topic_config.py`. Names, defaults and ranges are Kafka's. `holdfast topic config TOPIC KEY=VALUE`
sets one, `--unset KEY` goes back to the default; any Kafka client's admin interface does the same. A name that is not
here is refused with INVALID_CONFIG.

| Config | Type | Default | Takes | What it does |
|---|---|---|---|---|"""

KEPT = " **Kept, but nothing acts on it.**"


def page() -> Iterator[str]:
    """The lines of the page."""
    yield OPENING
    for config in TOPIC_CONFIGS.values():
        doc = config.doc if config.acts else config.doc + KEPT
        yield f"| `{config.name}` | {config.type.name.lower()} | `{config.default}` | {config.takes} | {doc} |"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in page())
