"""Eigenvalues on the host, also where the quicker way to them fails."""

from __future__ import annotations

import numpy as np


def host_eigh(A: np.ndarray, /) -> tuple[np.ndarray, np.ndarray]:
    """Do what `numpy.linalg.eigh` does, by another algorithm where that finds nothing.

    LAPACK's divide and conquer gives up on some finite matrices of near-copies and numbers far
    below rounding. QR iterations do not; they take some three times as long.
    """
    try:
        return np.linalg.eigh(A)
    except np.linalg.LinAlgError:
        from scipy.linalg import eigh

        return eigh(A, driver="ev", check_finite=False)
