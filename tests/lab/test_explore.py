"""Random schedules: exact replay, the four variants under Kafka's policy, none under the coordinated one."""

import json
from random import Random

import pytest
from click.testing import CliRunner

from holdfast.cli.lab_explore import explore as explore_command
from holdfast.errors import UsageError
from holdfast.lab.explore import Found, Part, Run, Search, explore, explore_part, replay, run_seed
from holdfast.lab.oracle import Oracle
from holdfast.lab.schedule import Scheduler
from holdfast.lab.setting import setting_of
from holdfast.rules.entry import Entry
from holdfast.rules.transaction import Outcome

VARIANTS = {"tombstone", "aborted-to-committed", "committed-to-aborted", "stuck"}


def trace(seed: int, policy: str) -> list[object]:
    """Everything that a run does, step by step: what was taken, and what every replica holds after it."""
    rng = Random(seed)
    setting = setting_of(rng, policy, None)
    run = Run(setting)
    scheduler = Scheduler(rng, run.model)
    told: list[object] = [setting]
    for _ in range(setting.length):
        violation = run.take(scheduler.next())
        told.append((run.taken[-1:], violation))
        told.append([(replica.id, list(replica.entries)) for replica in run.model.replicas.values()])
    return told


@pytest.mark.parametrize("policy", ["kafka", "coordinated"])
def test_one_seed_is_one_schedule(policy: str) -> None:
    """The same seed played twice leaves the same trace, step for step."""
    for seed in range(25):
        assert trace(seed, policy) == trace(seed, policy)


def test_kafka_shows_all_four_variants() -> None:
    """Under Kafka's policy the search finds every variant by itself, and names it."""
    whole = explore_part(Search(policy="kafka", seeds=1_000))
    assert {variant for _, variant in whole.first} >= VARIANTS


def test_coordinated_shows_none() -> None:
    """Under the coordinated policy a few thousand schedules break no invariant."""
    whole = explore_part(Search(policy="coordinated", seeds=2_500))
    assert whole.first == {}


@pytest.mark.parametrize("replicas", range(1, 8))
def test_coordinated_holds_for_every_replication_factor(replicas: int) -> None:
    """One to seven replicas."""
    assert explore_part(Search(seeds=60, first_seed=70_000, replicas=replicas)).first == {}


def test_found_schedule_replays_without_its_seed() -> None:
    """The steps alone lead to the same violation: the generator is not needed."""
    found = first_found()
    again = replay(found, found.steps)
    assert again == found


def test_parts_add_up_alike_on_any_number_of_processes() -> None:
    """Counts and first seeds do not depend on how the seeds were shared out."""
    search = Search(policy="kafka", seeds=300)
    alone, shared = Part(), Part()
    for part in explore(search, jobs=1):
        alone = alone.plus(part)
    for part in explore(search, jobs=2):
        shared = part.plus(shared)
    assert (alone.seeds, alone.counts, alone.first) == (shared.seeds, shared.counts, shared.first)
    assert alone.counts.total() > 0


def naive_truth(history: list[Entry], end: int) -> tuple[int, dict[str | None, int]]:
    """By the definitions alone: the LSO, and each key's newest committed offset below it."""
    outcomes = {e.instance: e.marker for e in history if e.marker is not None and e.offset < end}
    undecided = [e.offset for e in history if e.transactional and e.instance not in outcomes]
    stable = min([end, *undecided])
    counted = [
        e
        for e in history
        if e.marker is None
        and e.offset < stable
        and (not e.transactional or outcomes[e.instance] is Outcome.COMMITTED)
    ]
    return stable, {e.key: max(o.offset for o in counted if o.key == e.key) for e in counted}


def test_oracle_is_right_by_definition() -> None:
    """The oracle that every check relies on gives what the definitions of LSO and newest record say."""
    for seed in range(20):
        rng = Random(seed)
        setting = setting_of(rng, "coordinated", None)
        run = Run(setting)
        scheduler = Scheduler(rng, run.model)
        oracle = Oracle(run.model.partition.history)
        for _ in range(setting.length):
            run.take(scheduler.next())
            end = max(replica.high_watermark for replica in run.model.replicas.values())
            ours = oracle.at(end)
            newest = {key: entry.offset for key, entry in ours.newest.items()}
            assert (ours.last_stable_offset, newest) == naive_truth(run.model.partition.history, end)


def test_command_prints_a_schedule_that_can_be_run() -> None:
    """What is found is told with its seed and its shrunk steps, and exits with 1."""
    result = CliRunner().invoke(
        explore_command, ["--policy", "kafka", "--seeds", "40", "--jobs", "1", "--json"]
    )
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert not document["clean"]
    first = document["found"][0]
    assert first["variant"] in VARIANTS
    assert first["schedule"][0].startswith("replicas ")
    again = run_seed(first["seed"], Search(policy="kafka"))
    assert again is not None
    assert again.violation.variant == first["variant"]
    told = CliRunner().invoke(explore_command, ["--policy", "kafka", "--seeds", "40", "--jobs", "1"])
    assert f"--first-seed {first['seed']} --seeds 1" in told.stdout


def test_command_is_quiet_and_content_with_a_clean_search() -> None:
    """Nothing found: exit code 0, one line, no progress bar where nobody looks."""
    result = CliRunner().invoke(explore_command, ["--seeds", "20", "--jobs", "1"])
    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout.startswith("20 schedules under coordinated: none broke an invariant")


@pytest.mark.parametrize(
    "options",
    [
        ["--seeds", "0"],
        ["--first-seed", "-1"],
        ["--policy", "chaos"],
        ["--replicas", "0"],
        ["--replicas", "99"],
        ["--jobs", "0"],
        ["--without", "luck"],
        ["--policy", "kafka", "--without", "term"],
    ],
)
def test_command_refuses_nonsense(options: list[str]) -> None:
    """Bad input is a usage error with a sentence."""
    with pytest.raises(UsageError):
        CliRunner().invoke(explore_command, options, catch_exceptions=False)


def first_found() -> Found:
    """A schedule that fails under Kafka's policy."""
    return next(iter(explore_part(Search(policy="kafka", seeds=40)).first.values()))
