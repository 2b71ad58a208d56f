"""Client options for another process: they are there, and no list of processes has them."""

import subprocess
import sys

import pytest

from holdfast.client.handing import hand_on, without_handed
from holdfast.client.sasl import Credentials
from holdfast.client.security import Security, parse_security, tell_security
from holdfast.errors import UsageError

SECURED = Security(credentials=Credentials("PLAIN", "acme", "a=b #c"))
READ = """
import sys; from pathlib import Path
from holdfast.client.security import parse_security, read_properties
print(repr(parse_security(read_properties(Path(sys.argv[2]))).credentials.password))
"""


def test_another_process_has_them() -> None:
    """As they were, whatever stands in them."""
    with hand_on(SECURED) as handed:
        process = subprocess.Popen(
            [sys.executable, "-c", READ, *handed.words],
            pass_fds=handed.descriptors,
            stdout=subprocess.PIPE,
            text=True,
        )
    assert process.communicate(timeout=60)[0] == "'a=b #c'\n"


def test_a_command_that_is_run_again_has_no_pipe() -> None:
    """What was given by other names stays."""
    with hand_on(Security()) as handed:
        words = ["holdfast", "--client-config", "c", *handed.words, "--once"]
    assert without_handed(words) == ["holdfast", "--client-config", "c", "--once"]
    assert without_handed(without_handed(words)) == without_handed(words)


@pytest.mark.parametrize("password", ["secret ", " secret", "sec\nret", "sec\u2028ret"])
def test_what_a_line_cannot_hold(password: str) -> None:
    """It is refused rather than changed."""
    secured = Security(credentials=Credentials("PLAIN", "acme", password))
    assert parse_security(tell_security(secured)) == secured
    with pytest.raises(UsageError, match="cannot be handed") as caught, hand_on(secured):
        pass
    assert "sec" not in str(caught.value).replace("security", "")
