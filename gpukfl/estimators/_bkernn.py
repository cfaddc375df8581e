"""BKerNN as scikit-learn estimators."""

from __future__ import annotations

import math
import numbers
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from gpukfl._array import (
    Array,
    array_namespace,
    as_columns,
    beside,
    double_like,
    is_array,
    library_of,
    like,
    to_host,
)
from gpukfl._memory import available_memory
from gpukfl._places import BACKENDS, Place, resolve_place
from gpukfl._results import History, Status
from gpukfl._rows import Rows
from gpukfl.estimators._base import HostPickled, unchanged_on_error
from gpukfl.estimators._validation import (
    check_choice,
    check_finite_result,
    check_number,
    check_overflow,
    check_switch,
    column_statistics,
    validate_labels,
    validate_samples,
    validate_targets,
    validate_weights,
    weighted_mean_scale,
)
from gpukfl.inspection import effective_rank, leading_directions
from gpukfl.linalg import MAX_KNOTS
from gpukfl.methods import BKerNNFit, RidgeSystem, ShapeFunctions, fit_bkernn, paper_ridge
from gpukfl.operators import (
    BinnedBrownianKernel,
    BrownianKernel,
    CenteredKernel,
    center,
)
from gpukfl.penalties import PENALTIES, make_penalty
from gpukfl.solvers import ProximalGradient

_QUIET = (Status.CONVERGED, Status.EARLY_STOPPED)
_PATIENCE = 5  # iterations without a better validation score before early stopping
_AUTO_KNOTS = 4096
_EXACT_BYTES = 48  # per projection: two operators sorted at once, and a preconditioner
_EXACT_UP_TO = 200_000_000  # projections; beyond, the binned form saves the sorts
_PROBE_ROWS = 100_000  # sample on which the binned form's error is estimated
_THIN_FROM = 2_000_000  # knots in all from which shape functions are thinned by default
_THIN_TO = 1e-4  # standard deviations of the fit


