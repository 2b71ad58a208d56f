"""The checks that a payment has to pass, as a pipeline's transform: DataFrame → DataFrame with an end state."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

LIMIT_CENTS: Final = 1_000_000
"""Above it a payment needs somebody's signature."""
COUNTRIES: Final = ("AT", "BE", "CH", "DE", "ES", "FR", "IT", "NL", "PL", "SE")
RISKY_CENTS: Final = 250_000

PAYMENT: Final = "payment string, account string, country string, amount_cents long, purpose string"


def assess(messages: DataFrame) -> DataFrame:
    """Qualified payments are told their risk; those that are not keep their value and are told why."""
    payment = sql.from_json(sql.col("value").cast("string"), PAYMENT, {"mode": "PERMISSIVE"})
    read = messages.withColumn("payment", payment)
    faulty = _first_reason(
        (sql.col("payment.payment").isNull() | sql.col("payment.amount_cents").isNull(), "not a payment"),
        (sql.col("payment.amount_cents") <= 0, "no amount"),
    )
    refused = _first_reason(
        (~sql.coalesce(sql.col("payment.country").isin(*COUNTRIES), sql.lit(False)), "country"),
        (sql.col("payment.amount_cents") > LIMIT_CENTS, "above the limit"),
        (sql.length(sql.coalesce("payment.purpose", sql.lit(""))) == 0, "no purpose"),
    )
    judged = read.withColumns({"faulty": faulty, "refused": refused})
    state = (
        sql.when(sql.col("faulty").isNotNull(), "failed")
        .when(sql.col("refused").isNotNull(), "not_qualified")
        .otherwise("qualified")
    )
    risk = sql.when(sql.col("payment.amount_cents") > RISKY_CENTS, "high").otherwise("low")
    told = sql.to_json(sql.struct("payment.*", risk.alias("risk"))).cast("binary")
    return judged.withColumns(
        {
            "end_state": state,
            "reason": sql.coalesce("faulty", "refused"),
            "value": sql.when(state == "qualified", told).otherwise(sql.col("value")),
        }
    ).drop("payment", "faulty", "refused")


def _first_reason(*cases: tuple[Column, str]) -> Column:
    return sql.coalesce(*(sql.when(holds, reason) for holds, reason in cases))
