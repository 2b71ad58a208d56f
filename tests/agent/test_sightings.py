"""How long something has been seen without a break."""

from holdfast.agent.sightings import Sightings


def test_as_long_as_it_is_seen() -> None:
    """Counted from the first time; what is seen beside it changes nothing, what was not seen begins anew."""
    now_ms = 100
    sightings = Sightings(lambda: now_ms)
    assert sightings.look("t", ["away"]) == {"away": 0}
    now_ms = 150
    assert sightings.look("t", ["away", "lag"]) == {"away": 50, "lag": 0}
    assert sightings.look("u", ["away"]) == {"away": 0}, "each subject has its own"
    now_ms = 180
    assert sightings.look("t", ["lag"]) == {"lag": 30}
    assert sightings.look("t", ["away", "lag"]) == {"away": 0, "lag": 30}
    assert sightings.look("t", []) == {}
    now_ms = 200
    assert sightings.look("t", ["lag"]) == {"lag": 0}


def test_subjects_that_are_gone() -> None:
    """Are forgotten; the others are not."""
    now_ms = 0
    sightings = Sightings(lambda: now_ms)
    sightings.look("t", ["away"])
    sightings.look("u", ["away"])
    now_ms = 10
    sightings.keep(lambda subject: subject == "u")
    assert sightings.look("t", ["away"]) == {"away": 0}
    assert sightings.look("u", ["away"]) == {"away": 10}
