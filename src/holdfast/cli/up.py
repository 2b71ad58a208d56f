"""`holdfast up`: serve the Kafka protocol from one process."""

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import click

from holdfast.cli import logs
from holdfast.cli.data_option import data_option
from holdfast.errors import UsageError


@click.command()
@data_option("Directory that holds everything; made if it is not there.")
@click.option(
    "--listen",
    default="127.0.0.1:9092",
    show_default=True,
    metavar="HOST:PORT",
    help="Address to listen on, and that clients are told; port 0 takes a free one.",
)
@click.option(
    "--insecure",
    is_flag=True,
    help="Let --listen name an address that is not loopback: whoever reaches it may read and write everything.",
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Settings in TOML: see docs/configuration.md.",
)
@click.option(
    "--partitions",
    "default_partitions",
    type=click.IntRange(1, 10_000),
    help="Partitions of a topic that comes into being when a client asks for it.  [default: 1]",
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 16),
    metavar="N",
    help="Nodes to host, each with a listener and a store of its own; node n listens on PORT + n - 1."
    " As many as the directory has, or one.",
)
@click.option(
    "--admin",
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    help="Loopback address of /status and /metrics; DATA/admin.json says which port it became.",
)
@click.option(
    "--log-format",
    type=click.Choice(logs.FORMATS),
    default="text",
    show_default=True,
    help="Lines for people, or one JSON object a line.",
)
def up(
    data: Path,
    listen: str,
    insecure: bool,
    config: Path | None,
    admin: str,
    log_format: str,
    **chosen: int | None,
) -> None:
    """Serve the Kafka protocol until SIGTERM or ^C. Everything acknowledged is durable."""
    # Heavy enough to keep out of `holdfast --help`.
    from holdfast.admin.keeper_process import keeper_process
    from holdfast.admin.service import admin_service
    from holdfast.agent import config_file
    from holdfast.agent.agent import Agent
    from holdfast.agent.server import serve
    from holdfast.agent.settings import Settings

    host, port = parse_address(listen, insecure=insecure)
    admin_host, admin_port = parse_address(admin, option="--admin")
    logs.set_up(log_format)
    from_file = config_file.load(config) if config is not None else {}
    from_options = {name: value for name, value in chosen.items() if value is not None}
    settings = Settings(data=data, host=host, port=port, **from_file | from_options)

    def announce(addresses: Sequence[str]) -> None:
        click.echo(f"holdfast is listening on {', '.join(addresses)}, data in {data.resolve()}")

    @asynccontextmanager
    async def alongside(agents: Sequence[Agent]) -> AsyncIterator[None]:
        async with (
            admin_service(agents[0], host=admin_host, port=admin_port),
            keeper_process(agents[0]),
        ):
            yield

    asyncio.run(serve(settings, on_ready=announce, alongside=alongside))


def parse_address(address: str, *, option: str = "--listen", insecure: bool = False) -> tuple[str, int]:
    """Host and port; loopback unless `insecure`, because there is no authentication yet."""
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"{option} takes HOST:PORT, such as 127.0.0.1:9092, not {address!r}")
    # Clients are told this address: a name may resolve to [::1] for them and to 127.0.0.1 for us.
    host = "127.0.0.1" if host == "localhost" else host.strip("[]")
    try:
        ip_address = ipaddress.ip_address(host)
    except ValueError:
        raise UsageError(f"{option} takes an IP address or localhost, not {host!r}") from None
    if not ip_address.is_loopback and not insecure:
        raise UsageError(
            f"{host} is not a loopback address: anybody could read and write there; --insecure allows it"
            if option == "--listen"
            else f"{host} is not a loopback address"
        )
    if ip_address.is_unspecified:
        raise UsageError(f"{option} {host}: name the address that clients reach, they are told this one")
    return host, int(port)
