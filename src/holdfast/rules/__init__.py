"""Pure decisions: no socket, disk, clock, randomness or Spark. Agent, keeper, lab and tools all call these.

producer transactional_id            which batch of an idempotent producer is next, a repeat, or refused; who owns an id
entry transaction lso visibility     one partition's log, its transactions, and what readers see of it
clock                                time that has certainly passed
policy                               the interface of the two ways to compact
coordinated_policy survival          Holdfast's: what decides others' fate stays until every replica has acted
  log_transactions
kafka_policy kafka_cleaner           Apache Kafka's: by time alone
  kafka_transactions
removal removal_leader               the offsets below which every replica has acted (MTRO, MXRO)
  removal_replica blockers fencing membership lineage grace ranges
"""
