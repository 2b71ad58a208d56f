"""The Kafka protocol from the client's side: synchronous, and raw bytes where others decode."""

from typing import Final

BOOTSTRAP_DEFAULT: Final = "127.0.0.1:9092"
"""Where a Holdfast listens unless told otherwise."""
