"""The control plane: the truth about topics, offsets, producers and groups."""
