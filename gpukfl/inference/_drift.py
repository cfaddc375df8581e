"""How later rows differ from those of a fit, column by column, with permutation tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.stats import ks_2samp

from gpukfl.core._array import is_array
from gpukfl.core._frames import (
    check_in_memory,
    check_rows,
    frame_from_dicts,
    is_frame,
    listed,
    stringify_names,
)
from gpukfl.tables._reader import order_numbers
from gpukfl.tables._reference import (
    DATE,
    LEVEL,
    NUMBER,
    ColumnSample,
    Reference,
    draw_rows,
    read_samples,
    take_some,
)
from gpukfl.tables._relations import drop_columns

if TYPE_CHECKING:
    import pandas as pd

_NEW_ROWS = 2_000  # of which a test is made
_PERMUTATIONS, _BATCH = 9_999, 200
_ENOUGH = 20  # permutations that are as far apart, after which no more are drawn
_NEW_LEVELS = 3  # that are named
_FEWEST_SHARE = 0.01  # change of the share of missing values that is said
_TOL = 1e-12


def measure_drift(model: Any, X: Any, /) -> pd.DataFrame:
    """Return how the columns of new rows differ from those of the fit: see `Model.drift`."""
    import pandas as pd

    known = _reference(model)
    names = list(model.feature_names)
    check_in_memory(X)
    check_rows(X)
    X = drop_columns(X, getattr(model.estimator, "beside_", ()))
    if model.table is None and not is_array(X):
        X = order_numbers(X, names, gaps=True)
    elif is_frame(X := frame_from_dicts(X)):
        X = stringify_names(X)
    n = int(X.shape[0]) if getattr(X, "shape", ()) else len(X)
    X = take_some(X, draw_rows(n, _NEW_ROWS))
    now = list(read_samples(X, model.table, names, known=known, target=model.target_name))
    pairs = [
        _Pair.from_samples(a, b, _levels_of_fit(model, k))
        for k, (a, b) in enumerate(zip(known.columns, now, strict=True))
    ]
    p = _p_values(pairs)
    found = pd.DataFrame(
        {
            "column": [one.name for one in pairs],
            "statistic": [one.statistic for one in pairs],
            "missing_then": [one.missing[0] for one in pairs],
            "missing_now": [one.missing[1] for one in pairs],
            "change": [one.change for one in pairs],
            "p_value": holm(p),
            "p_alone": p,
        }
    )
    by = ["p_value", "statistic"]
    return found.sort_values(by, ascending=[True, False], kind="stable", ignore_index=True)


def _reference(model: Any) -> Reference:
    if model.reference is not None:
        found: Reference = model.reference
        return found
    kept = getattr(model.estimator, "out_of_fold_", None)
    if kept is None or not kept.is_complete or model.table is not None:
        msg = (
            "expected a model that keeps a sample of its training rows, got one without. Files "
            "saved with record=False, older files, and estimators without gpukfl.fit have none"
        )
        raise ValueError(msg)
    return Reference.draw(kept.rows, None, model.feature_names)


def _levels_of_fit(model: Any, k: int) -> tuple[str, ...]:
    return () if model.table is None else model.table.columns[k].levels


@dataclass(frozen=True, eq=False)
class _Pair:
    """The pooled values of a column, those of the fit first, as ranks or levels."""

    name: str
    sort: str
    codes: np.ndarray  # (N,), from 0; the last one is of missing values, where there are any
    n_then: int
    missing: tuple[float, float]
    change: str

    @classmethod
    def from_samples(cls, then: ColumnSample, now: ColumnSample, known: Sequence[str]) -> _Pair:
        """Pool two samples; `known` are levels of the fit that the sample may lack."""
        pooled = np.concatenate([then.values, now.values])
        if then.sort == LEVEL:
            every = sorted({*then.levels, *now.levels})
            place = {level: k for k, level in enumerate(every)}
            parts = [
                np.append([float(place[one]) for one in part.levels], np.nan)[
                    np.where(np.isnan(part.values), -1, part.values).astype(np.int64)
                ]
                for part in (then, now)
            ]
            pooled = np.concatenate(parts)
        gaps = np.isnan(pooled)
        codes = np.zeros(len(pooled), dtype=np.int64)
        found, codes[~gaps] = np.unique(pooled[~gaps], return_inverse=True)
        codes[gaps] = len(found)
        n, share = len(then.values), np.isnan
        missing = float(share(then.values).mean()), float(share(now.values).mean())
        change = "; ".join(_changes(then, now, missing, known))
        return cls(then.name, then.sort, codes, n, missing, change)

    @cached_property
    def n_codes(self) -> int:
        """The number of different values, with that of missing ones."""
        return int(self.codes.max()) + 1

    @cached_property
    def _counts(self) -> np.ndarray:
        return np.bincount(self.codes, minlength=self.n_codes)

    @cached_property
    def _indicators(self) -> sparse.csr_array:
        size = len(self.codes)
        ones = np.ones(size)
        return sparse.csr_array((ones, (np.arange(size), self.codes)), (size, self.n_codes))

    def distances(self, is_now: np.ndarray, /) -> np.ndarray:
        """Return the statistics (b,) of several divisions (b, N) of the pooled rows."""
        m, n = len(self.codes) - self.n_then, self.n_then
        now = (is_now @ self._indicators).astype(np.float64)
        apart = now / m - (self._counts - now) / n
        if self.sort == LEVEL:
            return 0.5 * np.abs(apart).sum(axis=1)
        known = apart[:, :-1] if max(self.missing) else apart
        ends = np.abs(np.cumsum(known, axis=1)).max(axis=1, initial=0.0)
        return np.maximum(ends, np.abs(apart[:, -1])) if max(self.missing) else ends

    @cached_property
    def statistic(self) -> float:
        """The largest difference of a share: Kolmogorov-Smirnov's, or the total variation."""
        is_now = np.arange(len(self.codes))[None, :] >= self.n_then
        return float(self.distances(is_now.astype(np.float64))[0])

    @property
    def is_continuous(self) -> bool:
        """Whether all values are there, and differ."""
        return self.sort != LEVEL and not max(self.missing) and self.n_codes == len(self.codes)

    def exact_p_value(self) -> float:
        """Return Kolmogorov and Smirnov's p-value, exact where values are continuous."""
        then, now = self.codes[: self.n_then], self.codes[self.n_then :]
        return float(np.clip(ks_2samp(then, now, method="exact").pvalue, 0.0, 1.0))


