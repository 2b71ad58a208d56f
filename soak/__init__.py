"""Random crashes under load, for as long as one likes: `make soak`."""
