"""The text format."""

from holdfast.admin.prometheus import counter, counters, gauge, histogram, render


def test_render() -> None:
    """Help, type and samples of every kind, with labels escaped."""
    families = [
        counter("a_total", "Line one.\nLine two.", 3),
        counters("b_total", "By label.", "who", [('x"y\\z\n', 1), ("plain", 2)]),
        gauge("c_bytes", "Now.", 1.5),
        histogram("d_seconds", "How long.", bounds=(0.1, 1.0), counts=[1, 2, 4], total=9.25),
    ]
    assert render(families).decode() == (
        "# HELP a_total Line one.\\nLine two.\n"
        "# TYPE a_total counter\n"
        "a_total 3\n"
        "# HELP b_total By label.\n"
        "# TYPE b_total counter\n"
        'b_total{who="x\\"y\\\\z\\n"} 1\n'
        'b_total{who="plain"} 2\n'
        "# HELP c_bytes Now.\n"
        "# TYPE c_bytes gauge\n"
        "c_bytes 1.5\n"
        "# HELP d_seconds How long.\n"
        "# TYPE d_seconds histogram\n"
        'd_seconds_bucket{le="0.1"} 1\n'
        'd_seconds_bucket{le="1.0"} 3\n'
        'd_seconds_bucket{le="+Inf"} 7\n'
        "d_seconds_sum 9.25\n"
        "d_seconds_count 7\n"
    )