class _BKerNN(TransformerMixin, HostPickled):
    """The common part: parameters, the fit, and everything but what a target means."""

    def __init__(
        self,
        n_particles: int | str = "auto",
        *,
        penalty: str = "concave_feature",
        concavity: float = 1.0,
        ridge: float | str = "auto",
        penalty_strength: float = 1.0,
        max_iter: int = 200,
        tol: float = 3e-4,
        step_size: float | str = "auto",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        max_time: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        backend: str = "auto",
        dtype: str = "auto",
        knots: int | str | None = "auto",
        knot_tolerance: float | str = "auto",
        normalize_y: bool = True,
        standardize: bool = False,
        verbose: int = 0,
    ) -> None:
        self.n_particles = n_particles
        self.penalty = penalty
        self.concavity = concavity
        self.ridge = ridge
        self.penalty_strength = penalty_strength
        self.max_iter = max_iter
        self.tol = tol
        self.step_size = step_size
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.max_time = max_time
        self.warm_start = warm_start
        self.random_state = random_state
        self.backend = backend
        self.dtype = dtype
        self.knots = knots
        self.knot_tolerance = knot_tolerance
        self.normalize_y = normalize_y
        self.standardize = standardize
        self.verbose = verbose

    # ------------------------------------------------------------------ fitting

    def _check_parameters(self) -> None:
        whole = numbers.Integral
        check_number("n_particles", self.n_particles, kind=whole, low=1, also=("auto",))
        check_choice("penalty", self.penalty, tuple(PENALTIES))
        check_number("concavity", self.concavity, low=0, low_allowed=False)
        check_number("ridge", self.ridge, low=0, low_allowed=False, also=("auto",))
        check_number("penalty_strength", self.penalty_strength, low=0)
        check_number("max_iter", self.max_iter, kind=whole, low=0)
        check_number("tol", self.tol, low=0)
        check_number("step_size", self.step_size, low=0, low_allowed=False, also=("auto",))
        check_number("validation_fraction", self.validation_fraction, low=0, high=0.9)
        check_number("max_time", self.max_time, low=0, low_allowed=False, also=(None,))
        check_choice("backend", self.backend, BACKENDS)
        for switch in ("early_stopping", "warm_start", "normalize_y", "standardize"):
            check_switch(switch, getattr(self, switch))
        check_choice("dtype", self.dtype, ("auto", "float32", "float64"))
        check_number("knots", self.knots, kind=whole, low=2, high=MAX_KNOTS, also=("auto", None))
        check_number("knot_tolerance", self.knot_tolerance, low=0, also=("auto",))

    def _fit(self, X: Array, Y: Array, sample_weight: Any, *, scale_each: bool) -> None:
        """Fit the columns of `Y` (n, t) and set every attribute; nothing is set on an error."""
        weights = validate_weights(sample_weight, X)
        if weights is not None and np.any(weights == 0):
            rows = np.flatnonzero(weights)
            X, Y, weights = _take(X, rows), _take(Y, rows), weights[rows]
        rng = check_random_state(self.random_state)
        X, Y, weights, held_out = self._split(X, Y, weights, rng)
        n, d = X.shape
        m = max(50, min(2 * d, 200)) if self.n_particles == "auto" else int(self.n_particles)
        place = resolve_place(self.backend, X, dtype=self._dtype_for(X), work=n * m)
        problem = _Problem(self, X, Y, weights, place, m, rng, scale_each=scale_each)
        fit = problem.fit(held_out, getattr(self, "_watch", None))
        self._keep(problem, fit, X)

    def _dtype_for(self, X: Array) -> str:
        if self.dtype != "auto":
            return self.dtype
        return "float32" if X.dtype == array_namespace(X).float32 else "float64"

    def _split(
        self, X: Array, Y: Array, weights: np.ndarray | None, rng: np.random.RandomState
    ) -> tuple[Array, Array, np.ndarray | None, tuple[Array, Array] | None]:
        if not self.early_stopping:
            return X, Y, weights, None
        n = X.shape[0]
        n_out = max(1, round(self.validation_fraction * n))
        if n - n_out < 2:
            msg = (
                f"expected early stopping to leave at least 2 samples to fit, got {n} samples and "
                f"validation_fraction={self.validation_fraction}"
            )
            raise ValueError(msg)
        if isinstance(X, np.memmap):  # the last rows, because a shuffled split would copy them
            order = np.arange(n)
            X_in, X_out = X[: n - n_out], np.asarray(X[n - n_out :])
        else:
            order = rng.permutation(n)
            X_in, X_out = _take(X, order[: n - n_out]), _take(X, order[n - n_out :])
        inside, outside = order[: n - n_out], order[n - n_out :]
        weights = None if weights is None else weights[inside]
        return X_in, _take(Y, inside), weights, (X_out, _take(Y, outside))

    def _keep(self, problem: _Problem, fit: BKerNNFit, X: Array) -> None:
        xp = array_namespace(problem.reference)
        back = _mover(X, self._dtype_for(X))
        shapes = problem.shapes(fit)
        scale, mean = problem.y_scale, problem.y_mean
        with np.errstate(over="ignore"):
            intercept = back(xp.astype(fit.intercept, xp.float64) * scale + mean)
            dual_coef = back(xp.astype(fit.alpha, xp.float64) * scale[None, :])
            values = back(shapes.values * scale[None, None, :])
        check_finite_result(intercept, dual_coef, values)
        self.W_ = back(fit.W)
        self.mean_, self.scale_ = problem.rows.shift, problem.rows.scale
        self.intercept_, self.dual_coef_ = intercept, dual_coef
        self.shape_functions_ = ShapeFunctions(back(shapes.knots), values)
        m = fit.W.shape[1]
        self.feature_matrix_ = self.W_ @ self.W_.T / m
        norms = np.linalg.norm(to_host(fit.W).astype(np.float64), axis=1)
        importances = norms / norms.sum() if norms.sum() > 0 else norms
        self.feature_importances_ = beside(importances, self.W_)
        directions = leading_directions(to_host(fit.W), effective_rank(to_host(fit.W)))
        self.components_ = beside(directions, self.W_)
        self.n_effective_features_ = len(directions)
        self.ridge_ = problem.system.ridge
        self.n_knots_ = problem.n_knots
        self.knots_error_ = problem.knots_error(fit)
        self.history_ = fit.history
        self.n_iter_ = len(fit.history)
        self.status_ = fit.status.name
        self.solve_residual_ = fit.solve_residual
        self.place_ = f"{library_of(problem.reference)} {problem.reference.device}"
        self._library = library_of(X)
        self._warn(fit)

    def _warn(self, fit: BKerNNFit) -> None:
        if fit.status not in _QUIET:
            msg = f"{type(self).__name__} after {self.n_iter_} iterations: {fit.status.value}"
            warnings.warn(msg, ConvergenceWarning, stacklevel=4)
        if fit.solve_status is not Status.CONVERGED:
            msg = (
                f"the final solve ended with a relative residual of {fit.solve_residual:.1e}: "
                f"{fit.solve_status.value}"
            )
            warnings.warn(msg, ConvergenceWarning, stacklevel=4)

    # ------------------------------------------------------------------ prediction

    def _predict(self, X: Any, method: str) -> Array:
        """Fitted functions at `X`: (n, t)."""
        check_is_fitted(self)
        X = validate_samples(self, X, reset=False, method=method)
        xp = array_namespace(self.W_)
        rows = Rows(X, xp.empty((0,), **like(self.W_)), self.mean_, self.scale_)
        parts = [
            self.intercept_ + self.shape_functions_.mean(self.W_.T @ block.T)
            for _, _, block in rows.blocks(self.W_.shape[1])
        ]
        return xp.astype(xp.concat(parts, axis=0), X.dtype)

    def transform(self, X: Any) -> Array:
        """Project on the learned directions.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.

        Returns
        -------
        array of shape (n_samples, n_effective_features_)
            Coordinates along `components_`, most important first.
        """
        check_is_fitted(self)
        X = validate_samples(self, X, reset=False, method="transform")
        xp = array_namespace(self.components_)
        reference = xp.empty((0,), dtype=X.dtype, device=like(self.components_)["device"])
        rows = Rows(X, reference, self.mean_, self.scale_)
        components = xp.astype(self.components_, X.dtype, copy=False)
        return xp.concat([block @ components.T for _, _, block in rows.blocks()], axis=0)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:  # noqa: ARG002
        """Names of the learned features, for `set_output`."""
        check_is_fitted(self)
        prefix = type(self).__name__.lower()
        return np.asarray([f"{prefix}{k}" for k in range(self.n_effective_features_)], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class _Problem:
    """One data set, placed and scaled: everything a fit needs and its result is read with."""

    def __init__(
        self,
        settings: _BKerNN,
        X: Array,
        Y: Array,
        weights: np.ndarray | None,
        place: Place,
        m: int,
        rng: np.random.RandomState,
        *,
        scale_each: bool,
    ) -> None:
        self.settings, self.m = settings, m
        self.reference = place.reference
        self.rows = Rows(X, self.reference)
        if settings.standardize:
            xp = array_namespace(self.reference)
            wide = Rows(X, xp.empty((0,), **double_like(self.reference)))
            shift, scale = column_statistics(wide, weights)
            self.rows = Rows(X, self.reference, shift, scale)
        xp = array_namespace(self.reference)
        s = None if weights is None else beside(np.sqrt(weights)[:, None], self.reference)
        self.y_mean, spread = weighted_mean_scale(_host_first(Y, place), s)
        if settings.normalize_y:
            joint = xp.sqrt(xp.sum(spread**2)) + xp.zeros_like(spread)
            spread = spread if scale_each else joint
            self.y_scale = xp.where(spread > 0, spread, xp.ones_like(spread))
        else:
            self.y_scale = xp.ones_like(spread)
        Y = (_host_first(Y, place) - self.y_mean) / self.y_scale
        with np.errstate(over="ignore"):  # found by check_overflow
            Y = xp.astype(Y, self.reference.dtype)
        self.constant = not bool(xp.any(xp.abs(center(Y, s)) > 1e-12))
        self.n_knots = self._choose_knots(X)
        self.X = self.rows.whole() if self.n_knots is None else None
        check_overflow(self.rows, Y)
        n_effective = X.shape[0] if weights is None else float(weights.sum())
        ridge = settings.ridge
        if ridge == "auto":
            # Tuning asks for multiples of the formula
            ridge = getattr(settings, "_multiple", 1.0) * paper_ridge(self.rows, n_effective)
        # All rows at the origin: any positive ridge gives the same constant model
        self.system = RidgeSystem(Y, float(ridge) or 1.0 / n_effective, s, rng=rng)
        self.start = self._first_particles(rng)

    def _choose_knots(self, X: Array) -> int | None:
        wanted = self.settings.knots
        if wanted != "auto":
            return None if wanted is None else int(wanted)
        size = X.shape[0] * self.m
        needed = _EXACT_BYTES * size + 8 * X.shape[0] * X.shape[1]
        if needed < available_memory(self.reference) and size <= _EXACT_UP_TO:
            return None
        if self.settings.verbose:
            print(f"knots='auto' chose {_AUTO_KNOTS} knots a particle", file=sys.stderr)
        return _AUTO_KNOTS

    def _first_particles(self, rng: np.random.RandomState) -> Array:
        d = self.rows.shape[1]
        known = getattr(self.settings, "W_", None) if self.settings.warm_start else None
        if known is not None and tuple(known.shape) == (d, self.m) and np.any(to_host(known)):
            return beside(to_host(known), self.reference)
        return beside(rng.normal(0.0, math.sqrt(1.0 / d), (d, self.m)), self.reference)

    def kernel(self, W: Array, /) -> BrownianKernel | BinnedBrownianKernel:
        """Kernel operator at the particles `W`."""
        if self.n_knots is None:
            return BrownianKernel.of(self.X, W)
        return BinnedBrownianKernel.of(self.rows, W, n_knots=self.n_knots)

    def fit(
        self, held_out: tuple[Array, Array] | None, watch: Callable[..., None] | None
    ) -> BKerNNFit:
        """Run the method."""
        settings = self.settings
        penalty = make_penalty(settings.penalty, settings.concavity)
        start, max_iter = self.start, settings.max_iter
        if self.constant:
            warnings.warn(
                "y is constant: the model predicts that constant and learns no features",
                UserWarning,
                stacklevel=5,
            )
            start, max_iter = array_namespace(start).zeros_like(start), 0
        watcher = _Watcher(self, held_out, watch)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "overflow", RuntimeWarning)  # reported as an error
            fit = fit_bkernn(
                self.kernel,
                self.system,
                start,
                penalty=penalty,
                penalty_strength=settings.penalty_strength,
                optimizer=ProximalGradient(
                    settings.step_size, max_iter, settings.tol, settings.max_time
                ),
                watch=watcher,
            )
        return replace(fit, status=Status.CONVERGED) if self.constant else watcher.best(fit)

    def shapes(self, fit: BKerNNFit, /) -> ShapeFunctions:
        """Shape functions, thinned as asked."""
        tolerance = self.settings.knot_tolerance
        knots, values = fit.kernel.curves(fit.alpha)
        if tolerance == "auto":
            tolerance = _THIN_TO if knots.shape[0] * knots.shape[1] > _THIN_FROM else 0.0
        if tolerance == 0:
            return ShapeFunctions(knots, values)
        return ShapeFunctions.thinned(knots, values, float(tolerance))

    def predict(self, fit: BKerNNFit, X: Array, /) -> Array:
        """Predict at `X` (n, d) in the scale of `Y`."""
        return fit.intercept + ShapeFunctions(*fit.kernel.curves(fit.alpha)).mean(fit.W.T @ X.T)

    def knots_error(self, fit: BKerNNFit, /) -> float:
        """Relative error of the binned product with the dual coefficients, on a sample of rows."""
        if self.n_knots is None or self.constant:
            return 0.0
        n = min(self.rows.shape[0], _PROBE_ROWS)
        rows = Rows(self.rows.block(0, n), self.reference)
        v = center(fit.alpha[:n, :])
        xp = array_namespace(v)
        binned = BinnedBrownianKernel.of(rows, fit.W, n_knots=self.n_knots)
        exact = CenteredKernel(BrownianKernel.of(rows.whole(), fit.W)) @ v
        gap = xp.linalg.vector_norm(CenteredKernel(binned) @ v - exact)
        scale = float(xp.linalg.vector_norm(exact))
        return float(gap) / scale if scale > 0 else 0.0


