"""Keeps the cleaners of a stock Kafka cluster still while a replica is away."""
