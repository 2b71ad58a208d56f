"""Loads kafka-python before the tests do."""

import warnings

with warnings.catch_warnings():
    # kafka-python 3.0 reads its schemas with importlib.resources.read_text, which Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401
