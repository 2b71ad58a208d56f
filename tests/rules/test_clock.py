"""What has certainly passed on two clocks."""

from holdfast.rules.clock import GraceClock


def test_clock_counts_the_smaller_of_wall_and_monotonic() -> None:
    """A wall clock that jumps ahead, or a monotonic clock that runs through a sleep, ends no grace early."""
    clock = GraceClock().observe(wall_ms=1_000, monotonic_ms=50)
    assert clock.elapsed_ms == 0
    clock = clock.observe(wall_ms=90_000, monotonic_ms=60)
    assert clock.elapsed_ms == 10
    clock = clock.observe(wall_ms=90_005, monotonic_ms=5_000)
    assert clock.elapsed_ms == 15


def test_clock_that_goes_back_adds_nothing() -> None:
    """A wall clock that is set back neither adds nor takes away."""
    clock = GraceClock().observe(wall_ms=1_000, monotonic_ms=0).observe(wall_ms=500, monotonic_ms=100)
    assert clock.elapsed_ms == 0
    assert clock.observe(wall_ms=600, monotonic_ms=200).elapsed_ms == 100


def test_restart_keeps_what_passed_and_counts_no_outage() -> None:
    """After a restart the monotonic clock starts anew: the outage itself does not count."""
    clock = GraceClock().observe(wall_ms=0, monotonic_ms=0).observe(wall_ms=70, monotonic_ms=70)
    clock = clock.resume().observe(wall_ms=1_000_000, monotonic_ms=3)
    assert clock.elapsed_ms == 70
    assert clock.observe(wall_ms=1_000_010, monotonic_ms=13).elapsed_ms == 80
