"""Kafka record batches v2, the one format on the wire, in journals and in segments. No I/O.

batch, walk, build, control, codecs, crc    plain Python: all that the agent imports
kernel, arrow, encode, warm                 compiled work on whole buffers: numba, numpy, pyarrow
explain                                     what a batch means, in words
"""
