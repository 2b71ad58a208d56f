"""Transactions: the coordinator on the event loop, and what a group commit plans for it."""
