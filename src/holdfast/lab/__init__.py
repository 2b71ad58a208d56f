"""The lab: scenarios and random schedules, run on engines, that show Kafka's harm and the cure."""
