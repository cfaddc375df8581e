"""Writing, reading and compression of fitted models."""
