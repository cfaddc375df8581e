"""Where CuPy keeps the error of its pool."""

from cupy._memory import OutOfMemoryError

__all__ = ["OutOfMemoryError"]
