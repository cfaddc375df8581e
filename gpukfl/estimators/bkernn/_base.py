"""What the BKerNN estimators share: parameters, the fit, and everything but what a target means."""

from __future__ import annotations

import numbers
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from gpukfl._array import (
    Array,
    array_namespace,
    library_of,
    like,
    to_host,
)
from gpukfl._places import resolve_place
from gpukfl._results import Status
from gpukfl._rows import Rows
from gpukfl._warnings import warn
from gpukfl.estimators._base import HostPickled
from gpukfl.estimators._data import dtype_for, mover
from gpukfl.estimators._features import LinearFeatures
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.estimators._validation import (
    check_choice,
    check_finite_result,
    check_number,
    check_place,
    check_switch,
    validate_samples,
)
from gpukfl.estimators.bkernn._problem import Problem, Setting
from gpukfl.estimators.bkernn._search import FEWEST, LOOSE, ROWS, BKerNNSearch
from gpukfl.linalg import MAX_KNOTS
from gpukfl.methods import BKerNNFit, ShapeFunctions
from gpukfl.penalties import PENALTIES

PENALTY = "concave_feature"
_FIT_SHARE = 0.9  # of max_time after which the steps have ended
_QUIET = (Status.CONVERGED, Status.EARLY_STOPPED)


