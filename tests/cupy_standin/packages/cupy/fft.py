"""Names only."""

from cupy._surface import SURFACE, missing

__all__ = [name for name, entry in SURFACE["cupy.fft"].items() if entry["kind"] == "function"]
globals().update({name: missing("cupy.fft", name) for name in __all__})
