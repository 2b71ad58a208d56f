"""No faster than is allowed."""

from holdfast.doctor.live import Meter


def test_reading_is_held_to_its_rate() -> None:
    """Ten megabytes at one per second take ten seconds, whatever the pieces; time that passes anyway counts."""
    now = [100.0]
    read: list[int] = []

    def sleep(seconds: float) -> None:
        now[0] += seconds

    meter = Meter(1_000_000, on_read=read.append, clock=lambda: now[0], sleep=sleep)
    for _ in range(5):
        meter.count(2_000_000, 7)
    assert now[0] == 110.0
    assert (meter.read_bytes, sum(read)) == (10_000_000, 35)
    now[0] += 60
    meter.count(1_000_000, 1)
    assert now[0] == 171.0  # a pause is no credit: brokers feel the peak


def test_without_a_rate_nobody_sleeps() -> None:
    """And all is counted."""
    meter = Meter(sleep=lambda seconds: None)
    meter.count(5, 1)
    assert meter.read_bytes == 5
