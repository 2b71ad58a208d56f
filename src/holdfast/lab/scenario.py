"""The scenario language: one line, one thing that happens; engines run it unchanged.

    title  TEXT                       about  TEXT (repeatable)
    replicas N                        set NAME VALUE        (a topic or broker setting, Kafka's name)

    produce K=V [by P]                delete K [by P]       (a tombstone; by P: in P's transaction)
    begin P    commit P    abort P    kill R    return R    lag R    await-isr    fetch R [BATCHES]
    force-leader R    join R    leave R    advance TIME    clean [R ...]    settle [R ...]
    churn ROUNDS every TIME [on R ...]                      (each round: time, one filler record, cleaners)
    consume-via R [read_committed|read_uncommitted]

R is a replica's number, or `new`: the number after the last one that the partition begins with. TIME is a
number with ms, s, m, h or d. After `--` on a line stands a remark for the reader; one that begins with
`kafka:` or `coordinated:` is for that policy only.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace

from holdfast.errors import UsageError
from holdfast.lab import steps
from holdfast.lab.engines.engine import POLICIES, REPLICAS_MAX
from holdfast.rules.entry import Isolation
from holdfast.rules.policy import DAY_MS, HOUR_MS, NEVER_MS, CompactionConfig
from holdfast.rules.transaction import Outcome

FILLER_KEY = "filler"
ROUNDS_MAX = 1000
LINE_STEPS_MAX = 10_000

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": HOUR_MS, "d": DAY_MS}
_SETTINGS = {item.name.replace("_", "."): item.name for item in fields(CompactionConfig)}
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,24}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a scenario: its text, the author's remarks by policy, and the steps that it stands for."""

    number: int
    text: str
    remarks: dict[str, str]
    verb: str
    steps: tuple[steps.Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A story that every engine can run."""

    name: str
    title: str
    about: str
    replicas: int
    config: CompactionConfig
    lines: tuple[Line, ...]


def parse(name: str, text: str, *, replicas: int | None = None) -> Scenario:
    """Read a scenario; UsageError names the line that is wrong."""
    reader = _Reader(name=name)
    rows = list(_rows(text))
    for number, row, _ in rows:
        reader.read_header(number, row)
    reader.choose_replicas(replicas)
    lines = [reader.read_line(number, row, remark) for number, row, remark in rows]
    if not any(lines):
        raise UsageError(f"scenario {name}: nothing happens in it")
    return Scenario(
        name=name,
        title=reader.title or name,
        about=" ".join(reader.about),
        replicas=reader.replicas,
        config=reader.config,
        lines=tuple(line for line in lines if line is not None),
    )


def _rows(text: str) -> Iterator[tuple[int, str, str]]:
    for number, raw in enumerate(text.splitlines(), start=1):
        row, _, remark = raw.partition("--")
        row = row.split("#")[0].strip()
        if row:
            yield number, row, remark.strip()


def _remarks(remark: str) -> dict[str, str]:
    policy, colon, rest = remark.partition(": ")
    if colon and policy in POLICIES:
        return {policy: rest}
    return {"": remark} if remark else {}


@dataclass(slots=True, kw_only=True)
class _Reader:
    name: str
    title: str = ""
    about: list[str] = field(default_factory=list)
    replicas: int = 3
    config: CompactionConfig = field(default_factory=CompactionConfig)
    transaction_version: int = 1
    number: int = 0
    fillers: int = 0
    members: list[int] = field(default_factory=list)

    def fail(self, why: str) -> UsageError:
        return UsageError(f"scenario {self.name}, line {self.number}: {why}")

    def read_header(self, number: int, row: str) -> None:
        self.number = number
        verb, _, rest = row.partition(" ")
        rest = rest.strip()
        if verb == "title":
            self.title = rest
        elif verb == "about":
            self.about.append(rest)
        elif verb == "replicas":
            self.replicas = self.count(rest, REPLICAS_MAX)
        elif verb == "set":
            self._set(*self.words(rest.split(), 2))

    def _set(self, setting: str, value: str) -> None:
        if setting == "transaction.version":
            self.transaction_version = self.count(value, 2)
        elif setting == "min.cleanable.dirty.ratio":
            if not re.fullmatch(r"0(\.\d+)?|1(\.0+)?", value):
                raise self.fail(f"'{value}' is no ratio from 0 to 1")
            self.config = replace(self.config, min_cleanable_dirty_ratio=float(value))
        elif setting == "segment.batches":
            self.config = replace(self.config, segment_batches=self.count(value, 1_000_000))
        elif setting in _SETTINGS:
            # A ratio and a count are done above; what is left in CompactionConfig is times.
            self.config = replace(self.config, **{_SETTINGS[setting]: self.time_ms(value)})
        else:
            raise self.fail(f"unknown setting '{setting}'")

    def choose_replicas(self, replicas: int | None) -> None:
        if replicas is not None:
            if not 1 <= replicas <= REPLICAS_MAX:
                raise UsageError(f"--replicas takes a number from 1 to {REPLICAS_MAX}, not {replicas}")
            self.replicas = replicas
        self.members = list(range(1, self.replicas + 1))

    def read_line(self, number: int, row: str, remark: str) -> Line | None:
        self.number = number
        verb, *words = row.split()
        if verb in ("title", "about", "replicas", "set"):
            return None
        read = _VERBS.get(verb)
        if read is None:
            raise self.fail(f"unknown verb '{verb}'; known are: {', '.join(_VERBS)}")
        return Line(
            number=number, text=row, remarks=_remarks(remark), verb=verb, steps=tuple(read(self, words))
        )

    def words(self, words: list[str], count: int) -> list[str]:
        if len(words) != count:
            raise self.fail(f"expected {count} word{'s' if count != 1 else ''} here, found {len(words)}")
        return words

    def count(self, word: str, largest: int) -> int:
        if not word.isascii() or not word.isdigit() or not 1 <= int(word) <= largest:
            raise self.fail(f"'{word}' is no number from 1 to {largest}")
        return int(word)

    def time_ms(self, word: str) -> int:
        if word == "never":
            return NEVER_MS
        match = re.fullmatch(r"(\d{1,9})(ms|s|m|h|d)", word)
        if match is None:
            raise self.fail(f"'{word}' is no time such as 500ms, 30s, 15m, 24h or 2d")
        return int(match[1]) * _UNITS_MS[match[2]]

    def replica(self, word: str) -> int:
        if word == "new":
            if self.replicas == REPLICAS_MAX:
                raise self.fail(f"no replica can join {REPLICAS_MAX} replicas")
            return self.replicas + 1
        number = self.count(word, REPLICAS_MAX)
        if number > self.replicas:
            raise self.fail(f"replica {word} needs more than {self.replicas} replicas")
        return number

    def some_or_all(self, words: list[str]) -> list[int]:
        return [self.replica(word) for word in words] or list(self.members)

    def identifier(self, word: str) -> str:
        if not _NAME.fullmatch(word):
            raise self.fail(f"'{word}' is no name: letters, digits, and . _ - up to 24 of them")
        return word

    def by_producer(self, words: list[str]) -> tuple[str, str | None]:
        if len(words) == 1:
            return words[0], None
        what, by, producer = self.words(words, 3)
        if by != "by":
            raise self.fail(f"expected 'by', found '{by}'")
        return what, self.identifier(producer)

    def produce(self, words: list[str]) -> list[steps.Step]:
        what, producer = self.by_producer(words)
        key, equals, value = what.partition("=")
        if not equals:
            raise self.fail(f"expected KEY=VALUE, found '{what}'")
        return [steps.Produce(self.identifier(key), self.identifier(value), producer)]

    def delete(self, words: list[str]) -> list[steps.Step]:
        key, producer = self.by_producer(words)
        return [steps.Produce(self.identifier(key), None, producer)]

    def begin(self, words: list[str]) -> list[steps.Step]:
        return [steps.Begin(self.identifier(self.words(words, 1)[0]), self.transaction_version)]

    def commit(self, words: list[str]) -> list[steps.Step]:
        return [steps.End(self.identifier(self.words(words, 1)[0]), Outcome.COMMITTED)]

    def abort(self, words: list[str]) -> list[steps.Step]:
        return [steps.End(self.identifier(self.words(words, 1)[0]), Outcome.ABORTED)]

    def fetch(self, words: list[str]) -> list[steps.Step]:
        if len(words) == 1:
            return [steps.Fetch(self.replica(words[0]))]
        replica, batches = self.words(words, 2)
        return [steps.Fetch(self.replica(replica), self.count(batches, 10_000))]

    def await_isr(self, words: list[str]) -> list[steps.Step]:
        self.words(words, 0)
        return [steps.AwaitIsr()]

    def join(self, words: list[str]) -> list[steps.Step]:
        number = self.replica(self.words(words, 1)[0])
        self.members.append(number)
        return [steps.Join(number)]

    def leave(self, words: list[str]) -> list[steps.Step]:
        number = self.replica(self.words(words, 1)[0])
        self.members = [member for member in self.members if member != number]
        return [steps.Leave(number)]

    def advance(self, words: list[str]) -> list[steps.Step]:
        return [steps.Advance(self.time_ms(self.words(words, 1)[0]))]

    def clean(self, words: list[str]) -> list[steps.Step]:
        return [steps.Clean(number) for number in self.some_or_all(words)]

    def settle(self, words: list[str]) -> list[steps.Step]:
        return [steps.Settle(number) for number in self.some_or_all(words)]

    def churn(self, words: list[str]) -> list[steps.Step]:
        if len(words) < 3 or words[1] != "every" or (len(words) > 3 and words[3:4] != ["on"]):
            raise self.fail("expected: churn ROUNDS every TIME [on R ...]")
        rounds, pause_ms = self.count(words[0], ROUNDS_MAX), self.time_ms(words[2])
        members = self.some_or_all(words[4:])
        if rounds * (len(members) + 3) > LINE_STEPS_MAX:
            raise self.fail(f"more than {LINE_STEPS_MAX} steps in one line")
        result: list[steps.Step] = []
        for _ in range(rounds):
            self.fillers += 1
            result += [steps.Advance(pause_ms), steps.Produce(FILLER_KEY, str(self.fillers))]
            result += [steps.Clean(number) for number in members]
            result.append(steps.Exchange())
        return result

    def consume_via(self, words: list[str]) -> list[steps.Step]:
        replica, *level = words or [""]
        try:
            isolation = Isolation(self.words(level, 1)[0]) if level else Isolation.READ_COMMITTED
        except ValueError:
            raise self.fail(f"'{level[0]}' is neither read_committed nor read_uncommitted") from None
        return [steps.ConsumeVia(self.replica(replica), isolation)]


def _one_replica(step: Callable[[int], steps.Step]) -> Callable[[_Reader, list[str]], list[steps.Step]]:
    return lambda reader, words: [step(reader.replica(reader.words(words, 1)[0]))]


_VERBS: dict[str, Callable[[_Reader, list[str]], list[steps.Step]]] = {
    "produce": _Reader.produce,
    "delete": _Reader.delete,
    "begin": _Reader.begin,
    "commit": _Reader.commit,
    "abort": _Reader.abort,
    "kill": _one_replica(steps.Kill),
    "return": _one_replica(steps.Return),
    "lag": _one_replica(steps.Lag),
    "await-isr": _Reader.await_isr,
    "fetch": _Reader.fetch,
    "force-leader": _one_replica(steps.ForceLeader),
    "join": _Reader.join,
    "leave": _Reader.leave,
    "advance": _Reader.advance,
    "clean": _Reader.clean,
    "settle": _Reader.settle,
    "churn": _Reader.churn,
    "consume-via": _Reader.consume_via,
}
