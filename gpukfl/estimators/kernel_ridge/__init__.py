"""Kernel ridge regression, and the one of the Brownian kernel."""
