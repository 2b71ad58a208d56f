"""What can run a scenario. `model` is a deterministic simulation in virtual time."""