def _p_values(pairs: Sequence[_Pair]) -> np.ndarray:
    """Return the p-values (c,) of columns: of continuous ones exact, of others by permutations.

    Permutations of the rows are drawn until 20 are as far apart, or 9999 are drawn: then p is valid
    [1]_. All columns see the same ones.

    References
    ----------
    .. [1] Besag and Clifford, "Sequential Monte Carlo p-values", Biometrika 78, 1991.
    """
    p = np.ones(len(pairs))
    for k, one in enumerate(pairs):
        if one.is_continuous:
            p[k] = one.exact_p_value()
    left = {k: 0 for k, one in enumerate(pairs) if not one.is_continuous and one.n_codes > 1}
    rng, drawn = np.random.RandomState(0), 0
    while left and drawn < _PERMUTATIONS:
        size = min(_BATCH, _PERMUTATIONS - drawn)
        first = pairs[next(iter(left))]
        is_now = (np.arange(len(first.codes)) >= first.n_then).astype(np.float64)
        moved = np.stack([rng.permutation(is_now) for _ in range(size)])
        for k, before in list(left.items()):
            far = pairs[k].distances(moved) >= pairs[k].statistic - _TOL
            counts = before + np.cumsum(far)
            if counts[-1] >= _ENOUGH:
                p[k] = _ENOUGH / (drawn + int(np.argmax(counts >= _ENOUGH)) + 1)
                del left[k]
            else:
                left[k] = int(counts[-1])
        drawn += size
    for k, count in left.items():
        p[k] = (count + 1) / (drawn + 1)
    return p


def holm(p: np.ndarray, /) -> np.ndarray:
    """Return p-values (c,) adjusted for their number by Holm's method."""
    order = np.argsort(p, kind="stable")
    times = np.arange(len(p), 0, -1)
    found = np.empty(len(p))
    found[order] = np.minimum(np.maximum.accumulate(times * p[order]), 1.0)
    return found


# ------------------------------------------------------------------------------- in words


def _changes(
    then: ColumnSample, now: ColumnSample, missing: tuple[float, float], known: Sequence[str]
) -> list[str]:
    said = []
    if then.sort == LEVEL:
        new = [one for one in now.levels if one not in {*then.levels, *known}]
        said += [f"new levels: {listed(new, _NEW_LEVELS)}"] if new else []
        moved = _largest_change(then, now)
        said += [moved] if moved else []
    else:
        middles = [_middle(one) for one in (then, now)]
        if all(middles):
            said.append(f"median {middles[0]} then, {middles[1]} now")
    if abs(missing[1] - missing[0]) >= _FEWEST_SHARE:
        said.append(f"missing {missing[0]:.1%} then, {missing[1]:.1%} now")
    return said


def _middle(sample: ColumnSample) -> str:
    values = sample.values[~np.isnan(sample.values)]
    if not len(values):
        return ""
    middle = float(np.median(values))
    if sample.sort == NUMBER:
        return f"{middle:.4g}"
    assert sample.sort == DATE
    return str(np.datetime64(0, "D") + np.timedelta64(int(np.floor(middle)), "D"))


def _largest_change(then: ColumnSample, now: ColumnSample) -> str:
    """Return the shares of the level that changed most, in words."""
    shares = [_shares(one) for one in (then, now)]
    every = {**shares[0], **shares[1]}
    if not every:
        return ""
    most = max(sorted(every), key=lambda one: abs(shares[1].get(one, 0) - shares[0].get(one, 0)))
    return f"{most} {shares[0].get(most, 0.0):.1%} then, {shares[1].get(most, 0.0):.1%} now"


def _shares(sample: ColumnSample) -> dict[str, float]:
    known = sample.values[~np.isnan(sample.values)].astype(np.int64)
    counts = np.bincount(known, minlength=len(sample.levels)) / max(len(sample.values), 1)
    return dict(zip(sample.levels, counts.tolist(), strict=True))
