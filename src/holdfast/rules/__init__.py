"""Pure decisions: no socket, disk, clock, randomness or Spark. Agent, keeper, lab and tools all call these.

producer                                which batch of an idempotent producer is next, a repeat, or refused
entry transaction lso visibility        one partition's log, its transactions, and what readers see of it
policy cleanable survival               what a compaction pass may drop on Holdfast
kafka_transactions kafka_cleaner        the same questions as Apache Kafka answers them
removal… lineage grace                  the offsets below which every replica has acted (MTRO, MXRO)
"""
