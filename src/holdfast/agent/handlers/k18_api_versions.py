"""ApiVersions (key 18), v0-4.

Behaviour: lists the registry. Says that transactions are of version 2 (KIP-890), upon which newer clients let each
transaction have an epoch of its own. A version that is not known is answered in v0 with UNSUPPORTED_VERSION, so that
the client can ask again (KIP-511); the answer's header is v0 in every version.

Versions: v3 flexible, features (KIP-584).
"""

from typing import Any

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from holdfast.agent.agent import Agent
from holdfast.agent.registry import APIS, Payload, Request, serves_bytes

FLEXIBLE_SINCE = 3
FEATURES_SINCE = 3
LAST = 4
UNSUPPORTED_VERSION = 35

TRANSACTION_VERSION = "transaction.version"
TRANSACTION_VERSION_LAST = 2
FEATURES_EPOCH = 1
"""Counts changes of features; there have been none since the first ones."""


@serves_bytes(18, first=0, last=LAST, flexible_since=FLEXIBLE_SINCE)
def api_versions(agent: Agent, request: Request) -> Payload:
    """What this agent serves."""
    known = 0 <= request.version <= LAST
    version = request.version if known else 0
    item: Any = ApiVersionsResponse.ApiVersion
    response: Any = ApiVersionsResponse(
        error_code=0 if known else UNSUPPORTED_VERSION,
        api_keys=[
            item(api_key=api.key, min_version=api.advertised_first, max_version=api.last, version=version)
            for api in sorted(APIS.values(), key=lambda api: api.key)
        ],
        **(_features(version) if version >= FEATURES_SINCE else {}),
        version=version,
    )
    response.with_header(correlation_id=request.correlation_id)
    return [response.encode(header=True, framed=True)]


def _features(version: int) -> dict[str, object]:
    supported: Any = ApiVersionsResponse.SupportedFeatureKey
    finalized: Any = ApiVersionsResponse.FinalizedFeatureKey
    return {
        "supported_features": [
            supported(
                name=TRANSACTION_VERSION,
                # v3 cannot say 0: clients take such a feature for damage (KAFKA-17011).
                min_version=0 if version >= 4 else 1,
                max_version=TRANSACTION_VERSION_LAST,
                version=version,
            )
        ],
        "finalized_features_epoch": FEATURES_EPOCH,
        "finalized_features": [
            finalized(
                name=TRANSACTION_VERSION,
                max_version_level=TRANSACTION_VERSION_LAST,
                min_version_level=TRANSACTION_VERSION_LAST,
                version=version,
            )
        ],
    }


assert ApiVersionsRequest.API_KEY == 18
