"""Kernel ridge regression with the multi-dimensional Brownian kernel."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from gpukfl._array import Array, array_namespace, as_columns, beside, library_of
from gpukfl._places import BACKENDS, resolve_place
from gpukfl._results import Status
from gpukfl._rows import Rows
from gpukfl.estimators._base import ArrayRegressor, HostPickled, unchanged_on_error
from gpukfl.estimators._data import dtype_for, mover
from gpukfl.estimators._validation import (
    check_choice,
    check_finite_result,
    check_number,
    check_overflow,
    validate_samples,
    validate_targets,
    validate_weights,
)
from gpukfl.kernels import Brownian
from gpukfl.methods import RidgeSystem, paper_ridge
from gpukfl.operators import KernelMatrix


class BrownianKernelRidge(ArrayRegressor, HostPickled):
    r"""Kernel ridge regression with the kernel :math:`(\|x\| + \|x'\| - \|x - x'\|)/2`.

    The peer of BKerNN that learns no features. The intercept is not penalised.

    Parameters
    ----------
    ridge : float or "auto", default="auto"
        λ, positive; "auto" is the paper's max‖x‖/n.
    random_state : int, RandomState or None, default=None
        Draws the preconditioner's sketch.
    backend : {"auto", "numpy", "cupy", "torch"}, default="auto"
        Where to compute.
    dtype : {"auto", "float32", "float64"}, default="auto"
        Precision; "auto" keeps float32.

    Attributes
    ----------
    X_fit_ : array of shape (n_samples, n_features)
        Samples of positive weight.
    dual_coef_ : array of shape (n_samples, n_targets)
        α.
    intercept_ : array of shape (n_targets,)
        c.
    ridge_ : float
        λ used.
    solve_residual_ : float
        Relative residual of the linear solve.

    Notes
    -----
    O(n² d) time for each iteration of preconditioned conjugate gradients and a block of rows in
    memory; a dense factor up to 600 samples.

    References
    ----------
    .. [1] Follain and Bach, arXiv:2407.17280, Section 5.1.

    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl import BrownianKernelRidge
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> bool(BrownianKernelRidge(ridge=1e-4).fit(X, X[:, 0]).score(X, X[:, 0]) > 0.99)
    True
    """

    def __init__(
        self,
        ridge: float | str = "auto",
        *,
        random_state: Any = None,
        backend: str = "auto",
        dtype: str = "auto",
    ) -> None:
        self.ridge = ridge
        self.random_state = random_state
        self.backend = backend
        self.dtype = dtype

    @unchanged_on_error
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BrownianKernelRidge:
        """Fit to one or many targets.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Finite real data.
        y : array of shape (n_samples,) or (n_samples, n_targets)
            Finite real targets.
        sample_weight : array of shape (n_samples,), optional
            Weights, at least 0.

        Returns
        -------
        BrownianKernelRidge
            Itself.

        Raises
        ------
        TypeError, ValueError
            If the data or a parameter is not as described; the model is left as it was.
        RuntimeError
            If the backend is not available.
        """
        check_number("ridge", self.ridge, low=0, low_allowed=False, also=("auto",))
        check_choice("backend", self.backend, BACKENDS)
        check_choice("dtype", self.dtype, ("auto", "float32", "float64"))
        X = validate_samples(self, X, reset=True, min_samples=2)
        y = validate_targets(y, X)
        weights = validate_weights(sample_weight, X)
        dtype = dtype_for(self, X)
        place = resolve_place(self.backend, X, dtype=dtype, work=X.shape[0] ** 2)
        with np.errstate(over="ignore"):  # found by check_overflow
            Z, Y = place.put(X), place.put(as_columns(y))
        check_overflow(Rows(Z, place.reference), Y)
        s = None
        if weights is not None:
            keep = place.xp.asarray(np.flatnonzero(weights), device=place.device)
            Z, Y = place.xp.take(Z, keep, axis=0), place.xp.take(Y, keep, axis=0)
            s = beside(np.sqrt(weights[weights > 0])[:, None], place.reference)
        rows = Rows(Z, place.reference)
        n_effective = float(Z.shape[0]) if weights is None else float(weights.sum())
        ridge = paper_ridge(rows, n_effective) if self.ridge == "auto" else float(self.ridge)
        rng = check_random_state(self.random_state)
        system = RidgeSystem(Y, ridge or 1.0 / n_effective, s, rng=rng)
        kernel = KernelMatrix(Brownian(), Z)
        solution = system.solve(kernel, rtol=system.tight())
        alpha = system.coefficients(solution.x)
        intercept = system.intercept(kernel @ alpha)
        check_finite_result(alpha, intercept)
        back = mover(X, dtype)
        self.X_fit_, self.dual_coef_ = back(Z), back(alpha)
        self.intercept_ = back(intercept)
        self.ridge_ = system.ridge
        self.solve_residual_ = system.relative_residual(solution.residual)
        self._library, self._one_target = library_of(X), y.ndim == 1
        if solution.status is not Status.CONVERGED:
            msg = f"relative residual {self.solve_residual_:.1e}: {solution.status.value}"
            warnings.warn(msg, ConvergenceWarning, stacklevel=2)
        return self

    def predict(self, X: Any) -> Array:
        """Predict the targets.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_targets)
            Predictions, of the library, device and dtype of X.
        """
        check_is_fitted(self)
        X = validate_samples(self, X, reset=False, method="predict")
        xp = array_namespace(self.X_fit_)
        Z = xp.asarray(X, dtype=self.X_fit_.dtype)
        kernel = KernelMatrix(Brownian(), self.X_fit_)
        predictions = self.intercept_ + kernel.between(Z) @ self.dual_coef_
        predictions = xp.astype(predictions, X.dtype)
        return predictions[:, 0] if self._one_target else predictions

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.array_api_support = True
        return tags
