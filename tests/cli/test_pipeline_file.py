"""Which cluster a command about a pipeline means: what its file says, and what options say in place of it."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from holdfast.cli.pipeline_file import PipelineFile, pipeline_option
from holdfast.client import BOOTSTRAP_DEFAULT
from holdfast.client.endpoint import Endpoint
from holdfast.client.sasl import Credentials
from holdfast.client.security import Security
from holdfast.errors import UsageError
from tests.pipelines.files import write_pipeline

FILE = "h:1"
CONFIG = "security.protocol=sasl_plaintext\nsasl.mechanism=PLAIN\nsasl.username=acme\nsasl.password=secret\n"


def secured(address: str = FILE, password: str = "secret") -> Endpoint:
    return Endpoint(address, Security(credentials=Credentials("PLAIN", "acme", password)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A pipeline whose cluster asks for a password."""
    made = write_pipeline(tmp_path, mode="adapter", prefix="p", bootstrap=FILE)
    made.write_text(made.read_text() + "client_config: secret/client.properties\n")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "client.properties").write_text(CONFIG)
    return made


def run(*arguments: str) -> PipelineFile:
    """What a command is given."""
    given: list[PipelineFile] = []

    @click.command()
    @pipeline_option
    def command(file: PipelineFile) -> None:
        given.append(file)

    result = CliRunner().invoke(
        command, arguments, env={"HOLDFAST_CLIENT_CONFIG": None}, catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return given[0]


def test_the_file_says_it(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Its client options lie beside it, from wherever it is looked at."""
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert run("--pipeline", str(path)).load().endpoint == secured()


def test_neither_says_it(tmp_path: Path) -> None:
    """Then it is the Holdfast of this machine."""
    path = write_pipeline(tmp_path, mode="adapter", prefix="p")
    path.write_text(path.read_text().replace("bootstrap: 127.0.0.1:1\n", ""))
    assert run("--pipeline", str(path)).load().endpoint == Endpoint(BOOTSTRAP_DEFAULT)


def test_options_go_before_the_file(path: Path, tmp_path: Path) -> None:
    """An address alone leaves its security, one property the others, and another file takes the place of all."""
    file = ("--pipeline", str(path))
    assert run(*file, "-b", "other:1").load().endpoint == secured("other:1")
    assert run(*file, "-X", "sasl.password=new").load().endpoint == secured(password="new")
    other = tmp_path / "other.properties"
    other.write_text("# nothing\n")
    assert run(*file, "--client-config", str(other)).load().endpoint == Endpoint(FILE)
    with pytest.raises(UsageError, match="'other' is not an address"):
        run(*file, "-b", "other").load()


def test_a_file_of_options_that_is_not_sound(path: Path) -> None:
    """The line of the pipeline's file that names it, and what is wrong with it."""
    config = path.parent / "secret" / "client.properties"
    line = len(path.read_text().splitlines())
    for text, said in (
        ("sasl.password\n", "line 1: a client option is written"),
        ("a=b\n", "unknown client option 'a'"),
    ):
        config.write_text(text)
        with pytest.raises(UsageError, match=rf"pipeline.yaml:{line}: client_config: .*{said}"):
            run("--pipeline", str(path)).load()
    config.unlink()
    with pytest.raises(UsageError, match=rf"pipeline.yaml:{line}: client_config: cannot read {config}"):
        run("--pipeline", str(path)).load()


def test_another_command_means_the_same(path: Path) -> None:
    """What is the default is not said, and no secret is."""
    assert run().named_again() == []
    words = ["--pipeline", str(path), "--bootstrap", "h:2", "--client-config", "c", "-X", "sasl.username=u"]
    secrets = ["-X", "sasl.password=secret", "-X", "ssl.key.password=secret", "-X", "sasl.jaas.config=secret"]
    hidden = [word.replace("=secret", "=…") for word in secrets]
    assert run(*words, *secrets).named_again() == words + hidden


def test_a_command_that_reads_no_pipeline_is_told_of_the_cluster(path: Path) -> None:
    """What the file says of it has to be said then, and what goes before it."""
    config = str(path.parent / "secret" / "client.properties")
    given = run("--pipeline", str(path), "-X", "sasl.password=secret")
    told = ["--bootstrap", FILE, "--client-config", config, "-X", "sasl.password=…"]
    assert given.cluster_again(given.load()) == told
    given = run("--pipeline", str(path), "-b", BOOTSTRAP_DEFAULT)
    assert given.cluster_again(given.load()) == ["--client-config", config]
