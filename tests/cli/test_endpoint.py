"""Every command that asks a Kafka cluster takes librdkafka's names for how to get in, on its line or from a file."""

from pathlib import Path

import pytest

from tests.cli.commands import Command, run_here
from tests.client.fake_broker import FakeBroker
from tests.client.sasl_server import OFFERED, SaslServer

VERBS = {
    "topic list": (),
    "topic create": ("t",),
    "topic describe": ("t",),
    "topic delete": ("t", "--yes"),
    "topic config": ("t",),
    "consume": ("t",),
    "produce": ("t", "--value", "v"),
    "group list": (),
    "group describe": ("g",),
    "group reset": ("g", "--to-earliest"),
    "txn list": (),
    "txn describe": ("p",),
    "txn hanging": (),
    "txn abort": ("p", "--yes"),
    "doctor": (),
    "doctor repair": ("t:0:1", "--yes"),
    "guard": (),
}


@pytest.mark.parametrize("verb", VERBS)
def test_client_options(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit is told in one line with exit code 2, of files too; a password that is wrong with 3."""
    monkeypatch.chdir(tmp_path)
    words = (*verb.split(), *VERBS[verb])
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=sasl_plaintext\nsasl.mechanism=PLAIN\nsasl.username=u\n")
    nobody = Command("127.0.0.1:1")
    assert "unknown client option 'a'" in nobody.refused(*words, "-X", "a=b", code=2)
    monkeypatch.setenv("HOLDFAST_CLIENT_CONFIG", str(file))
    assert nobody.refused(*words, code=2) == "sasl.mechanism=PLAIN needs sasl.password"
    with FakeBroker(SaslServer("u", "secret").handlers, offered=OFFERED) as broker:
        command = Command(f"127.0.0.1:{broker.port}")
        said = command.refused(*words, "-X", "sasl.password=p", code=3)
    assert "does not take user 'u' and the password for it" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("doctor", "--bootstrap", "127.0.0.1:2", "repair", "t:0:1"), "put it after repair"),
        (("doctor", "-X", "nonsense=1", "repair", "t:0:1", "--dry-run"), "put it after repair"),
        (("doctor", "--client-config", "f", "repair", "t:0:1"), "put it after repair"),
        (
            ("doctor", "-b", "127.0.0.1:2", "files", "a", "b"),
            "`holdfast doctor files` has no option --bootstrap",
        ),
        (("guard", "-X", "nonsense=1", "status"), "`holdfast guard status` has no option -X"),
        (("guard", "--state", "f", "status"), "put it after status"),
        (
            ("watch", "--bootstrap", "127.0.0.1:2", "check"),
            "`holdfast watch check` has no option --bootstrap",
        ),
        (("watch", "--listen", "127.0.0.1:2", "check"), "put it after check"),
    ],
)
def test_an_option_before_a_command_that_does_not_see_it_is_refused(
    words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passed over in silence it would let the command go to another cluster; the environment counts for all."""
    monkeypatch.setenv("HOLDFAST_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setenv("HOLDFAST_CLIENT_CONFIG", "no-such-file")
    answer = run_here(*words)
    assert (answer.code, said in answer.err) == (2, True), answer.err


def test_the_environment_reaches_a_command_below_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_BOOTSTRAP", "127.0.0.1:1")
    answer = run_here("doctor", "repair", "t:0:1", "--dry-run")
    assert (answer.code, "127.0.0.1:1" in answer.err) == (3, True), answer.err
