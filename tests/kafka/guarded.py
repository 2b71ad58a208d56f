"""A scenario beside a guard, to the end: nothing diverges, settings come back, and cleanup goes on on every broker."""

from holdfast.client.cluster import Cluster
from holdfast.client.topics import describe_configs
from holdfast.guard.lever import MAX_LAG, MIN_LAG, Lags, mark_of
from holdfast.lab import account, library
from holdfast.lab.engines.kafka import KafkaEngine, held
from holdfast.lab.engines.kafka_cluster import open_engine
from holdfast.lab.engines.kafka_options import KafkaOptions
from tests.cli.commands import Command
from tests.kafka.patience import wait_for


def live_guarded(name: str, options: KafkaOptions) -> None:
    """AssertionError if the guard did not keep what it promises."""
    with open_engine(library.load(name), options) as engine:
        guard = engine.guard
        assert guard is not None
        before = own_lags(engine.bootstrap)
        assert mark_of(before) is None
        story = account.begin_on(engine, library.load(name))
        paused = False
        for frame in account.advance(story):
            paused = paused or (frame.line.verb == "kill" and mark_of(own_lags(engine.bootstrap)) is not None)
        told = story.as_json()
        assert paused, "the guard did not pause the topic"
        assert (told["diverged"], told["variant"]) == (False, None)
        assert own_lags(engine.bootstrap) == before
        _await_cleanup(engine)
        assert Command(engine.bootstrap).run("doctor", "--topic", "lab").code == 0
        assert guard.stop() == 0
        assert "Traceback" not in guard.log, guard.log


def own_lags(bootstrap: str) -> Lags:
    """Both settings as the lab's topic has them of its own."""
    with Cluster(bootstrap) as cluster:
        own = {
            entry.name: entry.value
            for entry in describe_configs(cluster, "lab")
            if entry.source.name == "TOPIC"
        }
    return Lags(own.get(MIN_LAG), own.get(MAX_LAG))


def _await_cleanup(engine: KafkaEngine) -> None:
    """Until all three hold no more than the leader of the model, whose cleaners nobody ever paused."""

    def is_clean() -> bool:
        engine.write_filler()
        for replica in engine.replicas.values():
            replica.touch()
        return all(held(each) <= held(engine.model.replicas[1]) for each in engine.replicas.values())

    wait_for(is_clean, "cleanup on all three brokers")
