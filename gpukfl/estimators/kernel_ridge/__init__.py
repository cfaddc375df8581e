"""Kernel ridge regression, also with the Brownian kernel."""