class _Watcher:
    """Early stopping and progress, one call per iteration."""

    def __init__(
        self,
        problem: _Problem,
        held_out: tuple[Array, Array] | None,
        watch: Callable[..., None] | None,
    ) -> None:
        self.problem, self.watch = problem, watch
        self.best_score, self.waited = -math.inf, 0
        self.best_fit: BKerNNFit | None = None
        self.held_out: tuple[Array, Array] | None = None
        if held_out is not None:
            rows = Rows(held_out[0], problem.reference, problem.rows.shift, problem.rows.scale)
            xp = array_namespace(problem.reference)
            Y = beside(
                to_host(held_out[1]).astype(np.float64), xp.astype(problem.reference, xp.float64)
            )
            self.held_out = rows.whole(), (Y - problem.y_mean) / problem.y_scale

    def __call__(
        self, k: int, _: Array, finish: Callable[[], BKerNNFit], history: History
    ) -> Status | None:
        if self.problem.settings.verbose:
            print(
                f"iteration {k + 1:4d}  objective {history.objective[-1]:.6g}  "
                f"step {history.step[-1]:.3g}  {history.seconds[-1]:.1f} s",
                file=sys.stderr,
            )
        if self.watch is not None:
            self.watch(k, history)
        if self.held_out is None:
            return None
        history.validation_score.append(math.nan)  # as long as the other lists, come what may
        fit = finish()
        score = history.validation_score[-1] = self._score(fit, *self.held_out)
        if score > self.best_score:
            self.best_score, self.best_fit, self.waited = score, fit, 0
            return None
        self.waited += 1
        return Status.EARLY_STOPPED if self.waited >= _PATIENCE else None

    def _score(self, fit: BKerNNFit, X: Array, Y: Array) -> float:
        xp = array_namespace(Y)
        left = Y - xp.astype(self.problem.predict(fit, X), xp.float64)
        around = xp.sum((Y - xp.mean(Y, axis=0)) ** 2)
        if float(around) == 0.0:  # nothing to explain, but errors still count
            return -float(xp.sum(left**2))
        return 1.0 - float(xp.sum(left**2)) / float(around)

    def best(self, last: BKerNNFit) -> BKerNNFit:
        """Choose the fit to keep: the best by validation, if there was one."""
        if self.best_fit is None:
            return last
        found = self.best_fit
        return replace(found, status=last.status, history=last.history)


