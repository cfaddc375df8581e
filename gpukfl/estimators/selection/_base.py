"""What the kernel feature selectors share: parameters, the fit, and what was selected."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from gpukfl._array import (
    Array,
    array_namespace,
    beside,
    epsilon,
    is_host,
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
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.estimators._validation import (
    check_finite_result,
    check_number,
    check_place,
    check_switch,
    validate_samples,
)
from gpukfl.estimators.kernel_ridge._base import warn_of_solution
from gpukfl.estimators.selection._problem import Predictor, SelectionProblem, selection_kernel
from gpukfl.estimators.selection._search import (
    DEFAULT_RIDGE,
    FEWEST,
    FEWEST_ROWS,
    SelectionSearch,
    Setting,
)
from gpukfl.estimators.selection._selected import SelectedVariables
from gpukfl.estimators.selection._stability import selection_frequencies, stability_threshold
from gpukfl.kernels import Kernel
from gpukfl.methods import Selection
from gpukfl.operators import KernelOperator

_QUIET = (Status.CONVERGED, Status.STALLED)  # no further progress is where a fit may well end
_STOPPED = (Status.INTERRUPTED, Status.TIME_LIMIT)
_SELECT_SHARE = 0.8  # of max_time after which the selection has ended


class SelectionBase(SelectedVariables, HostPickled):
    """The common part: parameters, the fit, and everything but what a target means."""

    _unit_free = True  # the anchor takes it up

    def __init__(
        self,
        kernel: str | Kernel = "laplace",
        *,
        ridge: float | str = DEFAULT_RIDGE,
        sparsity: float | str = "auto",
        radius: float = 10.0,
        hierarchical: bool = True,
        anchor: float | str = "auto",
        n_permutations: int = 19,
        n_sparsities: int = 10,
        n_centers: int | str = "auto",
        n_subsamples: int = 0,
        max_false: float = 1.0,
        max_iter: int = 100,
        tol: float = 1e-4,
        validation_fraction: float = 0.2,
        max_time: float | None = None,
        random_state: Any = None,
        backend: str = "auto",
        dtype: str = "auto",
        normalize_y: bool = True,
        standardize: bool = True,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.ridge = ridge
        self.sparsity = sparsity
        self.radius = radius
        self.hierarchical = hierarchical
        self.anchor = anchor
        self.n_permutations = n_permutations
        self.n_sparsities = n_sparsities
        self.n_centers = n_centers
        self.n_subsamples = n_subsamples
        self.max_false = max_false
        self.max_iter = max_iter
        self.tol = tol
        self.validation_fraction = validation_fraction
        self.max_time = max_time
        self.random_state = random_state
        self.backend = backend
        self.dtype = dtype
        self.normalize_y = normalize_y
        self.standardize = standardize
        self.verbose = verbose

    def _check_parameters(self) -> None:
        whole = numbers.Integral
        selection_kernel(self.kernel)
        check_number("ridge", self.ridge, low=0, low_allowed=False, also=("auto",))
        check_number("sparsity", self.sparsity, low=0, also=("auto", "tune"))
        check_number("radius", self.radius, low=0, low_allowed=False)
        check_number("anchor", self.anchor, low=0, low_allowed=False, also=("auto",))
        check_number("n_permutations", self.n_permutations, kind=whole, low=1)
        check_number("n_sparsities", self.n_sparsities, kind=whole, low=2)
        check_number("n_centers", self.n_centers, kind=whole, low=1, also=("auto", "all"))
        check_number("n_subsamples", self.n_subsamples, kind=whole, low=0)
        check_number("max_false", self.max_false, low=0, low_allowed=False)
        check_number("max_iter", self.max_iter, kind=whole, low=1)
        check_number("tol", self.tol, low=0)
        fraction = self.validation_fraction
        check_number("validation_fraction", fraction, low=0, high=0.9, low_allowed=False)
        check_number("max_time", self.max_time, low=0, low_allowed=False, also=(None,))
        check_place(self)
        for switch in ("hierarchical", "normalize_y", "standardize"):
            check_switch(switch, getattr(self, switch))

    def _fit(self, samples: Samples, run: Run) -> None:
        """Fit every target and set every attribute; nothing is set on an error."""
        X, (n, p) = samples.X, samples.X.shape
        place = resolve_place(self.backend, X, dtype=dtype_for(self, X), work=n * p)

        def make(some: Samples) -> SelectionProblem:
            return SelectionProblem(self, some, place, run.rng)

        problem = make(samples)
        search = SelectionSearch(make, samples, self, run)
        setting, stopped = self._setting(problem, search)
        chosen = search.best if search.trials else None
        if stopped:
            chosen = search.highest
            setting = setting if chosen is None else chosen.setting
            selection = search.selection(problem, Status.INTERRUPTED)
        elif problem.constant:
            selection = Selection(np.zeros(p), Status.CONVERGED)
        else:
            selection = self._selected(make, problem, setting, search, run)
        self.selection_frequencies_: np.ndarray | None = None
        self.stability_threshold_: float | None = None
        if self.n_subsamples and not problem.constant and selection.status in _QUIET:
            selection = self._stable(make, samples, setting, selection, run)
        try:
            hasty = selection.status is Status.INTERRUPTED or run.is_over(_SELECT_SHARE)
            last = problem.fit_selected(selection, setting.ridge, run, hasty=hasty)
        except KeyboardInterrupt:  # the quickest fit, which another one ends
            selection = replace(selection, status=Status.INTERRUPTED)
            last = problem.fit_selected(selection, setting.ridge, run, hasty=True)
        self._keep(problem, selection, last, X)
        self.ridge_ = setting.ridge
        self.path_ = search.path(setting.ridge)
        self.tuning_ = search.report(chosen)

    def _selected(
        self,
        make: Callable[[Samples], SelectionProblem],
        problem: SelectionProblem,
        setting: Setting,
        search: SelectionSearch,
        run: Run,
    ) -> Selection:
        """Select on all samples, or on as many as there is time for.

        What is stopped before it has found anything leaves what the search has selected.
        """
        try:
            left, some = run.left(_SELECT_SHARE), problem
            count = problem.affordable_rows(setting.ridge, left)
            if count < min(problem.n, FEWEST_ROWS):  # the search has seen as many
                return search.selection(problem, Status.TIME_LIMIT)
            if count < problem.n:
                rows = np.sort(run.rng.choice(problem.n, count, replace=False))
                some = make(search.samples.taken(rows))
            found = some.run(
                some.objective(setting.ridge),
                setting.sparsity,
                max_time=left,
                watch=lambda k, history: run.tell("selection", k, history),
            )
        except KeyboardInterrupt:
            return search.selection(problem, Status.INTERRUPTED)
        if found.status in _STOPPED and not found.support.any():
            return search.selection(problem, found.status)
        if some is not problem and found.status in _QUIET:
            return replace(found, status=Status.TIME_LIMIT)
        return found

    def _setting(self, problem: SelectionProblem, search: SelectionSearch) -> tuple[Setting, bool]:
        """Give λ and γ, and whether the user interrupted their choice."""
        ridge = DEFAULT_RIDGE if self.ridge == "auto" else float(self.ridge)
        given = Setting(ridge, "auto" if self.sparsity == "tune" else self.sparsity)
        if problem.constant:
            msg = "y is constant: the model predicts that constant and selects no variable"
            warn(msg, UserWarning)
            return given, False
        if (self.ridge != "auto" and self.sparsity != "tune") or problem.n < FEWEST:
            return given, False
        try:
            search.choose()
        except KeyboardInterrupt:
            return given, True
        return search.best.setting, False

    def _stable(
        self,
        make: Callable[[Samples], SelectionProblem],
        samples: Samples,
        setting: Setting,
        selection: Selection,
        run: Run,
    ) -> Selection:
        """Keep the variables that are selected on enough halves of the samples."""

        def select(rows: np.ndarray) -> np.ndarray:
            problem = make(samples.taken(rows))
            found = problem.run(problem.objective(setting.ridge), setting.sparsity)
            if found.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            return found.support

        p, rng = len(selection.beta), check_random_state(self.random_state)
        try:
            shares, mean, whole = selection_frequencies(
                select,
                len(samples),
                self.n_subsamples,
                rng,
                lambda: run.is_over(_SELECT_SHARE),
            )
        except KeyboardInterrupt:
            return replace(selection, status=Status.INTERRUPTED)
        threshold = stability_threshold(mean, p, self.max_false)
        if threshold > 1.0:
            msg = (
                f"{mean:.1f} variables of {p} are selected on a half: at most "
                f"{mean**2 / p:.2g} false ones can be promised, not max_false={self.max_false:g}; "
                "those selected on every half are kept"
            )
            warn(msg, UserWarning)
            threshold = 1.0
        self.selection_frequencies_, self.stability_threshold_ = shares, threshold
        stable = shares >= threshold
        typical = (
            float(selection.beta[selection.support].mean()) if selection.support.any() else 1.0
        )
        beta = np.where(stable, np.where(selection.beta > 0, selection.beta, typical), 0.0)
        status = selection.status if whole else Status.TIME_LIMIT
        return replace(selection, beta=beta, status=status)

    def _keep(
        self,
        problem: SelectionProblem,
        selection: Selection,
        last: Predictor | None,
        X: Array,
    ) -> None:
        xp = array_namespace(problem.X)
        back = mover(X, dtype_for(self, X))
        beta = np.zeros(problem.p) if last is None else last.beta
        used, stretch = np.flatnonzero(beta), np.ones(0)
        self.intercept_ = back(problem.y_mean)
        self.kernel_, self.dual_coef_, self.centers_ = problem.kernel, None, None
        if last is not None:
            with np.errstate(over="ignore"):
                dual_coef = xp.astype(last.fit.alpha, xp.float64) * problem.y_scale[None, :]
            self.dual_coef_ = back(dual_coef)
            check_finite_result(self.dual_coef_, self.intercept_)
            self.centers_, self.kernel_ = back(last.fit.Z), last.fit.kernel
            warn_of_solution(last.fit, problem, epsilon(self.dual_coef_))
            stretch = beta[used] ** (1.0 / problem.kernel.power)
        self._support, self._used, self._stretch = (
            _beside(values, X) for values in (selection.support, used, stretch)
        )
        self._keep_scaling(problem.rows, X)
        self.beta_ = _beside(beta, X)
        self._keep_rounds(selection, X)
        importances = np.zeros(problem.p) if last is None else last.importances
        self.feature_importances_ = _beside(importances, X)
        order = used[np.argsort(-importances[used], kind="stable")]
        components = np.zeros((len(order), problem.p))
        components[np.arange(len(order)), order] = 1.0
        self.components_ = beside(components, self.intercept_)
        self.n_effective_features_ = int(selection.support.sum())
        self.sparsity_ = selection.rounds[-1].sparsity if selection.rounds else 0.0
        self.anchor_ = problem.anchor
        self.history_, self.n_iter_ = selection.history, len(selection.history)
        self.status_ = selection.status.name
        self.place_ = f"{library_of(problem.X)} {problem.X.device}"
        self._library = library_of(X)
        self._n_samples = problem.n
        self._warn(problem)

    def _keep_rounds(self, selection: Selection, X: Array) -> None:
        """Set level and score of every variable, and what each round found."""
        p = len(selection.beta)
        levels, scores = np.zeros(p, dtype=np.int64), np.zeros(p)
        self.rounds_ = []
        for level, one in enumerate(selection.rounds, start=1):
            out = levels == 0
            scores[out] = one.scores[out]
            levels[one.entered] = level
            self.rounds_.append(
                {
                    "level": level,
                    "sparsity": float(one.sparsity),
                    "entered": one.entered.tolist(),
                    "scores": one.scores[one.entered].tolist(),
                    "highest_left": float(np.delete(one.scores, one.entered).max(initial=0.0)),
                }
            )
        self.levels_, self.scores_ = _beside(levels, X), _beside(scores, X)
        shares = self.selection_frequencies_
        self.selection_frequencies_ = None if shares is None else _beside(to_host(shares), X)

    def _warn(self, problem: SelectionProblem) -> None:
        if Status[self.status_] not in _QUIET:
            reason = Status[self.status_].value
            msg = f"{type(self).__name__} after {self.n_iter_} iterations: {reason}"
            warn(msg, ConvergenceWarning)
        if not self.n_effective_features_ and not problem.constant:
            msg = "no variable was selected: the model predicts the mean of y"
            warn(msg, UserWarning)

    # ------------------------------------------------------------------ prediction

    def _predict(self, X: Any, method: str) -> Array:
        """Fitted functions at `X`: (n, t)."""
        check_is_fitted(self)
        X = validate_samples(self, X, reset=False, method=method)
        xp = array_namespace(self.intercept_)
        if self.dual_coef_ is None:
            n, t = X.shape[0], self.intercept_.shape[0]
            flat = xp.zeros((n, t), **like(self.intercept_))
            return xp.astype(self.intercept_ + flat, X.dtype)
        assert self.centers_ is not None
        used, stretch = to_host(self._used), to_host(self._stretch)
        columns = np.asarray(X[:, used]) if is_host(X) else xp.take(X, self._used, axis=1)
        shift = None if self.mean_ is None else to_host(self.mean_)[used]
        scale = 1.0 if self.scale_ is None else to_host(self.scale_)[used]
        limits = None if self.limits_ is None else to_host(self.limits_)[:, used]
        reference = xp.empty((0,), **like(self.centers_))
        rows = Rows(columns, reference, shift, scale / stretch, limits)
        operator = KernelOperator(self.kernel_, rows, self.centers_)
        return xp.astype(self.intercept_ + operator @ self.dual_coef_, X.dtype)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        tags.input_tags.allow_nan = False
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _beside(host: np.ndarray, X: Array) -> Array:
    """Copy to the library and device of `X`, and keep the dtype."""
    return array_namespace(X).asarray(host, device=like(X)["device"])
