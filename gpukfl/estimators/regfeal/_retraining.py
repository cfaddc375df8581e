"""What predicts from the directions that RegFeaL learned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.utils.validation import has_fit_parameter

from gpukfl._array import Array, array_namespace, beside, double_like, like, to_host
from gpukfl._rows import Rows
from gpukfl.estimators._data import Data, dtype_for, mover, some_rows
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import take
from gpukfl.estimators._validation import check_finite_result
from gpukfl.kernels import Gaussian, Kernel, median_distance
from gpukfl.methods import KernelRidge, KernelRidgeFit, derivative_weights
from gpukfl.operators import KernelOperator

_EXACT, _MANY = 5_000, 100_000  # rows up to which all, or many, are centres
_CENTERS, _FEW_CENTERS = 2_000, 1_000
_WORKS = 2  # as long as the last regression may take
LEAST = 1e-3  # weight of a direction that a kernel still sees


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


HERMITE = Coordinates(0)  # none: the Hermite features predict


class Retraining:
    """Kernel ridge regression, or another regressor, on the coordinates along some directions.

    The other base learns the directions; where nothing is retrained its own function predicts.
    """

    retrain: Any
    coef_: Array
    R_: Array
    eta_: Array
    sparsity_exponent: float
    _offset: Any
    retrain_components_: Any
    centers_: Any
    dual_coef_: Any
    _y_scale: Any
    _y_mean: Any

    def _check_retrain(self) -> None:
        value = self.retrain
        named = isinstance(value, str) and value == "kernel_ridge"
        if not (
            value is None or named or (isinstance(value, BaseEstimator) and is_regressor(value))
        ):
            msg = f"expected retrain to be 'kernel_ridge', None or a regressor, got {value!r}"
            raise ValueError(msg)

    def _check_retrain_weights(self, weights: np.ndarray | None) -> None:
        own = self.retrain is None or isinstance(self.retrain, str)
        if weights is not None and not own and not has_fit_parameter(self.retrain, "sample_weight"):
            name = type(self.retrain).__name__
            msg = f"expected a regressor that takes sample_weight for retrain, got {name}"
            raise ValueError(msg)

    def _no_retraining(self) -> None:
        """Leave the predictions to the Hermite features."""
        self.retrain_components_ = None
        self.kernel_: Kernel | None = None
        self.retrained_, self.centers_, self.dual_coef_ = None, None, None
        self._offset, self._y_scale, self._y_mean = None, None, None

    def _retrain(
        self,
        data: Data,
        weights: np.ndarray | None,
        X: Array,
        coordinates: Coordinates,
        run: Run,
    ) -> None:
        """Fit the regressor."""
        R, eta = to_host(self.R_).astype(np.float64), to_host(self.eta_)
        directions = coordinates.of(R, eta, self.sparsity_exponent)
        xp = array_namespace(data.reference)
        Z = project(data.rows, xp.asarray(directions, **double_like(data.reference)))
        if self.retrain == "kernel_ridge":
            self._retrain_kernel_ridge(data, weights, X, Z, run)
        else:
            Y = to_host(data.Y).astype(np.float64)
            given = {} if weights is None else {"sample_weight": weights}
            one = Y.shape[1] == 1
            self.retrained_ = clone(self.retrain).fit(to_host(Z), Y[:, 0] if one else Y, **given)
            self._y_scale, self._y_mean = to_host(data.y_scale), to_host(data.y_mean)
        self.retrain_components_ = beside(directions, self.coef_)

    def _retrain_kernel_ridge(
        self, data: Data, weights: np.ndarray | None, X: Array, Z: Array, run: Run
    ) -> None:
        xp = array_namespace(data.reference)
        Y = xp.astype(data.Y, xp.float64)

        def solve(q: int) -> KernelRidgeFit:
            return kernel_ridge(Z, Y, weights, centers=q)

        fit = solve(run.affordable(_centers(Y.shape[0]), solve, times=_WORKS))
        back = mover(X, dtype_for(self, X))
        with np.errstate(over="ignore"):
            dual, offset = back(fit.alpha * data.y_scale[None, :]), back(data.y_mean)
        check_finite_result(dual, offset)
        self.dual_coef_, self._offset = dual, offset
        self.kernel_, self.centers_ = fit.kernel, back(fit.Z)

    @property
    def _is_retrained(self) -> bool:
        return self.kernel_ is not None or self.retrained_ is not None

    def _evaluate_retrained(self, rows: Rows) -> Array:
        """Predictions at standardised rows: (n, t)."""
        Z = project(rows, self.retrain_components_)
        if self.kernel_ is not None:
            xp = array_namespace(self.coef_)
            here = Rows(Z, xp.empty((0,), **like(self.coef_)))
            return (
                self._offset + KernelOperator(self.kernel_, here, self.centers_) @ self.dual_coef_
            )
        assert self.retrained_ is not None
        predicted = np.asarray(self.retrained_.predict(to_host(Z).astype(np.float64)))
        predicted = predicted.reshape(len(predicted), -1) * self._y_scale + self._y_mean
        return beside(predicted, self.coef_)

    def _last_text(self) -> str:
        """Say what predicts."""
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


def kernel_ridge(
    Z: Array,
    Y: Array,
    weights: np.ndarray | None,
    /,
    *,
    centers: int,
    few: int | None = None,
) -> KernelRidgeFit:
    """Fit kernel ridge regression with `centers` Nyström centres; to fewer rows, exactly.

    The ridge is chosen with `few` centres, where rows are more than twice as many.
    """
    rng = np.random.RandomState(0)
    index = some_rows(Y.shape[0], rng)
    lengthscale = median_distance(
        take(Z, index), weights=None if weights is None else weights[index]
    )
    n_centers = None if Y.shape[0] <= centers else centers
    method = KernelRidge(Gaussian(lengthscale), n_centers=n_centers, cautious=True)
    given = Rows(Z, Z[:0, 0]), Y, None if weights is None else beside(weights[:, None], Z), rng
    if few is not None and Y.shape[0] > 2 * few:
        method = replace(method, ridge=replace(method, n_centers=few).fit(*given).ridge)
    return method.fit(*given)


def _centers(n: int) -> int:
    if n <= _EXACT:
        return _EXACT
    return _CENTERS if n <= _MANY else _FEW_CENTERS


def project(rows: Rows, components: Array, /) -> Array:
    """Coordinates of rows along `components` (s, d): (n, s), in the precision of these."""
    xp = array_namespace(components)
    parts = [xp.astype(X, components.dtype) @ components.T for _, _, X in rows.blocks()]
    return xp.concat(parts, axis=0)
