"""Compiled steps of `gpukfl.solvers.Lasso`: Newton steps on a working set of coordinates.

The set changes by one coordinate at a time, so the Cholesky factor of its block of H is updated
and never computed anew. Rows are read along memory; nothing is split over threads.
"""

from __future__ import annotations

import numpy as np

from gpukfl._accel.compiled import njit

_FLOOR = 1e-12  # of the diagonal: a smaller pivot says that a column depends on those before
_SMALLEST = 1e-280  # diagonal: anything smaller could underflow in a product with the floor
_REPEATS = 2  # Newton steps in a row, each on what rounding in the factor left of the last
_SETTLED = 1e-9  # of the penalty: slopes on the set that need no further step


class WorkingSet:
    """Coordinates that Newton steps move together, their signs, and the factor of their block.

    Parameters
    ----------
    H : host array (T, T)
        Symmetric, positive semidefinite, float64 and contiguous; columns with zero on the
        diagonal never enter.
    b : host array (T,)
        Where to begin. Its support enters, but for columns that depend on others before them.
    """

    def __init__(self, H: np.ndarray, b: np.ndarray, /) -> None:
        T = len(b)
        self.H = H
        self.sign = np.zeros(T)  # 0 outside the set
        self.members = np.empty(T, dtype=np.int64)
        self.factor = np.empty((T, T))  # memory is taken up as rows come into use
        self.size = _begin(H, b, self.sign, self.members, self.factor)

    def descend(self, b: np.ndarray, g: np.ndarray, penalty: float, steps: int, /) -> float:
        """Lower F by at most `steps` Newton steps; return the decrease, about 0 at the minimum.

        `b` and ``g = c - H b`` are written to. O(n (n + T)) a step for n coordinates in the set.
        """
        self.size, gain = _descend(
            self.H, b, g, penalty, steps, self.sign, self.members, self.size, self.factor
        )
        return gain


@njit(nogil=True, cache=True)
def _begin(H, b, sign, members, L):
    n = 0
    for j in range(b.shape[0]):
        if b[j] != 0 and H[j, j] > _SMALLEST and _append(H, j, members, n, L):
            sign[j] = np.sign(b[j])
            n += 1
    return n


@njit(nogil=True, cache=True)
def _descend(H, b, g, penalty, steps, sign, members, n, L):
    refused = np.zeros(b.shape[0], dtype=np.bool_)
    n, gain, left = _settle(H, b, g, penalty, steps, sign, members, n, L)
    while left > 0:
        j = _steepest(H, b, g, penalty, sign, refused)
        if j < 0:
            break
        _append(H, j, members, n, L)
        sign[j] = np.sign(b[j]) if b[j] != 0 else np.sign(g[j])
        n, gained, left = _settle(H, b, g, penalty, left, sign, members, n + 1, L)
        refused[j] = gained <= 0
        gain += gained
    return n, gain


@njit(nogil=True, cache=True)
def _steepest(H, b, g, penalty, sign, refused):
    """Return the coordinate outside the set that lowers F most, or -1 if none does."""
    best, most = -1, 0.0
    for j in range(b.shape[0]):
        if sign[j] != 0 or refused[j] or H[j, j] <= _SMALLEST:
            continue
        slope = abs(g[j]) - penalty if b[j] == 0 else abs(g[j] - penalty * np.sign(b[j]))
        if slope > 0 and slope * slope > most * H[j, j]:
            best, most = j, slope * slope / H[j, j]
    return best


@njit(nogil=True, cache=True)
def _settle(H, b, g, penalty, steps, sign, members, n, L):
    """Take Newton steps on the set; a coordinate whose sign would change leaves it.

    Gives how many are left in the set, what F lost, and how many of `steps` are left.
    """
    gain, repeats = 0.0, 0
    x, slope = np.empty(n), np.empty(n)
    while n > 0 and steps > 0 and repeats < _REPEATS:
        steps -= 1
        for i in range(n):
            slope[i] = x[i] = g[members[i]] - penalty * sign[members[i]]
        _solve(L, n, x)
        first = _move(b, g, H, x, members[:n], sign, penalty)
        largest = 0.0
        for i in range(n):
            rest = g[members[i]] - penalty * sign[members[i]]
            gain += 0.5 * x[i] * (slope[i] + rest)  # F is quadratic along the step
            largest = max(largest, abs(rest))
        if first >= 0:
            sign[members[first]] = 0.0
            _remove(first, members, n, L)
            n, repeats = n - 1, 0
        elif largest <= _SETTLED * penalty:
            break
        else:
            repeats += 1
    return n, gain, steps


@njit(nogil=True, cache=True)
def _move(b, g, H, x, members, sign, penalty):
    """Move along `x` up to the first change of sign; return its position, or -1."""
    step, first = 1.0, -1
    if penalty > 0:  # without one a sign means nothing
        for i in range(members.shape[0]):
            j = members[i]
            if (b[j] + step * x[i]) * sign[j] < 0:
                step, first = abs(b[j] / x[i]), i
    for i in range(members.shape[0]):
        j = members[i]
        x[i] = -b[j] if i == first else step * x[i]
        b[j] = 0.0 if i == first else b[j] + x[i]
        row = H[j]
        for k in range(g.shape[0]):
            g[k] -= x[i] * row[k]
    return first


@njit(nogil=True, cache=True)
def _append(H, j, members, n, L):
    """Append `j` to the set; return whether it is independent of the `n` coordinates before it.

    The pivot of a dependent column is raised. The factor is then that of a larger matrix, and its
    Newton steps still go down: far along what H does not see, to the next change of sign.
    """
    row = L[n]
    for i in range(n):
        row[i] = (H[j, members[i]] - _dot(L[i, :i], row[:i])) / L[i, i]
    pivot = H[j, j] - _dot(row[:n], row[:n])
    least = _FLOOR * H[j, j]
    row[n] = np.sqrt(max(pivot, least))
    members[n] = j
    return pivot > least


@njit(nogil=True, cache=True)
def _remove(k, members, n, L):
    """Remove the `k`-th of `n` coordinates, and restore the triangle by rotations."""
    cosine, sine = np.empty(n), np.empty(n)
    for r in range(k, n - 1):
        members[r] = members[r + 1]
        row = L[r]
        for i in range(r + 2):
            row[i] = L[r + 1, i]
        for i in range(k, r):
            left, right = row[i], row[i + 1]
            row[i] = cosine[i] * left + sine[i] * right
            row[i + 1] = cosine[i] * right - sine[i] * left
        size = np.hypot(row[r], row[r + 1])
        cosine[r], sine[r] = row[r] / size, row[r + 1] / size
        row[r] = size


@njit(nogil=True, cache=True)
def _solve(L, n, x):
    """Solve ``L L' x = x`` in place."""
    for i in range(n):
        x[i] = (x[i] - _dot(L[i, :i], x[:i])) / L[i, i]
    for i in range(n - 1, -1, -1):
        x[i] /= L[i, i]
        for k in range(i):
            x[k] -= x[i] * L[i, k]


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _dot(a, b):
    total = 0.0
    for k in range(a.shape[0]):
        total += a[k] * b[k]
    return total
