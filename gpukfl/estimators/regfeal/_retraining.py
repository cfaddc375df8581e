"""What a fitted RegFeaL is, and what predicts from the directions that it learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.utils.validation import has_fit_parameter

from gpukfl.core._array import (
    Array,
    array_namespace,
    asarray_like,
    concat_rows,
    reference_like,
    take_rows,
    to_double,
    to_host,
)
from gpukfl.estimators._data import Data, draw_rows, rescale_dual_coefficients
from gpukfl.estimators._declared import (
    DOUBLE,
    FLOAT,
    Declared,
    Int,
    NoneValue,
    Number,
    Numbers,
    Record,
    Rule,
    Text,
    all_or_none,
)
from gpukfl.estimators._run import Run
from gpukfl.estimators._validation import check_finite_result
from gpukfl.kernels import Gaussian, Kernel, median_distance
from gpukfl.methods import LARGEST_DEGREE, KernelRidge, KernelRidgeFit, derivative_weights
from gpukfl.partitioned._rows import Rows, map_rows

# ------------------------------------------------------------------------------ attributes

# What a fitted RegFeaL is: attributes, and what their values must be.


TRIED: dict[str, Declared] = {
    "degree_decay": Number(optional=True),
    "max_degree": Int(optional=True),
    "strength": Number(),
    "prediction": Text(),
}

ATTRIBUTES: dict[str, Declared] = {
    "R_": Numbers(FLOAT, ("n_features", "n_features")),
    "_rotation": Numbers(DOUBLE, ("n_features", "n_features")),
    "eta_": Numbers(DOUBLE, ("n_features",)),
    "importances_": Numbers(DOUBLE, ("n_features",)),
    "eta_path_": Numbers(DOUBLE, ("n_updates", "n_features")),
    "multi_indices_": Numbers("i", ("n_tuples", "n_features")),
    "feature_matrix_": Numbers(FLOAT, ("n_features", "n_features")),
    "coef_": Numbers(FLOAT, ("n_tuples", "n_targets")),
    "degree_decay_": Number(optional=True),
    "max_degree_": Int(optional=True),
    "strength_": Number(),
    "ridge_": Number(),
}

OF_RETRAINING: dict[str, Declared] = {
    "retrain_components_": Numbers(FLOAT, ("n_directions", "n_features"), optional=True),
    "kernel_": Record(Kernel, optional=True),
    "centers_": Numbers(FLOAT, ("n_centers", "n_directions"), optional=True),
    "dual_coef_": Numbers(DOUBLE, ("n_centers", "n_targets"), optional=True),
    "_offset": Numbers(FLOAT, ("n_targets",), optional=True),
    # Of a regressor of another library, which a file cannot hold
    "retrained_": NoneValue(),
    "_y_scale": NoneValue(),
    "_y_mean": NoneValue(),
}


def _has_valid_degrees(e: Any) -> bool:
    tuples = e.multi_indices_
    return (e.degree_decay_ is None) != (e.max_degree_ is None) and bool(
        np.all((tuples >= 0) & (tuples <= LARGEST_DEGREE))
    )


RULES: dict[str, Rule] = {"degrees of a law": _has_valid_degrees}
RULES_OF_RETRAINING: dict[str, Rule] = {
    "all of a retrained model": all_or_none(
        "kernel_", "centers_", "dual_coef_", "retrain_components_", "_offset"
    )
}


# ------------------------------------------------------------------------------ retraining

# What predicts from the directions that RegFeaL learned.


_EXACT, _MANY = 5_000, 100_000  # rows up to which all, or many, are centres
_CENTERS, _FEW_CENTERS = 2_000, 1_000
_WORKS = 2  # as long as the last regression may take
LEAST = 1e-3  # weight of a direction that a kernel still sees
_SHORT = 0.1  # of the longest column: half of what makes a direction


@dataclass(frozen=True)
class Coordinates:
    """What is retrained on: the leading directions, or all of them with weights.

    Weights let a kernel see little of directions that matter little, where there are many.
    """

    number: int | None = None  # of leading directions, at least 1; None: all
    power: float = 0.0  # of the squared derivatives, as weights

    def of(self, R: np.ndarray, eta: np.ndarray, exponent: float) -> np.ndarray:
        """Rows (s, d) on which data are projected, for host R (d, d) and η (d,)."""
        if self.number is not None:  # R is orthogonal: its columns are the directions
            return R.T[np.argsort(-eta, kind="stable")[: self.number]]
        weights = derivative_weights(eta, exponent, self.power)
        return (R * weights).T[weights >= LEAST]

    @property
    def described(self) -> str:
        """What is retrained on, in words."""
        if self.number is None:
            return f"directions, weighted to the power {self.power:g}"
        return f"{self.number} direction" + ("" if self.number == 1 else "s")


def leading_columns(W: np.ndarray, /) -> np.ndarray:
    """Return the columns of host W (d, m) among which its directions are, as all are orthogonal.

    Where features are many, a decomposition of all of them takes longer than all of the fit.
    """
    lengths = np.linalg.norm(W, axis=0)
    return W[:, lengths >= _SHORT * lengths.max()] if lengths.any() else W[:, :1]


@dataclass(frozen=True, eq=False)
class Retrained:
    """What predicts from coordinates: kernel ridge regression, or another regressor."""

    directions: np.ndarray  # (s, d), on which data are projected
    fit: KernelRidgeFit | None = None
    regressor: Any = None


def check_retrain(value: Any, /) -> None:
    """Raise ValueError unless this is something to retrain."""
    named = isinstance(value, str) and value == "kernel_ridge"
    if not (value is None or named or (isinstance(value, BaseEstimator) and is_regressor(value))):
        msg = f"expected retrain to be 'kernel_ridge', None or a regressor, got {value!r}"
        raise ValueError(msg)


def check_retrain_in_parts(value: Any, /) -> None:
    """Raise ValueError if this, to be retrained, needs all rows in one place."""
    if not (value is None or isinstance(value, str)):
        msg = (
            "expected retrain to be 'kernel_ridge' or None for rows that lie in parts, got "
            f"{type(value).__name__}, which takes all of them in one place"
        )
        raise ValueError(msg)


def check_retrain_weights(value: Any, /) -> None:
    """Raise ValueError if this, to be retrained, takes no weights."""
    own = value is None or isinstance(value, str)
    if not own and not has_fit_parameter(value, "sample_weight"):
        msg = (
            f"expected a regressor that takes sample_weight for retrain, got {type(value).__name__}"
        )
        raise ValueError(msg)


def fit_retrained(
    rows: Rows, regressor: Any, Y: Array, weights: Array | None, run: Run, /
) -> tuple[KernelRidgeFit | None, Any]:
    """Fit kernel ridge regression, or a copy of the regressor, to coordinates: one of them."""
    if regressor == "kernel_ridge":
        Y = to_double(Y)

        def solve(q: int) -> KernelRidgeFit:
            return fit_kernel_ridge(rows, Y, weights, centers=q)

        return solve(run.affordable(_n_centers(Y.shape[0]), solve, times=_WORKS)), None
    Y = to_host(Y).astype(np.float64)
    given = {} if weights is None else {"sample_weight": weights}
    y = Y[:, 0] if Y.shape[1] == 1 else Y
    return None, clone(regressor).fit(to_host(rows.whole()), y, **given)


class Retraining:
    """Predictions from the coordinates along some directions.

    The other base learns the directions; where nothing is retrained its own function predicts.
    """

    _attributes: ClassVar[dict[str, Declared]] = OF_RETRAINING
    _rules: ClassVar[dict[str, Rule]] = RULES_OF_RETRAINING
    coef_: Array
    _offset: Any
    retrain_components_: Any
    centers_: Any
    dual_coef_: Any
    _y_scale: Any
    _y_mean: Any
    _inside: Callable[[Array], Array]

    def _keep_retrained(
        self, found: Retrained | None, data: Data, back: Callable[[Array], Array]
    ) -> None:
        """Set what predicts; nothing, where the Hermite features do."""
        self.retrain_components_ = None
        self.kernel_: Kernel | None = None
        self.retrained_, self.centers_, self.dual_coef_ = None, None, None
        self._offset, self._y_scale, self._y_mean = None, None, None
        if found is None:
            return
        self.retrain_components_ = asarray_like(found.directions, self.coef_)
        if found.fit is None:
            self.retrained_ = found.regressor
            self._y_scale, self._y_mean = to_host(data.y_scale), to_host(data.y_mean)
            return
        fit = found.fit
        self._offset = offset = back(data.y_mean)
        self.dual_coef_ = rescale_dual_coefficients(fit.alpha, data, offset)
        check_finite_result(back(self.dual_coef_), offset)
        self.kernel_, self.centers_ = fit.kernel, back(fit.Z)

    @property
    def _is_retrained(self) -> bool:
        return self.kernel_ is not None or self.retrained_ is not None

    def _predict_by_regressor(self, rows: Rows) -> Array:
        """Predictions of the regressor that was given, at scaled rows: (n, t)."""
        assert self.retrained_ is not None
        Z = project_rows(rows, self.retrain_components_).whole()
        predicted = np.asarray(self.retrained_.predict(to_host(Z).astype(np.float64)))
        predicted = predicted.reshape(len(predicted), -1) * self._y_scale + self._y_mean
        return asarray_like(predicted, self.coef_)

    def _last_text(self) -> str:
        """Return in words what predicts."""
        if not self._is_retrained:
            return "Hermite features"
        model = self.retrained_ if self.kernel_ is None else self.kernel_
        suffix = "" if self.kernel_ is None else " kernel ridge"
        components = to_host(self.retrain_components_)
        plural = "" if len(components) == 1 else "s"
        norms = np.linalg.norm(components, axis=1)
        weighted = "" if np.allclose(norms, 1.0, atol=1e-3) else "weighted "
        what = f"{len(components)} {weighted}direction{plural}"
        return f"{type(model).__name__}{suffix} on {what}"


def fit_kernel_ridge(
    rows: Rows,
    Y: Array,
    weights: Array | None,
    /,
    *,
    centers: int,
    few: int | None = None,
) -> KernelRidgeFit:
    """Fit kernel ridge regression with `centers` Nyström centres; to fewer rows, exactly.

    The ridge is chosen with `few` centres, where rows are more than twice as many.
    """
    rng = np.random.RandomState(0)
    index = draw_rows(Y.shape[0], rng)
    lengthscale = median_distance(
        rows.at(index), weights=None if weights is None else to_host(take_rows(weights, index))
    )
    n_centers = None if Y.shape[0] <= centers else centers
    method = KernelRidge(Gaussian(lengthscale), n_centers=n_centers, cautious=True)
    placed = None if weights is None else asarray_like(weights[:, None], rows.reference)
    given = rows, Y, placed, rng
    if few is not None and Y.shape[0] > 2 * few:
        method = replace(method, ridge=replace(method, n_centers=few).fit(*given).ridge)
    return method.fit(*given)


def _n_centers(n: int) -> int:
    if n <= _EXACT:
        return _EXACT
    return _CENTERS if n <= _MANY else _FEW_CENTERS


def project_rows(rows: Rows, components: Array, /) -> Rows:
    """Coordinates of rows along `components` (s, d): (n, s), in the precision of these."""
    xp, dtype = array_namespace(components), components.dtype

    def part(start: int, stop: int) -> Array:
        blocks = rows.blocks(start=start, stop=stop)
        return concat_rows([xp.astype(X, dtype, copy=False) @ components.T for _, _, X in blocks])

    Z = map_rows(rows.source, part, columns=components.shape[:1], dtype=dtype)
    return Rows(Z, reference_like(components))
