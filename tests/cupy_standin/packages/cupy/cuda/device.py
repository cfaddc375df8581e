"""Where CuPy keeps the class of devices."""

from cupy._devices import Device

__all__ = ["Device"]
