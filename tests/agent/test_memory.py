"""Freed buffers stay with the process."""

import subprocess
import sys

# Makes and drops a megabyte often; prints the page faults that it took.
CHURN = """
import resource
from holdfast.agent.memory import keep_freed_memory
{prepare}
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    buffers = [bytearray(1 << 20) for _ in range(5)]
    del buffers
before = faults()
for _ in range(50):
    buffers = [bytearray(1 << 20) for _ in range(5)]
    del buffers
print(faults() - before)
"""


def faults(prepare: str) -> int:
    code = CHURN.format(prepare=prepare)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_buffers_are_not_faulted_in_again() -> None:
    """A tenth of the page faults, at most: what was freed is there for the next buffer."""
    assert faults("keep_freed_memory()") * 10 < faults("")
