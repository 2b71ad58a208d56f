"""Pipelines: what they are (config, identity, tally), whether they can run (check), how they run (service, adapter)."""
