"""Stores: immutable bytes, made durable before anybody is told about them."""
