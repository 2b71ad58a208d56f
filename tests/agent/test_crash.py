"""Torn tails, damaged journals, lost and stale control planes, one at a time; `tests/soak` has them under load."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.agent import requests
from tests.agent.batches import batch
from tests.agent.raw import InitProducerIdRequest, RawClient
from tests.process import HoldfastProcess

SEED = 20_240_607
TOPIC = "t"


class Session:
    """Raw requests against a process: a topic, an idempotent producer, a group."""

    def __init__(self, process: HoldfastProcess) -> None:
        self.process = process

    def call(self, message: Any) -> Any:
        with RawClient(self.process.port) as client:
            return client.call(message)

    def produce(self, data: bytes) -> int:
        """The base offset; an error is an error of the test."""
        part = self.call(requests.produce(TOPIC, {0: data})).responses[0].partition_responses[0]
        assert part.error_code == 0, part
        return int(part.base_offset)

    def allot_producer_id(self) -> int:
        answer = self.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1, version=1))
        return int(answer.producer_id)

    def stored(self) -> bytes:
        """All bytes of the partition."""
        part = (
            self.call(requests.fetch(TOPIC, {0: 0}, partition_bytes_max=1 << 26)).responses[0].partitions[0]
        )
        assert part.error_code == 0
        return bytes(part.records or b"")

    def position(self, group: str) -> tuple[int, str]:
        part = self.call(requests.fetch_offset(group, TOPIC)).groups[0].topics[0].partitions[0]
        return int(part.committed_offset), str(part.metadata)


def journal(data: Path) -> Path:
    (file,) = (data / "stores" / "1" / "journal").iterdir()
    return file


def remove_control_plane(data: Path, *, also_wal: bool = True) -> None:
    for file in data.glob("control.db*" if also_wal else "control.db"):
        file.unlink()


@pytest.mark.parametrize("keeps_control_plane", [True, False])
def test_torn_tail_is_cut_off_wherever_it_was_torn(tmp_path: Path, keeps_control_plane: bool) -> None:
    """A crash in the middle of a frame: what was acknowledged before stays, the rest never was."""
    data = tmp_path / "data"
    chance = random.Random(SEED)
    with HoldfastProcess(data) as process:
        session = Session(process)
        session.call(requests.metadata(TOPIC))
        assert [session.produce(batch(b"kept", b"too")), session.produce(batch(b"kept"))] == [0, 2]
        process.kill()
        end = journal(data).stat().st_size
        saved = tmp_path / "control"
        saved.mkdir()
        for file in data.glob("control.db*"):
            shutil.copy(file, saved)
        process.start()
        assert session.produce(batch(b"in flight", bytes(2000))) == 3
        process.kill()
        whole = journal(data).read_bytes()
        cuts = sorted({end + 1, len(whole) - 1, *(chance.randrange(end + 1, len(whole)) for _ in range(4))})
        for cut in cuts:
            journal(data).write_bytes(whole[:cut])
            remove_control_plane(data)
            if keeps_control_plane:
                for file in saved.iterdir():
                    shutil.copy(file, data)
            process.start()
            stored = session.stored()
            assert stored.count(b"kept") == 2
            assert b"in flight" not in stored
            assert session.produce(batch(b"after")) == 3
            process.kill()


def test_torn_bytes_in_the_last_frame_are_cut_off(tmp_path: Path) -> None:
    """The file has its length but not all of its bytes, as after a power cut: the CRCs tell."""
    data = tmp_path / "data"
    with HoldfastProcess(data) as process:
        session = Session(process)
        session.call(requests.metadata(TOPIC))
        session.produce(batch(b"kept"))
        process.kill()
        end = journal(data).stat().st_size
        remove_control_plane(data)
        process.start()
        session.produce(batch(b"in flight", bytes(9000)))
        process.kill()
        whole = journal(data).read_bytes()
        journal(data).write_bytes(whole[: end + 5000] + bytes(len(whole) - end - 5000))
        remove_control_plane(data)
        process.start()
        assert b"in flight" not in session.stored()
        assert session.produce(batch(b"after")) == 1


def test_acknowledged_bytes_that_are_gone_are_not_passed_over(tmp_path: Path) -> None:
    """The control plane knows what was acknowledged: a journal that lacks it is refused, not shortened."""
    data = tmp_path / "data"
    with HoldfastProcess(data) as process:
        session = Session(process)
        session.call(requests.metadata(TOPIC))
        session.produce(batch(b"acknowledged"))
        process.stop()
        whole = journal(data).read_bytes()
        journal(data).write_bytes(whole[:-10])
        with pytest.raises(AssertionError, match="were acknowledged: restore it"):
            process.start()
        assert journal(data).read_bytes() == whole[:-10], "nothing is changed on the way out"
        journal(data).write_bytes(whole)
        process.start()
        assert b"acknowledged" in session.stored()


@pytest.mark.parametrize(("ending", "also_wal"), [("stop", True), ("kill", True), ("kill", False)])
def test_lost_control_plane_is_made_anew_from_the_journal(
    tmp_path: Path, ending: str, also_wal: bool
) -> None:
    """Topics, configs, offsets, producers' sequences, producer ids and groups: all of it is in the frames."""
    data = tmp_path / "data"
    with HoldfastProcess(data) as process:
        session = Session(process)
        session.call(requests.create_topic(TOPIC, partitions=3, configs={"max.message.bytes": "5000"}))
        producer = session.allot_producer_id()
        repeated = batch(b"a", b"b", producer_id=producer)
        assert session.produce(batch(b"plain")) == 0
        assert session.produce(repeated) == 1
        session.call(requests.commit_offset("g", TOPIC, 2, metadata="note"))
        before = session.stored()
        described = session.call(requests.metadata(TOPIC, version=10)).topics[0]
        getattr(process, ending)()
        remove_control_plane(data, also_wal=also_wal)
        process.start()
        assert session.stored() == before
        assert repr(session.call(requests.metadata(TOPIC, version=10)).topics[0]) == repr(described)
        assert session.position("g") == (2, "note")
        assert session.produce(repeated) == 1, "the repeat is recognised"
        assert session.produce(batch(b"c", producer_id=producer, base_sequence=2)) == 3
        assert session.allot_producer_id() > producer
        too_large = requests.produce(TOPIC, {0: batch(bytes(5000))})
        assert session.call(too_large).responses[0].partition_responses[0].error_code == 10
        gap = requests.produce(TOPIC, {0: batch(b"d", producer_id=producer, base_sequence=9)})
        assert session.call(gap).responses[0].partition_responses[0].error_code == 45


