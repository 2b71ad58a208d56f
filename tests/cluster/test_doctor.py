"""The doctor's fingerprints on a cluster: executors that have no Holdfast of their own read the brokers themselves.

The command is in test_commands.py.
"""

from tests.spark.test_doctor import test_a_replica_that_tasks_cannot_read, test_the_same_findings

__all__ = ["test_a_replica_that_tasks_cannot_read", "test_the_same_findings"]
