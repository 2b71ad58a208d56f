"""The admin service: status and metrics of a running agent, over HTTP on loopback."""
