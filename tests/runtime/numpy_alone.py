"""How a program runs as if NumPy were the only library."""

HEAVY = (
    *("numba", "sklearn", "scipy", "pandas", "narwhals", "psutil", "joblib", "array_api_compat"),
    *("torch", "cupy", "rich", "skops", "threadpoolctl", "matplotlib", "ndonnx"),
)
# The first lines of a program, which no other library can then be imported by
BLOCKING = f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {HEAVY}:
            raise ImportError("expected NumPy alone, got " + name)

sys.meta_path.insert(0, Blocked())
"""
