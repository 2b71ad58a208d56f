"""An adapter without Spark, as a process: holds the part's lock, tells of itself, forwards, commits, remembers.

`python -m tests.pipelines.watch.forwarder FILE --only adapter --client-config FILE`, until it is asked to stop.
"""

import os
import sys
import time
from pathlib import Path

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition, commit_group_offsets
from holdfast.client.offsets import LATEST, Isolation, list_offsets
from holdfast.client.producer import Producer
from holdfast.client.security import read_properties
from holdfast.pipelines.loading import load_pipeline
from holdfast.pipelines.recon.fetching import fetch_records
from holdfast.pipelines.recon.law import Place
from holdfast.pipelines.state import PartFiles, PartState
from holdfast.pipelines.status import ADAPTER

PAUSE_S = 0.05


def main() -> None:
    """One partition, forwarded from where it was."""
    pipeline = load_pipeline(Path(sys.argv[1]))
    read_properties(Path(sys.argv[sys.argv.index("--client-config") + 1]))
    [adapter] = pipeline.adapters
    files, memory = PartFiles(pipeline.checkpoint, ADAPTER), pipeline.checkpoint / "position"
    started_ms = time.time_ns() // 1_000_000
    with files.hold(), Cluster(pipeline.endpoint) as cluster:
        audit = Producer(cluster, pipeline.audit)
        position = int(memory.read_text()) if memory.exists() else 0
        while not files.was_asked_to_stop():
            end = list_offsets(cluster, adapter.topic, {0: LATEST}, isolation=Isolation.READ_COMMITTED)[0]
            places = [Place(topic=adapter.topic, partition=0, offset=each) for each in range(position, end)]
            found = fetch_records(cluster, places)
            audit.send({0: [found[place] for place in places]})
            position = end
            fresh = memory.with_suffix(".new")
            fresh.write_text(str(position))
            fresh.replace(memory)
            commit_group_offsets(cluster, adapter.group, {TopicPartition(adapter.topic, 0): position})
            now_ms = time.time_ns() // 1_000_000
            files.write(PartState(pid=os.getpid(), started_ms=started_ms, updated_ms=now_ms, phase="running"))
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
