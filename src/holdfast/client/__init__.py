"""The Kafka protocol from the client's side: synchronous, and raw bytes where others decode."""
