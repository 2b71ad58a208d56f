"""Which pipeline a command is about, and on which cluster: its file says both, options may name another cluster."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from holdfast.cli.endpoint import client_options
from holdfast.client import BOOTSTRAP_DEFAULT
from holdfast.pipelines.config import FILE

if TYPE_CHECKING:
    from holdfast.pipelines.config import Pipeline

Command = TypeVar("Command", bound=Callable[..., Any])

_bootstrap_option = click.option(
    "-b",
    "--bootstrap",
    envvar="HOLDFAST_BOOTSTRAP",
    show_envvar=True,
    metavar="HOST:PORT[,…]",
    help=f"Any Kafka cluster, in place of the one that FILE names.  [default: FILE's, else {BOOTSTRAP_DEFAULT}]",
)
file_argument = click.argument("file", type=click.Path(path_type=Path))
_file_option = click.option(
    "--pipeline",
    "file",
    type=click.Path(path_type=Path),
    default=FILE,
    show_default=True,
    metavar="FILE",
    help="The pipeline that the messages are of.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineFile:
    """What was said of it."""

    path: Path
    bootstrap: str | None
    properties: tuple[str, ...]
    client_config: Path | None

    def load(self) -> "Pipeline":
        """The pipeline on the cluster that is meant; UsageError for whatever is wrong with either."""
        from holdfast.cli.endpoint import parse_client_options
        from holdfast.client.cluster import parse_bootstrap
        from holdfast.pipelines.loading import load_pipeline

        found = load_pipeline(self.path)
        endpoint = found.endpoint
        if self.bootstrap is not None:
            parse_bootstrap(self.bootstrap)
            endpoint = replace(endpoint, bootstrap=self.bootstrap)
        if self.properties or self.client_config is not None:
            file = self.client_config or found.client_config
            endpoint = replace(endpoint, security=parse_client_options(self.properties, file))
            found = replace(found, client_config=file)
        return replace(found, endpoint=endpoint)

    def named_again(self) -> list[str]:
        """The options with which another command means the same one; secrets are left to whoever knows them."""
        named = [] if self.path == FILE else ["--pipeline", str(self.path)]
        return named + self.options_again()

    def options_again(self) -> list[str]:
        """The same of them that go before what the file says."""
        return self._options(self.bootstrap, self.client_config)

    def cluster_again(self, pipeline: "Pipeline") -> list[str]:
        """Those with which a command that reads no pipeline's file means the cluster of this one, as it was loaded."""
        bootstrap = pipeline.endpoint.bootstrap
        return self._options(bootstrap if bootstrap != BOOTSTRAP_DEFAULT else None, pipeline.client_config)

    def _options(self, bootstrap: str | None, client_config: Path | None) -> list[str]:
        from holdfast.client.security import is_secret

        options = [] if bootstrap is None else ["--bootstrap", bootstrap]
        if client_config is not None:
            options += ["--client-config", str(client_config)]
        for each in self.properties:
            name = each.partition("=")[0].strip()
            options += ["-X", f"{name}=…" if is_secret(name) else each]
        return options


def pipeline_argument(command: Command) -> Command:
    """FILE and the cluster's options, as the command's `file`."""
    return file_argument(_with_cluster(command))


def pipeline_option(command: Command) -> Command:
    """The same with `--pipeline FILE`."""
    return _file_option(_with_cluster(command))


def _with_cluster(command: Command) -> Command:
    @_bootstrap_option
    @client_options
    @wraps(command)
    def with_file(
        *arguments: Any,
        file: Path,
        bootstrap: str | None,
        properties: tuple[str, ...],
        client_config: Path | None,
        **options: Any,
    ) -> Any:
        named = PipelineFile(
            path=file, bootstrap=bootstrap, properties=properties, client_config=client_config
        )
        return command(*arguments, file=named, **options)

    return cast(Command, with_file)
