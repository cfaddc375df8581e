"""Self-tests of a GPU: correctness and speed.

`trusted_place` stands between the choice of a place and the fit: at the first use of a GPU it
compares CuPy and every CUDA kernel with the host. `report` is what ``gpukfl selftest`` prints.
"""

from gpukfl.selftest._checks import write_reference_results
from gpukfl.selftest._report import PREDICTED, report
from gpukfl.selftest._timings import SECTOR, Card, Work
from gpukfl.selftest._trust import trusted_place

__all__ = [
    "PREDICTED",
    "SECTOR",
    "Card",
    "Work",
    "report",
    "trusted_place",
    "write_reference_results",
]
