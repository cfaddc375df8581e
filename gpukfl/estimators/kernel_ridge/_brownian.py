"""Kernel ridge regression with the multi-dimensional Brownian kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from gpukfl._array import Array, array_namespace, library_of, like
from gpukfl._places import resolve_place
from gpukfl._results import Status
from gpukfl._rows import Rows
from gpukfl._warnings import warn
from gpukfl.estimators._base import ArrayRegressor, HostPickled
from gpukfl.estimators._data import (
    dtype_for,
    mover,
    placed_root_weights,
    scaled_rows,
)
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.estimators._validation import (
    check_finite_result,
    check_number,
    check_overflow,
    check_place,
    check_switch,
    validate_samples,
)
from gpukfl.estimators.kernel_ridge._description import describe_brownian
from gpukfl.inspection import Description, Names
from gpukfl.kernels import Brownian
from gpukfl.methods import RidgeSystem, paper_ridge
from gpukfl.operators import KernelMatrix, KernelOperator


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
    standardize : bool, default=True
        Centre the features and scale them to unit variance first.
        Values far beyond all others of their column have no part in this, see `limits_`.

    Attributes
    ----------
    X_fit_ : array of shape (n_samples, n_features)
        Samples of positive weight, as the kernel sees them.
    mean_, scale_ : array of shape (n_features,) or None
        What `standardize` subtracted and divided by.
    limits_ : array of shape (4, n_features) or None
        Lowest value of each feature that is taken as it is, the 1 % and the 99 % quantile, which
        take the place of values below and above, and the highest.
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

    _unit_free = True  # the ridge takes it up

    def __init__(
        self,
        ridge: float | str = "auto",
        *,
        random_state: Any = None,
        backend: str = "auto",
        dtype: str = "auto",
        standardize: bool = True,
    ) -> None:
        self.ridge = ridge
        self.random_state = random_state
        self.backend = backend
        self.dtype = dtype
        self.standardize = standardize

    def _check_parameters(self) -> None:
        check_number("ridge", self.ridge, low=0, low_allowed=False, also=("auto",))
        check_place(self)
        check_switch("standardize", self.standardize)

    def _fit(self, samples: Samples, run: Run) -> None:
        """Fit every target in its own units."""
        X, dtype = samples.X, dtype_for(self, samples.X)
        place = resolve_place(self.backend, X, dtype=dtype, work=len(samples) ** 2)
        with np.errstate(over="ignore"):  # found by check_overflow
            targets = place.put(samples.Y)
            scaled = scaled_rows(self, samples, place.reference)
            Z = scaled.whole()
        rows = Rows(Z, place.reference)
        check_overflow(rows, targets)
        s, n_effective = placed_root_weights(samples, place.reference), samples.n_effective
        ridge = paper_ridge(rows, n_effective) if self.ridge == "auto" else float(self.ridge)
        system = RidgeSystem(targets, ridge or 1.0 / n_effective, s, rng=run.rng)
        kernel = KernelMatrix(Brownian(), Z)
        solution = system.solve(kernel, rtol=system.tight())
        alpha = system.coefficients(solution.x)
        intercept = system.intercept(kernel @ alpha)
        check_finite_result(alpha, intercept)
        back = mover(X, dtype)
        self.X_fit_, self.dual_coef_ = back(Z), back(alpha)
        self.intercept_ = back(intercept)
        self._keep_scaling(scaled, X)
        self.ridge_ = system.ridge
        self.solve_residual_ = system.relative_residual(solution.residual)
        self._library = library_of(X)
        if solution.status is not Status.CONVERGED:
            msg = f"relative residual {self.solve_residual_:.1e}: {solution.status.value}"
            warn(msg, ConvergenceWarning)

    def _describe(self, names: Names, /) -> Description:
        return describe_brownian(self, names)

    def _predict(self, X: Any, method: str) -> Array:
        """Fitted functions at `X`: (n, t)."""
        check_is_fitted(self)
        X = validate_samples(self, X, reset=False, method=method)
        xp = array_namespace(self.X_fit_)
        reference = xp.empty((0,), **like(self.X_fit_))
        rows = Rows(X, reference, self.mean_, self.scale_, self.limits_)
        operator = KernelOperator(Brownian(), rows, self.X_fit_)
        return xp.astype(self.intercept_ + operator @ self.dual_coef_, X.dtype)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags
