"""The process that is killed: it keeps its ports and its directory, so that clients find it again."""

import socket
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random

from soak.disk import Disk
from tests.process import HoldfastProcess

# Below the range from which the system takes the ports of outgoing connections: a restart finds them free.
PORT_FIRST = 15_000
PORT_LAST = 30_000

WRITE_SECONDS_MAX = 1.0

SETTINGS = """\
expire_seconds = 86400
# A machine that is busy with something else must not look like a store that hangs.
store_seconds_max = 60
"""

BUSY_KEEPER = """\
expire_seconds = 0.5
store_seconds_max = 60
return_seconds = 0.3
[keeper]
round_seconds = 0.2
idle_seconds = 5
settle_ms_max = 0
"""
"""Something is always due: stores are settled, compacted, trimmed and looked after all the time."""

ON_SPARK = f"{BUSY_KEEPER}spark_bytes_min = 0\nsplit_bytes_min = 1\ncollect_seconds = 1\n"
"""Every round of the keeper is worth a session, and what is left behind is soon collected."""

SPARK_ENVIRONMENT = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -Dspark.default.parallelism=12"}
"""Half the time of a JVM that lives for a minute goes into optimising compilation; among so many tasks all are hot."""


class Server:
    """`holdfast up` on a directory of its own."""

    def __init__(self, directory: Path, *, nodes: int, settings: str = SETTINGS) -> None:
        directory.mkdir(parents=True)
        file = directory / "settings.toml"
        file.write_text(settings)
        port = free_ports(nodes)
        self.data = directory / "data"
        self.disk = Disk(directory / "data", directory / "copies", nodes=nodes)
        self.bootstrap = ",".join(f"127.0.0.1:{port + node}" for node in range(nodes))
        self.process = HoldfastProcess(
            directory / "data",
            *("--nodes", str(nodes), "--config", str(file)),
            port=port,
            keeps_ports=True,
            environment=SPARK_ENVIRONMENT,
        )

    def kill(self) -> None:
        """SIGKILL, and a copy of the control plane that it leaves."""
        self.process.kill()
        self.disk.copy_control_plane()

    def await_write(self) -> None:
        """Return as soon as a journal grows, which is before anybody can have been answered, or give up."""
        file = self.disk.last_journal(1)
        assert file is not None, "a topic was created"
        size = file.stat().st_size
        deadline = time.monotonic() + WRITE_SECONDS_MAX
        # Without a pause: a frame is on its way for a millisecond.
        while file.stat().st_size == size and time.monotonic() < deadline:
            pass

    def start_and_kill(self, after_ms: int) -> None:
        """A start that is killed on its way, or just after."""
        self.process.spawn()
        time.sleep(after_ms / 1000)
        self.kill()


def free_ports(count: int) -> int:
    """The first of `count` ports in a row that nobody listens on."""
    chance = Random()
    while True:
        first = chance.randrange(PORT_FIRST, PORT_LAST)
        with ExitStack() as sockets:
            try:
                for port in range(first, first + count):
                    listener = sockets.enter_context(socket.socket())
                    listener.bind(("127.0.0.1", port))
            except OSError:
                continue
        return first
