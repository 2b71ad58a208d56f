"""Real Apache Kafka brokers on this machine: combined KRaft nodes on free loopback ports.

The jars come from `make kafka`. Every broker ends with the process that started it, however that one ends.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Self

from kafka.protocol.metadata import MetadataRequest

from holdfast.client.connection import Connection
from holdfast.errors import ConnectionFailed, KafkaUnavailable

DEFAULT_VERSION: Final = "4.2.0"
RELEASES: Final = Path("build", "kafka")
HOST: Final = "127.0.0.1"
START_SECONDS_MAX: Final = 180.0
"""Seconds on a machine that has nothing else to do."""
STOP_SECONDS_MAX: Final = 30.0
PROBE_SECONDS_MAX: Final = 5.0
PROBE_PAUSE_S: Final = 0.05

STARTS_FAST: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""For brokers that live for a minute: half the processor time until they are ready."""


def find_release(version: str = DEFAULT_VERSION, releases: Path = RELEASES) -> Path:
    """The folder of a release's jars, or KafkaUnavailable with the command that fetches them."""
    jars = releases / version / "lib"
    if not jars.is_dir():
        raise KafkaUnavailable(f"Apache Kafka {version} is not in {releases}: run make kafka KAFKA={version}")
    return jars.resolve()


class KafkaCluster:
    """N brokers, numbered from 1, each its own controller voter too; data and logs lie under `directory`.

    `properties` override the defaults of every node, `node_properties` those of some; `listeners` are further ones for
    clients, each with its security protocol. As a context manager it starts on entry and kills on
    exit; `stop` gives the brokers time to shut down in order.
    """

    def __init__(
        self,
        directory: Path,
        *,
        jars: Path,
        nodes: int = 1,
        properties: Mapping[str, str] | None = None,
        node_properties: Mapping[int, Mapping[str, str]] | None = None,
        listeners: Mapping[str, str] | None = None,
        heap_mb: int = 512,
        log_level: str = "WARN",
        java_options: Sequence[str] = (),
    ) -> None:
        self.nodes: Final = range(1, nodes + 1)
        self._directory = directory.resolve()
        self._java = find_java()
        self.jars: Final = jars
        self._heap_mb = heap_mb
        self._log_level = log_level
        self._java_options = java_options
        self._listeners = dict(listeners or {})
        ports = iter(_free_ports((2 + len(self._listeners)) * nodes))
        self._ports = {node: next(ports) for node in self.nodes}
        self._controller_ports = {node: next(ports) for node in self.nodes}
        self._more_ports = {(node, name): next(ports) for node in self.nodes for name in self._listeners}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        for node in self.nodes:
            self._write_configuration(node, {**(properties or {}), **(node_properties or {}).get(node, {})})

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, for clients."""
        return ",".join(f"{HOST}:{port}" for port in self._ports.values())

    def bootstrap_of(self, listener: str) -> str:
        """The addresses of all nodes for clients of another listener."""
        return ",".join(f"{HOST}:{self._more_ports[node, listener]}" for node in self.nodes)

    def port(self, node: int) -> int:
        """Where one node listens for clients."""
        return self._ports[node]

    def pid(self, node: int) -> int:
        """The process id of a running node."""
        return self._processes[node].pid

    def log(self, node: int) -> str:
        """What a node wrote, over all its starts."""
        file = self._home(node) / "broker.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def data(self, node: int) -> Path:
        """The folder of a node's partitions."""
        return self._home(node) / "data"

    def start(self) -> None:
        """Format what is new, start every node that does not run, and wait until all know each other."""
        self.format()
        for node in self.nodes:
            if node not in self._processes:
                self.launch(node)
        self.wait_ready()

    def format(self) -> None:
        """Give new data directories their cluster id; formatted ones are left as they are."""
        with ExitStack() as undo:
            self._format(undo)

    def _format(self, undo: ExitStack) -> None:
        formatting = []
        for node in self.nodes:
            if not (self.data(node) / "meta.properties").exists():
                # A static quorum: every node must be given the same id, which may be any UUID in base64.
                arguments = ["kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c"]
                with _uninterrupted():
                    process = self._run(node, *arguments, self._configuration(node))
                    undo.callback(process.wait)
                    undo.callback(process.kill)
                formatting.append((node, process))
        for node, process in formatting:
            if process.wait(START_SECONDS_MAX) != 0:
                raise KafkaUnavailable(f"node {node} was not formatted:\n{self.log(node)}")

    def launch(self, node: int) -> None:
        """Start the process of one node and return at once."""
        assert node not in self._processes, f"node {node} runs already"
        with _uninterrupted():
            self._processes[node] = self._run(node, "kafka.Kafka", self._configuration(node))

    def wait_ready(self) -> None:
        """Return when each running node names all running nodes to its clients."""
        deadline = time.monotonic() + START_SECONDS_MAX
        for node, process in self._processes.items():
            while not self._brokers_seen_by(node) >= self._processes.keys():
                if process.poll() is not None:
                    raise KafkaUnavailable(f"node {node} ended with {process.returncode}:\n{self.log(node)}")
                if time.monotonic() > deadline:
                    raise KafkaUnavailable(f"node {node} is not ready in time:\n{self.log(node)}")
                time.sleep(PROBE_PAUSE_S)

    def stop_node(self, node: int) -> None:
        """SIGTERM: leadership moves away, the log is closed."""
        self._end([node], signal.SIGTERM)

    def kill_node(self, node: int) -> None:
        """SIGKILL, as a crash would."""
        self._end([node], signal.SIGKILL)

    def pause_node(self, node: int) -> None:
        """SIGSTOP: it stalls, with all that it has open."""
        self._processes[node].send_signal(signal.SIGSTOP)

    def resume_node(self, node: int) -> None:
        """SIGCONT: it goes on where it was."""
        self._processes[node].send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """SIGTERM to all, at once: a majority that left first would keep the last one waiting."""
        self._end(list(self._processes), signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to all."""
        self._end(list(self._processes), signal.SIGKILL)

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self.kill)
            self.start()
            undo.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()

    def _end(self, nodes: Iterable[int], number: signal.Signals) -> None:
        ending = [self._processes.pop(node) for node in nodes]
        for process in ending:
            process.send_signal(number)
        deadline = time.monotonic() + STOP_SECONDS_MAX
        for process in ending:
            try:
                process.wait(max(0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _home(self, node: int) -> Path:
        return self._directory / f"node-{node}"

    def _configuration(self, node: int) -> str:
        return str(self._home(node) / "server.properties")

    def _write_configuration(self, node: int, overrides: Mapping[str, str]) -> None:
        replicas = str(min(3, len(self.nodes)))
        mine = {"PLAINTEXT": self._ports[node]}
        mine |= {name: self._more_ports[node, name] for name in self._listeners}
        advertised = ",".join(f"{name}://{HOST}:{port}" for name, port in mine.items())
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"} | self._listeners
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "controller.quorum.voters": ",".join(
                f"{node}@{HOST}:{port}" for node, port in self._controller_ports.items()
            ),
            "listeners": f"{advertised},CONTROLLER://{HOST}:{self._controller_ports[node]}",
            "advertised.listeners": advertised,
            "listener.security.protocol.map": ",".join(map(":".join, protocols.items())),
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data(node)),
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.cleaner.dedupe.buffer.size": str(16 << 20),
        } | dict(overrides)
        self._home(node).mkdir(parents=True, exist_ok=True)
        lines = (f"{name}={value}\n" for name, value in properties.items())
        Path(self._configuration(node)).write_text("".join(lines))
        # Kafka 3 logs through Log4j 1, which wants a file; Kafka 4's Log4j 2 takes a property.
        (self._home(node) / "log4j.properties").write_text(
            f"log4j.rootLogger={self._log_level}, out\n"
            "log4j.appender.out=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.out.layout=org.apache.log4j.SimpleLayout\n"
        )

    def _run(self, node: int, *arguments: str) -> "subprocess.Popen[bytes]":
        home = self._home(node)
        java = [
            self._java,
            f"-Xmx{self._heap_mb}m",
            *self._java_options,
            f"-Dlog4j.configuration=file:{home}/log4j.properties",
            f"-Dorg.apache.logging.log4j.level={self._log_level}",
            "-cp",
            f"{self.jars}/*",
        ]
        with (home / "broker.log").open("ab") as log:
            return subprocess.Popen(
                [*ends_with_us(), *java, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _brokers_seen_by(self, node: int) -> set[int]:
        try:
            with Connection(HOST, self._ports[node], timeout=PROBE_SECONDS_MAX) as connection:
                answer = connection.send(MetadataRequest(topics=[]), versions=(1, 12))
        except ConnectionFailed:
            return set()
        return {broker.node_id for broker in answer.brokers}


def find_java() -> str:
    """JAVA_HOME's, else the first on the path."""
    java = shutil.which("java", path=f"{os.environ.get('JAVA_HOME', '')}/bin:{os.environ['PATH']}")
    if java is None:
        raise KafkaUnavailable("no java: install Java 17 or newer, or set JAVA_HOME to one")
    return java


def ends_with_us() -> list[str]:
    """Have the kernel kill the child when the thread that started it is gone, be it by SIGKILL."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let ^C wait until a new process is known to whoever has to end it; the child does not hear of ^C at all."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_server((HOST, 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]
