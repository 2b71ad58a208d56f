"""The admin service beside an agent, and the file that says where it listens."""

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from holdfast.admin import compaction_metrics, metrics, prometheus
from holdfast.admin.compaction import describe_compaction
from holdfast.admin.http import HttpService, Response, Route, json_response
from holdfast.admin.keeper_desk import ask_desk
from holdfast.admin.leaders import move_leaders
from holdfast.admin.readings import care_for_readings
from holdfast.admin.status import status
from holdfast.admin.stores import assign_replicas, care_for_store, list_stores
from holdfast.agent.agent import Agent
from holdfast.client.admin import ADDRESS_FILE
from holdfast.errors import UnknownTopicOrPartition

logger = logging.getLogger(__name__)

ATTEMPTS_MAX = 3


@asynccontextmanager
async def admin_service(agent: Agent, *, host: str, port: int) -> AsyncIterator[None]:
    """Serves what is listed below; DATA/admin.json says where, for as long as it does."""

    async def get_status(query: Mapping[str, str]) -> Response:
        return json_response(await asyncio.to_thread(_read_status, agent))

    async def get_metrics(query: Mapping[str, str]) -> Response:
        coordination = await asyncio.to_thread(compaction_metrics.read, agent)
        page = prometheus.render(metrics.families(agent, coordination))
        return Response(content_type=prometheus.CONTENT_TYPE, body=page)

    routes: dict[str, Route] = {
        "/status": get_status,
        "/metrics": get_metrics,
        "/stores": partial(list_stores, agent),
        "/compaction": partial(describe_compaction, agent),
    }
    actions = {
        "/leaders": partial(move_leaders, agent),
        "/keeper": partial(ask_desk, agent),
        "/stores": partial(care_for_store, agent),
        "/replicas": partial(assign_replicas, agent),
        "/readings": partial(care_for_readings, agent),
    }
    async with HttpService(routes, actions, host=host, port=port) as service:
        file = agent.settings.data / ADDRESS_FILE
        try:
            _write_address(file, host, service.port)
        except OSError as failure:
            # A full disk must not keep what is stored from being served.
            logger.warning(
                "admin service on %s:%d, but %s is not written: %s", host, service.port, file, failure
            )
        try:
            yield
        finally:
            file.unlink(missing_ok=True)


def _read_status(agent: Agent) -> dict[str, object]:
    """A topic may go away between the list and the look at its partitions: look again."""
    for _ in range(ATTEMPTS_MAX - 1):
        try:
            return status(agent)
        except UnknownTopicOrPartition:
            continue
    return status(agent)


def _write_address(file: Path, host: str, port: int) -> None:
    """All of it or nothing: somebody may be reading. No sync, since it means nothing after a crash."""
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    draft = file.with_suffix(".tmp")
    draft.write_text(json.dumps({"address": address, "pid": os.getpid()}) + "\n")
    draft.rename(file)
