"""Classic consumer groups: a state machine without clock or socket, and the coordinator around it."""
