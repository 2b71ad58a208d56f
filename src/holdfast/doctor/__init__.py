"""Do the replicas of a stock Kafka cluster show the same? Read-only, from outside or from copied files."""