def test_stale_control_plane_catches_up(tmp_path: Path) -> None:
    """A control plane from an older copy learns what it missed from the frames after its own."""
    data = tmp_path / "data"
    with HoldfastProcess(data) as process:
        session = Session(process)
        session.call(requests.metadata(TOPIC))
        producer = session.allot_producer_id()
        session.produce(batch(b"a", producer_id=producer))
        process.stop()
        shutil.copy(data / "control.db", tmp_path / "old.db")
        process.start()
        last = batch(b"b", producer_id=producer, base_sequence=1)
        assert session.produce(last) == 1
        session.call(requests.metadata("later"))
        session.call(requests.commit_offset("g", TOPIC, 2, metadata="note"))
        process.kill()
        remove_control_plane(data)
        shutil.copy(tmp_path / "old.db", data / "control.db")
        process.start()
        assert session.produce(last) == 1
        assert session.position("g") == (2, "note")
        assert session.call(requests.metadata("later", create=False)).topics[0].error_code == 0


def test_damaged_frame_in_the_middle_is_refused(tmp_path: Path) -> None:
    """Not a torn tail: something acknowledged is broken, and the position is named."""
    data = tmp_path / "data"
    with HoldfastProcess(data) as process:
        session = Session(process)
        session.call(requests.metadata(TOPIC))
        for value in (b"first", b"second", b"third"):
            session.produce(batch(value))
        process.kill()
        remove_control_plane(data)
        damaged = bytearray(journal(data).read_bytes())
        damaged[damaged.index(b"second")] ^= 1
        journal(data).write_bytes(damaged)
        with pytest.raises(AssertionError, match="damaged in the middle"):
            process.start()
        assert journal(data).read_bytes() == damaged
