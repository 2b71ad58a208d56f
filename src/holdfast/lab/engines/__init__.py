"""What can run a scenario: `model`, a simulation in virtual time, and `holdfast`, the log itself."""
