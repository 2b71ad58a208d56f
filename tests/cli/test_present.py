"""Tables, and what a terminal must never get to see."""

import pytest

from holdfast.cli.present import count, print_facts, print_table, printable


def test_table_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is folded, cut or padded; numbers stand to the right and None is a dash."""
    wide = "x" * 300
    print_table(("NAME", "SIZE", "NOTE"), [(wide, 7, None), ("b", 1234, "[red]markup[/red]")])
    assert capsys.readouterr().out.splitlines() == [
        f"{'NAME':300}  SIZE  NOTE",
        f"{wide}     7  -",
        f"{'b':300}  1234  [red]markup[/red]",
    ]


def test_facts(capsys: pytest.CaptureFixture[str]) -> None:
    """Names and values in two columns."""
    print_facts({"name": "a\x1b[2Jb", "much longer": 5})
    assert capsys.readouterr().out.splitlines() == ["name         a\\x1b[2Jb", "much longer  5"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é \N{SNOWMAN}", "plain é \N{SNOWMAN}"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("\x9b31m\x7f", "\\x9b31m\\x7f"),
        ("a\N{RIGHT-TO-LEFT OVERRIDE}b", "a\\u202eb"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    """What would move the cursor, colour the screen or turn the line around is made visible."""
    assert printable(text) == shown


def test_count() -> None:
    """One is singular."""
    assert [count(number, "record") for number in (0, 1, 2000)] == ["0 records", "1 record", "2,000 records"]
