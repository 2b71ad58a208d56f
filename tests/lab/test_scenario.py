"""The scenario language: what it reads, and how it refuses what it cannot read."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.errors import UsageError
from holdfast.lab import account, library, steps
from holdfast.lab.scenario import parse
from holdfast.rules.entry import Isolation
from holdfast.rules.policy import DAY_MS, HOUR_MS, NEVER_MS
from holdfast.rules.transaction import Outcome


def test_every_verb_becomes_its_steps() -> None:
    """Each line stands for the steps that engines run."""
    scenario = parse(
        "all",
        """
        title  Everything            # a comment
        set transaction.version 2
        produce K=V
        delete K by p
        begin p
        commit p
        abort q
        kill 3
        return 3
        lag 2
        await-isr
        fetch 3
        fetch 3 2
        force-leader 2
        join new
        leave 3
        advance 90m
        clean 1
        settle 2
        consume-via 2 read_uncommitted
        """,
    )
    assert scenario.title == "Everything"
    assert [step for line in scenario.lines for step in line.steps] == [
        steps.Produce("K", "V"),
        steps.Produce("K", None, "p"),
        steps.Begin("p", 2),
        steps.End("p", Outcome.COMMITTED),
        steps.End("q", Outcome.ABORTED),
        steps.Kill(3),
        steps.Return(3),
        steps.Lag(2),
        steps.AwaitIsr(),
        steps.Fetch(3),
        steps.Fetch(3, 2),
        steps.ForceLeader(2),
        steps.Join(4),
        steps.Leave(3),
        steps.Advance(90 * 60_000),
        steps.Clean(1),
        steps.Settle(2),
        steps.ConsumeVia(2, Isolation.READ_UNCOMMITTED),
    ]


def test_churn_is_time_filler_and_cleaners_round_by_round() -> None:
    """Each round lets time pass, writes one record, and lets the named cleaners look."""
    scenario = parse("churn", "churn 2 every 1h on 1 2")
    kinds = [type(step).__name__ for step in scenario.lines[0].steps]
    assert kinds == ["Advance", "Produce", "Clean", "Clean", "Exchange"] * 2


def test_all_cleaners_means_all_members_at_that_line() -> None:
    """A replica that joined is among them, one that left is not."""
    scenario = parse("members", "join new\nleave 2\nclean")
    assert scenario.lines[-1].steps == (steps.Clean(1), steps.Clean(3), steps.Clean(4))


def test_settings_have_kafkas_names_and_human_times() -> None:
    """Times carry a unit, `never` is Kafka's Long.MAX."""
    config = parse(
        "settings",
        "set delete.retention.ms 2d\nset max.compaction.lag.ms never\nset min.cleanable.dirty.ratio 0.25\n"
        "set segment.ms 3h\nset segment.batches 7\nawait-isr",
    ).config
    assert (config.delete_retention_ms, config.max_compaction_lag_ms) == (2 * DAY_MS, NEVER_MS)
    assert (config.min_cleanable_dirty_ratio, config.segment_ms) == (0.25, 3 * HOUR_MS)
    assert config.segment_batches == 7


def test_a_remark_may_be_for_one_policy() -> None:
    """Remarks never reach the steps; one that names a policy is kept for that policy."""
    lines = parse("remarks", "kill 3 -- it dies\nreturn 3 -- kafka: too late").lines
    assert [line.remarks for line in lines] == [{"": "it dies"}, {"kafka": "too late"}]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("explode 3", "line 1: unknown verb 'explode'"),
        ("\nproduce K", "line 2: expected KEY=VALUE"),
        ("produce K=V in p", "expected 'by'"),
        ("kill 4", "replica 4 needs more than 3"),
        ("kill -1", "'-1' is no number"),
        ("kill", "expected 1 word here, found 0"),
        ("advance 5", "'5' is no time"),
        ("churn 3", "expected: churn ROUNDS every TIME"),
        ("churn 0 every 1h", "'0' is no number"),
        ("consume-via 1 read_sometimes", "neither read_committed nor"),
        ("set colour blue", "unknown setting 'colour'"),
        ("set min.cleanable.dirty.ratio 2", "'2' is no ratio"),
        ("replicas 99", "'99' is no number from 1 to 9"),
        ("produce K\x07=V", "is no name"),
    ],
)
def test_a_bad_line_is_named_with_its_number(text: str, complaint: str) -> None:
    """Whatever is wrong, the message says where and what."""
    with pytest.raises(UsageError, match="line") as refusal:
        parse("bad", text)
    assert complaint in str(refusal.value)
    assert str(refusal.value).startswith("scenario bad, line ")


def test_every_scenario_of_the_library_reads() -> None:
    """The library holds the four of the article, and each has a title and a story."""
    names = library.names()
    assert {"tombstone", "aborted-to-committed", "committed-to-aborted", "stuck"} <= set(names)
    for name in names:
        scenario = library.load(name)
        assert scenario.title != name
        assert scenario.about


@pytest.mark.parametrize("replicas", [0, -3, 10])
def test_a_count_of_replicas_that_cannot_be_is_refused(replicas: int) -> None:
    """One to nine."""
    with pytest.raises(UsageError, match="--replicas takes a number from 1 to 9"):
        library.load("tombstone", replicas=replicas)


def test_a_scenario_in_which_nothing_happens_is_refused() -> None:
    """A header alone is no story."""
    with pytest.raises(UsageError, match="nothing happens"):
        parse("empty", "title Nothing\nreplicas 3\n# a comment")


WORDS = [
    *(
        "produce",
        "delete",
        "begin",
        "commit",
        "abort",
        "kill",
        "return",
        "lag",
        "await-isr",
        "fetch",
        "join",
        "leave",
    ),
    *(
        "force-leader",
        "advance",
        "clean",
        "settle",
        "churn",
        "consume-via",
        "set",
        "replicas",
        "by",
        "every",
        "on",
    ),
    *("K=V", "K", "p", "1", "2", "3", "4", "new", "0", "-1", "13h", "5ms", "never", "read_committed", "0.5"),
    *("delete.retention.ms", "segment.batches", "min.cleanable.dirty.ratio"),
]
lines = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join), max_size=12).map(
    "\n".join
)


@settings(max_examples=400)
@given(text=lines | st.text(max_size=80), policy=st.sampled_from(["kafka", "coordinated"]))
def test_any_text_is_run_or_refused(text: str, policy: str) -> None:
    """Whatever stands in a file, the answer is an account or a UsageError."""
    try:
        scenario = parse("any", text)
        told = account.run(scenario, policy=policy)
    except UsageError:
        return
    assert len(told.frames) == len(scenario.lines)


SENTENCES = [
    *("produce K=V", "delete K", "begin p", "produce K=W by p", "delete K by p", "commit p", "abort p"),
    *("kill 1", "return 1", "kill 2", "return 2", "kill 3", "return 3", "lag 2", "await-isr", "fetch 3 1"),
    *("force-leader 2", "join new", "leave new", "advance 5h", "clean", "settle 1", "churn 2 every 5h"),
    "consume-via 2",
]


@settings(max_examples=200)
@given(story=st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=25))
@example(story=["kill 3", "kill 2", "kill 1", "return 3"])
def test_any_story_is_told_to_its_end_or_refused(story: list[str]) -> None:
    """Sensible lines in any order: every step that can be taken has its sentence, under both policies."""
    for policy in ("kafka", "coordinated"):
        told = account.begin(parse("any", "\n".join(story)), policy=policy)
        try:
            for frame in account.advance(told):
                assert frame.sentence
        except UsageError:
            continue
        assert told.as_json()["halted"] is False
