"""Writes `docs/cli.md` from the commands themselves: `python -m holdfast.cli.reference > docs/cli.md`."""

import sys
from collections.abc import Iterator

import click

from holdfast.cli.main import holdfast

WIDTH = 100
TOLD_ELSEWHERE = frozenset({"lab"})
"""A world of its own, with its own help."""

OPENING = """\
# Command line

Written by `python -m holdfast.cli.reference > docs/cli.md`; a test holds it to what the commands say themselves.

| Exit code | Means |
|---|---|
| 0 | good; also the end of `consume` and of `compaction status --watch` by ^C |
| 1 | the answer is no: refused, not there, not reachable, or found what was looked for |
| 2 | bad usage: an option, an argument or a line of input is wrong |
| 3 | nobody to ask (`compaction status`), or not all can be examined or guarded (`log diff`, `doctor`, `guard`) |
| 130 | ended by ^C |
| 141 | whoever read the output has left, as `head` does |

What fails says so in one line on stderr. Every command that prints an answer takes `--json`. `--bootstrap`, or
`HOLDFAST_BOOTSTRAP`, names any Kafka cluster, not only Holdfast; what a broker does not offer is said to be so.
`--data`, or `--admin`, names a Holdfast on this machine, for what Kafka's protocol has no request for.
`holdfast completion` prints a script that lets a shell complete commands, options, topics, groups and
transactional ids. `holdfast lab` is told by `holdfast lab --help`.

```console
$ printf 'a:1\\nb:2\\n' | holdfast produce orders --key-separator :      # keys and values from lines
$ holdfast consume orders --from -10                                    # the last ten offsets of each partition
$ holdfast consume orders --from 2026-01-31T12:00:00Z --follow          # from a time on, until ^C
$ holdfast consume orders --json | holdfast produce copy --json         # a copy, byte for byte
$ holdfast consume orders --json | jq -r 'select(.value == null).key'   # keys that were deleted
$ holdfast topic create users --config cleanup.policy=compact           # the newest record of each key stays
$ holdfast produce users --key ann --null                               # a tombstone: ann is deleted
$ holdfast topic lead orders:0 2                                        # node 2 leads the partition now
$ holdfast group reset billing --to-time 2026-01-31T12:00 --dry-run     # what would change
$ holdfast sql 'SELECT string(key), max(offset) FROM orders GROUP BY key' # topics are tables
$ holdfast log diff orders                                              # are all replicas equal?
$ holdfast compaction status orders --watch                             # who holds cleanup back, and why
$ holdfast doctor --bootstrap kafka:9092 --topic 'orders*'              # do its replicas show the same?
$ holdfast guard --bootstrap kafka:9092                                 # no cleanup while a replica is away
$ holdfast txn hanging || holdfast txn list --state ongoing             # what holds readers back
```
"""


def reference() -> str:
    """The whole page."""
    root = click.Context(
        holdfast,
        info_name="holdfast",
        terminal_width=WIDTH,
        max_content_width=WIDTH,
        **holdfast.context_settings,
    )
    return OPENING + "".join(_sections(root))


def _sections(context: click.Context) -> Iterator[str]:
    command = context.command
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield f"\n## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if name in TOLD_ELSEWHERE:
                continue
            found = command.get_command(context, name)
            assert found is not None
            yield from _sections(
                click.Context(
                    found, info_name=name, parent=context, terminal_width=WIDTH, max_content_width=WIDTH
                )
            )


if __name__ == "__main__":
    sys.stdout.write(reference())
