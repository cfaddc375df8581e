"""Kernel feature learning: exact, near-linear, on NumPy, CuPy and torch."""

from gpukfl._memory import memory_budget
from gpukfl._version import __version__

__all__ = ["__version__", "memory_budget"]
