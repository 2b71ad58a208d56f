"""Clients that consume, produce and commit in transactions, behind one face. A new one is a module and a line."""

from importlib import import_module

from soak.clients.client import TransactionalClient

CLIENTS = {
    "confluent-kafka": ("soak.clients.confluent", "Confluent"),
    "kafka-python": ("soak.clients.kafka_python", "KafkaPython"),
    "aiokafka": ("soak.clients.aiokafka", "Aiokafka"),
    "holdfast-tv1": ("soak.clients.own", "OwnFirstGeneration"),
    "holdfast-tv2": ("soak.clients.own", "OwnSecondGeneration"),
}

GIVES_UP_BY_ITSELF = {"aiokafka": ("KafkaConnectionError", "ConnectionResetError", "IllegalOperation")}
"""Where the others go on, aiokafka may stop when a connection breaks: a poll raises that, or a transaction that it has
just begun is none. What the log answered is never among these."""


def connect(client: str, bootstrap: str, transactional_id: str) -> TransactionalClient:
    """The client of this name; a worker imports none but its own, for the sake of a quick start."""
    module, name = CLIENTS[client]
    made: TransactionalClient = getattr(import_module(module), name)(bootstrap, transactional_id)
    return made
