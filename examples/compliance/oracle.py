"""The same checks in plain Python, message by message: what the pipeline has to come to, told by other means."""

import json
from dataclasses import dataclass
from typing import Any

from examples.compliance.checks import COUNTRIES, LIMIT_CENTS, RISKY_CENTS
from examples.compliance.generator import Message

FIELDS = ("payment", "account", "country", "amount_cents", "purpose")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Where a message ends, with what value, and why."""

    end_state: str
    value: bytes
    reason: str | None


def judge(message: Message) -> Verdict:
    """What becomes of one message."""
    payment = _read(message.value)
    if payment is None or payment.get("payment") is None or payment.get("amount_cents") is None:
        return Verdict(end_state="failed", value=message.value, reason="not a payment")
    amount = payment["amount_cents"]
    if amount <= 0:
        return Verdict(end_state="failed", value=message.value, reason="no amount")
    if payment["country"] not in COUNTRIES:
        return Verdict(end_state="not_qualified", value=message.value, reason="country")
    if amount > LIMIT_CENTS:
        return Verdict(end_state="not_qualified", value=message.value, reason="above the limit")
    if not payment["purpose"]:
        return Verdict(end_state="not_qualified", value=message.value, reason="no purpose")
    told = {name: payment[name] for name in FIELDS} | {"risk": "high" if amount > RISKY_CENTS else "low"}
    value = json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode()
    return Verdict(end_state="qualified", value=value, reason=None)


def _read(value: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(value)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
