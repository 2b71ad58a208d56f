"""One module per Kafka API, named by its key: this listing is the support matrix.

Importing this package fills the registry.
"""

from holdfast.agent.handlers import (
    k00_produce,
    k01_fetch,
    k02_list_offsets,
    k03_metadata,
    k08_offset_commit,
    k09_offset_fetch,
    k10_find_coordinator,
    k11_join_group,
    k12_heartbeat,
    k13_leave_group,
    k14_sync_group,
    k15_describe_groups,
    k16_list_groups,
    k18_api_versions,
    k19_create_topics,
    k22_init_producer_id,
    k23_offset_for_leader_epoch,
    k42_delete_groups,
    k43_elect_leaders,
    k47_offset_delete,
)

__all__ = [
    "k00_produce",
    "k01_fetch",
    "k02_list_offsets",
    "k03_metadata",
    "k08_offset_commit",
    "k09_offset_fetch",
    "k10_find_coordinator",
    "k11_join_group",
    "k12_heartbeat",
    "k13_leave_group",
    "k14_sync_group",
    "k15_describe_groups",
    "k16_list_groups",
    "k18_api_versions",
    "k19_create_topics",
    "k22_init_producer_id",
    "k23_offset_for_leader_epoch",
    "k42_delete_groups",
    "k43_elect_leaders",
    "k47_offset_delete",
]