class BKerNNBase(LinearFeatures, HostPickled):
    """The common part: parameters, the fit, and everything but what a target means."""

    def __init__(
        self,
        n_particles: int | str = "auto",
        *,
        penalty: str = PENALTY,
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
        standardize: bool = True,
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
        check_choice("penalty", self.penalty, (*PENALTIES, "tune"))
        check_number("concavity", self.concavity, low=0, low_allowed=False)
        check_number("ridge", self.ridge, low=0, low_allowed=False, also=("auto", "tune"))
        check_number("penalty_strength", self.penalty_strength, low=0)
        check_number("max_iter", self.max_iter, kind=whole, low=0)
        check_number("tol", self.tol, low=0)
        check_number("step_size", self.step_size, low=0, low_allowed=False, also=("auto",))
        check_number("validation_fraction", self.validation_fraction, low=0, high=0.9)
        check_number("max_time", self.max_time, low=0, low_allowed=False, also=(None,))
        check_place(self)
        for switch in ("early_stopping", "warm_start", "normalize_y", "standardize"):
            check_switch(switch, getattr(self, switch))
        check_number("knots", self.knots, kind=whole, low=2, high=MAX_KNOTS, also=("auto", None))
        check_number("knot_tolerance", self.knot_tolerance, low=0, also=("auto",))

    def _fit(self, samples: Samples, run: Run) -> None:
        """Fit every target and set every attribute; nothing is set on an error."""
        X, (n, d) = samples.X, samples.X.shape
        m = max(50, min(2 * d, 200)) if self.n_particles == "auto" else int(self.n_particles)
        place = resolve_place(self.backend, X, dtype=dtype_for(self, X), work=n * m)

        def make(some: Samples) -> tuple[Problem, Samples | None]:
            inside, watched = self._split(some, run.again())
            return Problem(self, inside, place, m), watched

        search = BKerNNSearch(make, samples, self, run)
        inside, watched = self._split(samples, run.rng)
        problem = Problem(self, inside, place, m)
        setting, stopped = self._setting(problem, search)
        known = getattr(self, "W_", None) if self.warm_start else None
        goes_on = search.start is not None and len(inside) > ROWS
        fit = problem.fit(
            setting,
            run.rng,
            run,
            start=known if search.start is None else search.start,
            held_out=watched,
            share=_FIT_SHARE,
            max_iter=0 if stopped else None,
            times_tol=LOOSE if goes_on else 1.0,
        )
        if stopped:
            fit = replace(fit, status=Status.INTERRUPTED)
        self._keep(problem, setting, fit, X)
        self.tuning_ = search.report()

    def _setting(self, problem: Problem, search: BKerNNSearch) -> tuple[Setting, bool]:
        """Give penalty and ridge, and whether the user interrupted their choice."""
        if problem.constant:
            msg = "y is constant: the model predicts that constant and learns no features"
            warn(msg, UserWarning)
        penalty = PENALTY if self.penalty == "tune" else self.penalty
        given = Setting(penalty, None if isinstance(self.ridge, str) else float(self.ridge))
        tuned = "tune" in (self.ridge, self.penalty)
        if not tuned or problem.constant or len(search.samples) < FEWEST:
            return given, False
        stopped = False
        try:
            search.choose(given)
        except KeyboardInterrupt:
            if search.start is None:  # interrupted before there was anything to go on from
                raise
            stopped = True
        return given if search.best is None else search.best.setting, stopped

    def _split(
        self, samples: Samples, rng: np.random.RandomState
    ) -> tuple[Samples, Samples | None]:
        if not self.early_stopping:
            return samples, None
        n = len(samples)
        n_out = max(1, round(self.validation_fraction * n))
        if n - n_out < 2:
            msg = (
                f"expected early stopping to leave at least 2 samples to fit, got {n} samples and "
                f"validation_fraction={self.validation_fraction}"
            )
            raise ValueError(msg)
        if isinstance(samples.X, np.memmap):
            # The last rows, because a shuffled split would copy them
            return samples.taken(slice(n - n_out)), samples.taken(slice(n - n_out, None))
        inside, outside = np.split(rng.permutation(n), [n - n_out])
        return samples.taken(inside), samples.taken(outside)

    def _keep(self, problem: Problem, setting: Setting, fit: BKerNNFit, X: Array) -> None:
        xp = array_namespace(problem.reference)
        back = mover(X, dtype_for(self, X))
        shapes = problem.shapes(fit)
        scale, mean = problem.y_scale, problem.y_mean
        with np.errstate(over="ignore"):
            intercept = back(xp.astype(fit.intercept, xp.float64) * scale + mean)
            dual_coef = back(xp.astype(fit.alpha, xp.float64) * scale[None, :])
            values = back(shapes.values * scale[None, None, :])
        check_finite_result(intercept, dual_coef, values)
        self.W_ = back(fit.W)
        self._keep_scaling(problem.rows, X)
        self.intercept_, self.dual_coef_ = intercept, dual_coef
        self.shape_functions_ = ShapeFunctions(back(shapes.knots), values)
        m = fit.W.shape[1]
        self.feature_matrix_ = self.W_ @ self.W_.T / m
        self._keep_directions(to_host(fit.W))
        self.penalty_, self.ridge_ = setting.penalty, problem.ridge(setting)
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
            warn(msg, ConvergenceWarning)
        if fit.solve_status is not Status.CONVERGED:
            msg = (
                f"the final solve ended with a relative residual of {fit.solve_residual:.1e}: "
                f"{fit.solve_status.value}"
            )
            warn(msg, ConvergenceWarning)

    # ------------------------------------------------------------------ description

    _panels = ("importances", "directions", "shapes", "objective")
    _map_norms = "row norms of W"
    _curves_note = (
        "A direction's loadings say how much each feature weighs in it. A shape function is what "
        "one particle adds to the prediction along its projection."
    )

    @property
    def _n_samples(self) -> int:
        return int(self.dual_coef_.shape[0])

    def _model_text(self) -> str:
        return f"{self.W_.shape[1]} particles, penalty {self.penalty_}, ridge {self.ridge_:.3g}"

    def _facts(self) -> dict[str, Any]:
        """Give what a report says of the model."""
        exact = "exact"
        if self.n_knots_ is not None:
            exact = f"binned on {self.n_knots_} knots, relative error {self.knots_error_:.1e}"
        return {
            "particles": self.W_.shape[1],
            "penalty": self.penalty_,
            "ridge": f"{self.ridge_:.4g}",
            "kernel products": exact,
            "residual of the last solve": f"{self.solve_residual_:.1e}",
        }

    # ------------------------------------------------------------------ prediction

    def _predict(self, X: Any, method: str) -> Array:
        """Fitted functions at `X`: (n, t)."""
        check_is_fitted(self)
        X = validate_samples(self, X, reset=False, method=method)
        xp = array_namespace(self.W_)
        rows = Rows(X, xp.empty((0,), **like(self.W_)), self.mean_, self.scale_, self.limits_)
        parts = [
            self.intercept_ + self.shape_functions_.mean(self.W_.T @ block.T)
            for _, _, block in rows.blocks(self.W_.shape[1])
        ]
        return xp.astype(xp.concat(parts, axis=0), X.dtype)