def _take(x: Array, index: np.ndarray) -> Array:
    xp = array_namespace(x)
    if isinstance(x, np.ndarray):
        return x[index]
    on = like(x)["device"]
    return xp.take(x, xp.asarray(index, dtype=xp.int64, device=on), axis=0)


def _host_first(Y: Array, place: Place) -> Array:
    """`Y` on the place in float64, whatever library it comes from."""
    return Place(place.xp, place.device, "float64").put(as_columns(Y))


def _mover(X: Array, dtype: str) -> Callable[[Array], Array]:
    """Move results to the library and device of `X`."""
    xp = array_namespace(X)
    target = xp.empty((0,), dtype=getattr(xp, dtype), device=like(X)["device"])

    def back(x: Array) -> Array:
        if library_of(x) == library_of(target):
            return xp.asarray(x, **like(target))
        return beside(to_host(x), target)

    return back


_PARAMETERS = """
    Parameters
    ----------
    n_particles : int or "auto", default="auto"
        Number of particles m, at least 1; "auto" is twice the features, between 50 and 200.
    penalty : str, default="concave_feature"
        "basic" (few particles), "variable" and "concave_variable" (few variables), "feature" and
        "concave_feature" (few directions).
    concavity : float, default=1.0
        s of the concave penalties, positive.
    ridge : float or "auto", default="auto"
        λ, positive, in units of the kernel (those of X); "auto" is the paper's
        max‖x‖/n for real data, with n the sum of the sample weights.
    penalty_strength : float, default=1.0
        Weight of the penalty relative to `ridge`; 1 is the paper.
    max_iter : int, default=200
        Proximal gradient steps.
    tol : float, default=3e-4
        Stop when the objective falls by a smaller share twice in a row.
    step_size : float or "auto", default="auto"
        A number begins the paper's line search: the first trial is 1.5 times it, as in
        Algorithm 1. "auto" takes Barzilai-Borwein steps.
    early_stopping : bool, default=False
        Hold out `validation_fraction` of the samples, stop when their R² has not risen for 5
        steps, keep the best. Of a memory map the last rows are held out, else random ones.
    validation_fraction : float, default=0.1
        Between 0 and 0.9.
    max_time : float or None, default=None
        Seconds for the steps; the best iterate is kept.
    warm_start : bool, default=False
        Start from the last fit's particles, if they have the same shape and are not zero.
    random_state : int, RandomState or None, default=None
        Draws the first particles, on the host, so that every backend starts alike.
    backend : {"auto", "numpy", "cupy", "torch"}, default="auto"
        Where to compute. "auto" follows X, and moves large NumPy data to a usable GPU.
    dtype : {"auto", "float32", "float64"}, default="auto"
        Precision; "auto" keeps float32. Sums over samples are kept in float64, but for matrix
        products, which sum blocks of 65 536 samples in the data's precision.
    knots : int, "auto" or None, default="auto"
        None computes exactly. An integer q bins projections on q knots a particle, which needs
        no sort and takes rows from a memory map by blocks. "auto" is exact while memory holds
        it and up to 200 million projections, else 4096.
    knot_tolerance : float or "auto", default="auto"
        Largest error of the stored shape functions, in standard deviations of y, or in units
        of y without `normalize_y`. "auto" stores
        them exactly up to two million knots in all, else to 1e-4.
    normalize_y : bool, default=True
        Scale the targets to unit variance first, so that `penalty_strength` has a meaning.
        Predictions are in the units of y either way.
    standardize : bool, default=False
        Centre the features and scale them to unit variance first. Particles, directions and
        importances are then in standard deviations; works on memory maps without a copy.
    verbose : int, default=0
        1 prints a line per step.
"""

