"""Which cluster a command talks to, and what it says when that has no such topic or transactional id."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from holdfast.client import BOOTSTRAP_DEFAULT
from holdfast.errors import (
    ConnectionFailed,
    HoldfastError,
    NobodyToAsk,
    TransactionalIdNotFound,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from holdfast.client.cluster import Cluster, Topic
    from holdfast.client.endpoint import Endpoint
    from holdfast.client.security import Security
    from holdfast.client.transactional_ids import TransactionDescription

ANSWER_SECONDS_MAX = 10.0
"""For a connection, for every answer, and for a leader that moves."""
COMPLETION_SECONDS_MAX = 1.0

bootstrap_option = click.option(
    "-b",
    "--bootstrap",
    envvar="HOLDFAST_BOOTSTRAP",
    default=BOOTSTRAP_DEFAULT,
    show_default=True,
    show_envvar=True,
    metavar="HOST:PORT[,…]",
    help="Any Kafka cluster, by the address of one broker or several.",
)


Command = TypeVar("Command", bound=Callable[..., Any])


def client_options(command: Command) -> Command:
    """`-X NAME=VALUE` and `--client-config FILE`, as `properties` and `client_config`."""
    properties = click.option(
        "-X",
        "properties",
        multiple=True,
        metavar="NAME=VALUE",
        help="A client option by librdkafka's name: security.protocol, ssl.ca.location, sasl.mechanism, … Repeatable.",
    )
    file = click.option(
        "--client-config",
        type=click.Path(path_type=Path),
        envvar="HOLDFAST_CLIENT_CONFIG",
        show_envvar=True,
        metavar="FILE",
        help="Client options from a file, one NAME=VALUE a line; -X goes before.",
    )
    return properties(file(command))


def endpoint_options(command: Command) -> Command:
    """`--bootstrap` and the client options; what they come to is the command's `endpoint`."""

    @bootstrap_option
    @client_options
    @wraps(command)
    def with_endpoint(
        *arguments: Any,
        bootstrap: str,
        properties: tuple[str, ...],
        client_config: Path | None,
        **options: Any,
    ) -> Any:
        if click.get_current_context().invoked_subcommand is not None:
            # The command below has options of its own; the environment's file is its affair, too.
            client_config = None
        from holdfast.client.endpoint import Endpoint

        endpoint = Endpoint(bootstrap, parse_client_options(properties, client_config))
        return command(*arguments, endpoint=endpoint, **options)

    return cast(Command, with_endpoint)


def parse_client_options(properties: Sequence[str], file: Path | None) -> "Security":
    """What -X and --client-config come to."""
    from holdfast.client.security import parse_security, read_properties, split_property

    given = {} if file is None else read_properties(file)
    return parse_security(given | dict(split_property(each, "-X: ") for each in properties))


@contextmanager
def connect(endpoint: "Endpoint | str", *, seconds_max: float = ANSWER_SECONDS_MAX) -> Iterator["Cluster"]:
    """A client of the cluster; the first request connects."""
    from holdfast.client.cluster import Cluster

    with Cluster(endpoint, client_id="holdfast-cli", timeout=seconds_max, patience_s=seconds_max) as cluster:
        yield cluster


@contextmanager
def _completing(ctx: click.Context) -> Iterator["Cluster"]:
    """The cluster that the command would ask, for the shell: it answers at once, or there is nothing to be offered."""
    from holdfast.client.endpoint import Endpoint

    given = ctx.params
    security = parse_client_options(given.get("properties") or (), given.get("client_config"))
    endpoint = Endpoint(given.get("bootstrap") or BOOTSTRAP_DEFAULT, security)
    with connect(endpoint, seconds_max=COMPLETION_SECONDS_MAX) as cluster:
        yield cluster


def reach(cluster: "Cluster") -> None:
    """NobodyToAsk if no broker answers: then exit code 1 shall not stand for it."""
    try:
        cluster.metadata([])
    except ConnectionFailed as failure:
        raise NobodyToAsk(str(failure)) from failure


def require_topic(cluster: "Cluster", name: str) -> "Topic":
    """The topic, or an error that names what comes close."""
    topic = cluster.metadata([name]).topics.get(name)
    if topic is not None:
        return topic
    near = get_close_matches(name, cluster.metadata().topics, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "`holdfast topic list` shows what there is"
    raise UnknownTopicOrPartition(f"there is no topic {name!r} at {cluster.bootstrap}: {hint}")


def require_partitions(topic: "Topic", wanted: tuple[int, ...]) -> list[int]:
    """The partitions named, or all."""
    for partition in wanted:
        if partition not in topic.partitions:
            raise UnknownTopicOrPartition(
                f"{topic.name!r} has no partition {partition}: it has 0 to {len(topic.partitions) - 1}"
            )
    return sorted(set(wanted)) or sorted(topic.partitions)


def require_transactional_id(cluster: "Cluster", name: str) -> "TransactionDescription":
    """The transactional id as its coordinator describes it, or an error that says where to look."""
    from holdfast.client.transactional_ids import describe_transactional_id

    try:
        return describe_transactional_id(cluster, name)
    except TransactionalIdNotFound:
        raise TransactionalIdNotFound(
            f"there is no transactional id {name!r} at {cluster.bootstrap}:"
            " `holdfast txn list` shows what there is"
        ) from None


def complete_topic(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Topic names for the shell; none if the cluster does not answer at once."""
    with suppress(HoldfastError), _completing(ctx) as cluster:
        return [name for name in sorted(cluster.metadata().topics) if name.startswith(incomplete)]
    return []


patterns_option = click.option(
    "-t",
    "--topic",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    shell_complete=complete_topic,
    help="Only topics of that name; * and ? stand for others. Repeatable.",
)


def complete_group(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Group names for the shell, likewise."""
    from holdfast.client.groups import list_groups

    with suppress(HoldfastError), _completing(ctx) as cluster:
        return [group.name for group in list_groups(cluster) if group.name.startswith(incomplete)]
    return []


def complete_config(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Configs that the named topic knows, likewise."""
    from holdfast.client.topics import describe_configs

    name = ctx.params.get("name")
    with suppress(HoldfastError), _completing(ctx) as cluster:
        if name:
            names = sorted(entry.name for entry in describe_configs(cluster, name))
            return [found for found in names if found.startswith(incomplete)]
    return []


def complete_transactional_id(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Transactional ids for the shell, likewise."""
    from holdfast.client.transactional_ids import list_transactional_ids

    with suppress(HoldfastError), _completing(ctx) as cluster:
        return [each.name for each in list_transactional_ids(cluster) if each.name.startswith(incomplete)]
    return []
