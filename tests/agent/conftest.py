"""kafka-python reads its schemas in a way that Python 3.11 calls deprecated; import it once, quietly."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    import kafka.protocol.admin
    import kafka.protocol.consumer
    import kafka.protocol.metadata
    import kafka.protocol.producer

assert kafka