_ATTRIBUTES = """
    Attributes
    ----------
    W_ : array of shape (n_features, n_particles)
        Particles.
    mean_, scale_ : array of shape (n_features,) or None
        What `standardize` subtracted and divided by.
    dual_coef_ : array of shape (n_samples, n_targets)
        α at the final particles.
    intercept_ : array of shape (n_targets,)
        c at the final particles.
    feature_matrix_ : array of shape (n_features, n_features)
        WWᵀ/m: which directions matter.
    feature_importances_ : array of shape (n_features,)
        Norms of the rows of W, summing to 1.
    n_effective_features_ : int
        Directions whose singular value is at least an equal share; 0 where W = 0.
    components_ : array of shape (n_effective_features_, n_features)
        Orthonormal learned directions.
    shape_functions_ : ShapeFunctions
        The functions g_j.
    history_ : History
        Objective, step, residual and seconds of every iteration.
    n_iter_, status_ : int, str
        Steps taken, and how the fit ended.
    ridge_ : float
        λ used.
    n_knots_ : int or None
        Knots a particle, None where computed exactly.
    knots_error_ : float
        Estimated relative error of the binned product, 0 where exact.
    solve_residual_ : float
        Relative residual of the final linear solve.
    place_ : str
        Library and device that computed.
"""

