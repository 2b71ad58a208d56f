"""Which Kafka requests are served, in which versions, by whom. ApiVersions answers from this table.

A handler module names its API and version range beside the code, so what is advertised cannot drift from
what is built. Most handlers get and give kafka-python's message objects; the hot ones read and write bytes.
"""

import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import InvalidRequest
from holdfast.store.journal import Buffer

if TYPE_CHECKING:
    from holdfast.agent.agent import Agent
    from holdfast.agent.deferred import Deferred

Payload = Sequence[Buffer]
"""A framed answer, ready for the socket; empty: this request gets none."""

_FRAME_HEAD = struct.Struct(">ii")


class Request(NamedTuple):
    """One request as it came from the socket, header taken off."""

    key: int
    version: int
    correlation_id: int
    client_id: str | None
    body: memoryview
    client_host: str = ""
    session: int = 0
    """The number of the connection: newer ones have greater numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One served request: versions first..last; `advertised_first` may lie below for a client's sake."""

    key: int
    first: int
    last: int
    advertised_first: int
    flexible_since: int
    """The first version with compact lengths and tagged fields."""
    serve: "Handler"
    may_overlap: bool
    """Whether it may start before earlier requests of its kind on the same connection are answered."""


Handler = Callable[["Agent", Request], "Payload | Deferred | Awaitable[Payload]"]
MessageHandler = Callable[..., Awaitable[Any]]

APIS: dict[int, Api] = {}


def serves_bytes(
    key: int,
    *,
    first: int,
    last: int,
    flexible_since: int,
    advertised_first: int | None = None,
    may_overlap: bool = False,
) -> Callable[[Handler], Handler]:
    """Register a function that reads the request's bytes and gives the framed answer, now or later."""

    def register(serve: Handler) -> Handler:
        assert key not in APIS, f"API key {key} is served twice"
        APIS[key] = Api(
            key=key,
            first=first,
            last=last,
            advertised_first=first if advertised_first is None else advertised_first,
            flexible_since=flexible_since,
            serve=serve,
            may_overlap=may_overlap,
        )
        return serve

    return register


def serves(
    request_class: Any, *, first: int, last: int, with_request: bool = False
) -> Callable[[MessageHandler], MessageHandler]:
    """Register a coroutine function from a decoded request to a response message of kafka-python's.

    With `with_request` it gets the request too, for what its header says of the client.
    """

    def register(handle: MessageHandler) -> MessageHandler:
        serve = by_message(request_class, handle, with_request=with_request)
        flexible_since = next(v for v in range(last + 2) if v > last or request_class.flexible_version_q(v))
        serves_bytes(request_class.API_KEY, first=first, last=last, flexible_since=flexible_since)(serve)
        return handle

    return register


def by_message(
    request_class: Any, handle: MessageHandler, *, with_request: bool = False
) -> Callable[["Agent", Request], Awaitable[Payload]]:
    """From a handler of kafka-python's message objects to one of bytes."""

    async def serve(agent: "Agent", request: Request) -> Payload:
        message = _decode(request_class, request)
        response = await handle(agent, message, *([request] if with_request else []))
        response.with_header(correlation_id=request.correlation_id)
        return [response.encode(header=True, framed=True)]

    return serve


def frame_head(request: Request, *, flexible: bool, body_bytes: int) -> bytes:
    """Length, correlation id and (flexible versions) the header's empty tagged fields."""
    tags = b"\0" if flexible else b""
    return _FRAME_HEAD.pack(4 + len(tags) + body_bytes, request.correlation_id) + tags


def _decode(request_class: Any, request: Request) -> Any:
    try:
        message = request_class.decode(request.body, version=request.version)
        _check_nulls(request_class, message, request.version)
        return message
    except (ValueError, IndexError, TypeError, KeyError, OverflowError, struct.error) as failure:
        raise InvalidRequest(
            f"request {request.key} v{request.version} not understood: {failure}"
        ) from failure


def _check_nulls(schema: Any, message: Any, version: int) -> None:
    """Raise ValueError for a null that this version does not allow: kafka-python reads null anywhere."""
    for name, field in schema.fields.items():
        if not field.for_version_q(version) or not (field.is_array() or field.type_str == "string"):
            continue
        value = getattr(message, name)
        if value is None:
            if not field.nullable_for_version_q(version):
                raise ValueError(f"{name} is null")
        elif field.is_struct_array():
            for element in value:
                _check_nulls(field, element, version)
        elif field.is_array() and None in value:
            raise ValueError(f"{name} holds a null")
