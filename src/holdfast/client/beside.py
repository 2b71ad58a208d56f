"""Whether a cluster is a Holdfast of this machine, so that its stores can be read without passing through it."""

import json
from pathlib import Path
from typing import Final

from kafka.protocol.admin import DescribeLogDirsRequest

from holdfast.client.admin import find_address
from holdfast.client.cluster import Cluster
from holdfast.errors import HoldfastError

LOG_DIRS_VERSIONS: Final = (1, 4)


def find_admin_beside(cluster: Cluster) -> str | None:
    """The address of its admin service; None if it is another machine's, or no Holdfast at all.

    A node tells where its store lies. The same path may be here by chance, so the cluster's id has to be the same.
    """
    try:
        cluster_id = cluster.metadata([]).cluster_id
        answer = cluster.any_broker().send(DescribeLogDirsRequest(topics=[]), versions=LOG_DIRS_VERSIONS)
    except HoldfastError:
        # Whoever reads through it will hear the reason.
        return None
    for result in answer.results:
        data = Path(result.log_dir).parent.parent
        try:
            if json.loads((data / "holdfast.json").read_text())["cluster_id"] == cluster_id:
                return find_address(data)
        except (OSError, ValueError, KeyError, TypeError, HoldfastError):
            continue
    return None