_REFERENCES = """
    Notes
    -----
    A step costs a sort of the n m projections and about ten products of O(n m); memory is about
    48 bytes for each projection.

    References
    ----------
    .. [1] Follain and Bach, "Enhanced Feature Learning via Regularisation: Integrating Neural
       Networks and Kernel Methods", arXiv:2407.17280.
"""


class BKerNNRegressor(RegressorMixin, _BKerNN):
    __doc__ = f"""Brownian kernel neural network for regression, exact and near-linear.

    Learns a few directions of the data and a smooth function along each:
    f(x) = c + (1/m) Σ_j g_j(w_jᵀx).
    {_PARAMETERS}{_ATTRIBUTES}{_REFERENCES}
    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl import BKerNNRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 5))
    >>> model = BKerNNRegressor(tol=1e-3, random_state=0).fit(X, np.abs(X[:, 0] + X[:, 1]))
    >>> bool(model.score(X, np.abs(X[:, 0] + X[:, 1])) > 0.95)
    True
    """

    @unchanged_on_error
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BKerNNRegressor:
        """Fit to one or many targets.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Finite real data: NumPy, CuPy, torch, a frame, or a NumPy memory map.
        y : array of shape (n_samples,) or (n_samples, n_targets)
            Finite real targets.
        sample_weight : array of shape (n_samples,), optional
            Weights, at least 0; an integer weight counts as so many copies of the sample.

        Returns
        -------
        BKerNNRegressor
            Itself.

        Raises
        ------
        TypeError, ValueError
            If the data or a parameter is not as described; the model is left as it was.
        RuntimeError
            If the backend is not available.
        """
        self._check_parameters()
        X = validate_samples(self, X, reset=True, min_samples=2)
        y = validate_targets(y, X)
        self._fit(X, as_columns(y), sample_weight, scale_each=True)
        self._one_target = y.ndim == 1
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
            Predictions, of the library, device and dtype of X. O(n m log q) for q knots.
        """
        predictions = self._predict(X, "predict")
        return predictions[:, 0] if self._one_target else predictions

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Give the R² of the predictions, averaged over targets."""
        truth = to_host(y) if is_array(y) else y
        return float(r2_score(truth, to_host(self.predict(X)), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class BKerNNClassifier(ClassifierMixin, _BKerNN):
    __doc__ = f"""Brownian kernel neural network for classification.

    Least squares on one-hot classes with shared particles: the functions estimate the classes'
    probabilities. Any number of classes, any labels.
    {_PARAMETERS}{_ATTRIBUTES}
    classes_ : array of shape (n_classes,)
        Labels.
    {_REFERENCES}
    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpukfl import BKerNNClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(BKerNNClassifier(random_state=0).fit(X, y).score(X, y) > 0.95)
    True
    """

    @unchanged_on_error
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BKerNNClassifier:
        """Fit to class labels.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Finite real data: NumPy, CuPy, torch, a frame, or a NumPy memory map.
        y : array of shape (n_samples,)
            Labels of any type that sorts.
        sample_weight : array of shape (n_samples,), optional
            Weights, at least 0; an integer weight counts as so many copies of the sample.

        Returns
        -------
        BKerNNClassifier
            Itself.

        Raises
        ------
        TypeError, ValueError
            If the data or a parameter is not as described; the model is left as it was.
        RuntimeError
            If the backend is not available.
        """
        self._check_parameters()
        X = validate_samples(self, X, reset=True, min_samples=2)
        labels = validate_labels(y, X)
        classes, codes = np.unique(labels, return_inverse=True)
        one_hot = (codes[:, None] == np.arange(len(classes))).astype(np.float64)
        if len(classes) <= 2:
            one_hot = one_hot[:, -1:]
        self._fit(X, one_hot, sample_weight, scale_each=False)
        self.classes_ = classes
        return self

    def decision_function(self, X: Any) -> Array:
        """Give scores, of which the largest is predicted.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            For two classes the estimated probability of the second less one half.
        """
        return self._scores(X, "decision_function")

    def _scores(self, X: Any, method: str) -> Array:
        scores = self._predict(X, method)
        return scores[:, 0] - 0.5 if len(self.classes_) <= 2 else scores

    def predict_proba(self, X: Any) -> Array:
        """Estimate the classes' probabilities: the scores, projected on the simplex.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Rows sum to 1.
        """
        scores = self._predict(X, "predict_proba")
        xp = array_namespace(scores)
        if len(self.classes_) == 1:
            return xp.ones_like(scores)
        if len(self.classes_) == 2:
            scores = xp.concat([1.0 - scores, scores], axis=1)
        return _project_on_simplex(scores)

    def predict(self, X: Any) -> Array:
        """Predict the labels.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.

        Returns
        -------
        array of shape (n_samples,)
            Labels; of X's library where they are numbers it can hold, else NumPy.
        """
        scores = self._scores(X, "predict")
        xp = array_namespace(scores)
        if len(self.classes_) == 1:
            codes = xp.zeros_like(scores, dtype=xp.int64)
        elif scores.ndim == 1:
            codes = xp.astype(scores > 0, xp.int64)
        else:
            codes = xp.argmax(scores, axis=1)
        if library_of(scores) == "numpy" or self.classes_.dtype.kind not in "iuf":
            return self.classes_[to_host(codes)]
        classes = xp.asarray(self.classes_, device=like(scores)["device"])
        return xp.take(classes, codes, axis=0)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Give the share of samples that are classified correctly."""
        truth = to_host(y) if is_array(y) else y
        predicted = to_host(self.predict(X))
        return float(accuracy_score(truth, predicted, sample_weight=sample_weight))


def _project_on_simplex(S: Array) -> Array:
    """Nearest point of the probability simplex to each row of `S` (n, k), by sorting."""
    xp = array_namespace(S)
    k = S.shape[1]
    descending = xp.flip(xp.sort(S, axis=1), axis=1)
    excess = xp.cumulative_sum(descending, axis=1) - 1.0
    counts = xp.arange(1, k + 1, **like(S))
    positive = descending * counts > excess
    active = xp.sum(xp.astype(positive, S.dtype), axis=1, keepdims=True)
    last = xp.where(counts == active, excess / counts, xp.zeros_like(S))
    threshold = xp.sum(last, axis=1, keepdims=True)
    return xp.clip(S - threshold, min=0.0)
