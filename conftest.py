"""Surroundings of every test process, set before it imports NumPy, whatever the shell exports.

The process that starts the workers reads this file too, and they inherit its environment.
"""

import os

# One worker a core: threads of a library would spin against those of the other worker
_THREADS = (
    "GPUKFL_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
os.environ.update(dict.fromkeys(_THREADS, "1"))
os.environ["MPLBACKEND"] = "Agg"
os.environ["SCIPY_ARRAY_API"] = "1"  # read when SciPy is first imported
os.environ.pop("GPUKFL_BACKEND", None)
