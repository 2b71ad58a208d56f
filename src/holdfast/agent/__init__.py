"""The agent: speaks the Kafka protocol, commits in groups, serves fetches; it holds caches only."""
