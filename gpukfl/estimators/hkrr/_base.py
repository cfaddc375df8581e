"""What the HKRR estimators share: parameters, the fit, and everything but what a target means."""

from __future__ import annotations

import numbers
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from gpukfl._array import Array, array_namespace, library_of, like, to_host
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
from gpukfl.estimators.hkrr._description import describe
from gpukfl.estimators.hkrr._problem import (
    CENTERS,
    FEW_CENTERS,
    FIT_SHARE,
    LEARN_ROWS,
    OPTIMIZERS,
    HyperKernelProblem,
    Solved,
    truncated,
)
from gpukfl.estimators.hkrr._search import (
    FEWEST,
    HKRRSearch,
    Learned,
    Setting,
    start_components,
)
from gpukfl.inspection import Description, Names
from gpukfl.kernels import Kernel, make_kernel
from gpukfl.methods import SELECTIONS, HKRRFit
from gpukfl.operators import KernelOperator

_QUIET = (Status.CONVERGED, Status.STALLED)  # no further progress is where a fit may well end
_STEP_WORKS = 30  # of a first step of the map, with its line search
_REFIT_WORKS = 10  # normal equations and passes of leave-one-out in the last fit
_NO_RIDGE = 1e-5  # where there are too few samples to choose one


class HKRRBase(LinearFeatures, HostPickled):
    """The common part: parameters, the fit, and everything but what a target means."""

    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        kernel: str | Kernel = "gaussian",
        ridge: float | str = "auto",
        lengthscale: float | str = "auto",
        learn_lengthscale: bool = True,
        n_centers: int | str = "auto",
        center_selection: str = "uniform",
        refit_centers: int | str | None = "auto",
        optimizer: str = "lbfgs",
        n_starts: int = 10,
        max_iter: int = 100,
        tol: float = 1e-4,
        validation_fraction: float = 0.2,
        max_time: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        backend: str = "auto",
        dtype: str = "auto",
        normalize_y: bool = True,
        standardize: bool = True,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.ridge = ridge
        self.lengthscale = lengthscale
        self.learn_lengthscale = learn_lengthscale
        self.n_centers = n_centers
        self.center_selection = center_selection
        self.refit_centers = refit_centers
        self.optimizer = optimizer
        self.n_starts = n_starts
        self.max_iter = max_iter
        self.tol = tol
        self.validation_fraction = validation_fraction
        self.max_time = max_time
        self.warm_start = warm_start
        self.random_state = random_state
        self.backend = backend
        self.dtype = dtype
        self.normalize_y = normalize_y
        self.standardize = standardize
        self.verbose = verbose

    def _check_parameters(self) -> None:
        whole = numbers.Integral
        check_number("n_components", self.n_components, kind=whole, low=1, also=("auto",))
        make_kernel(self.kernel)
        check_number("ridge", self.ridge, low=0, low_allowed=False, also=("auto",))
        check_number("lengthscale", self.lengthscale, low=0, low_allowed=False, also=("auto",))
        check_number("n_centers", self.n_centers, kind=whole, low=1, also=("auto",))
        check_choice("center_selection", self.center_selection, SELECTIONS)
        also = ("auto", "all", None)
        check_number("refit_centers", self.refit_centers, kind=whole, low=1, also=also)
        check_choice("optimizer", self.optimizer, tuple(OPTIMIZERS))
        check_number("n_starts", self.n_starts, kind=whole, low=0)
        check_number("max_iter", self.max_iter, kind=whole, low=0)
        check_number("tol", self.tol, low=0)
        fraction = self.validation_fraction
        check_number("validation_fraction", fraction, low=0, high=0.9, low_allowed=False)
        check_number("max_time", self.max_time, low=0, low_allowed=False, also=(None,))
        check_place(self)
        for switch in ("learn_lengthscale", "warm_start", "normalize_y", "standardize"):
            check_switch(switch, getattr(self, switch))

    def _fit(self, samples: Samples, run: Run) -> None:
        """Fit every target and set every attribute; nothing is set on an error."""
        X, (n, d) = samples.X, samples.X.shape
        if not isinstance(self.n_components, str) and self.n_components > d:
            msg = (
                f"expected at most as many components as the {d} features, got {self.n_components}"
            )
            raise ValueError(msg)
        wanted = CENTERS if self.n_centers == "auto" else int(self.n_centers)
        if self.n_centers != "auto" and wanted > n:
            msg = f"n_centers={wanted} is more than the {n} samples: all of them are centres"
            warn(msg, UserWarning)
        place = resolve_place(self.backend, X, dtype=dtype_for(self, X), work=n * min(n, wanted))

        def make(some: Samples) -> HyperKernelProblem:
            return HyperKernelProblem(self, some, place, run.rng)

        problem = make(samples)
        search = HKRRSearch(make, samples, self, run)
        setting, start, stopped = self._start(problem, search)
        part = problem.part(LEARN_ROWS)
        try:
            fit, model = self._learn(part, setting, start, run, wanted, stopped=stopped)
        except KeyboardInterrupt:  # before the first step: the start is there
            stopped = True
            fit, model = self._learn(part, setting, start, run, FEW_CENTERS, stopped=True)
        if self.refit_centers is None and part is not problem:
            model = problem.solved(model)
        elif self.refit_centers is not None and not problem.constant:
            try:
                wanted = problem.n_refit_centers()
                if self.refit_centers == "auto":
                    given = problem, model.B, model.lengthscale, run
                    wanted = self._affordable(*given, wanted, _REFIT_WORKS)
                choice = None if stopped else search.last_ridges()
                model = problem.refit(model, wanted, choice)
            except KeyboardInterrupt:  # the model of the optimisation is there
                stopped = True
        self.learned_ = setting.steps > 0
        self.status_ = self._ended(setting, fit, stopped=stopped).name
        self._keep(problem, fit, model, search, X)

    def _learn(
        self,
        problem: HyperKernelProblem,
        setting: Setting,
        start: Learned,
        run: Run,
        wanted: int,
        *,
        stopped: bool,
    ) -> tuple[HKRRFit, Solved]:
        """Go on from the start, with as many of the centres wanted as there is time for."""
        if self.n_centers == "auto" and not stopped:
            wanted = self._affordable(problem, start.B, start.lengthscale, run, wanted, _STEP_WORKS)
        return problem.learn(
            start.B,
            start.lengthscale,
            setting.ridge,
            n_centers=wanted,
            max_iter=0 if stopped else setting.steps,
            max_time=run.left(FIT_SHARE),
            watch=lambda k, _, history: run.tell("fit", k, history),
        )

    def _affordable(
        self,
        problem: HyperKernelProblem,
        B: Array,
        lengthscale: float,
        run: Run,
        wanted: int,
        times: float,
    ) -> int:
        """As many of the centres wanted as there is time for, to form their sums so many times."""
        kernel = problem.kernel.stretched(lengthscale)

        def form(q: int) -> None:
            problem.system(kernel, problem.centers(q, B), B)

        return run.affordable(wanted, form, times=times)

    def _start(
        self, problem: HyperKernelProblem, search: HKRRSearch
    ) -> tuple[Setting, Learned, bool]:
        """Give setting and map to start from, and whether the user interrupted."""
        if problem.constant:
            warn(
                "y is constant: the model predicts that constant and learns no features",
                UserWarning,
            )
        if problem.constant or problem.n < FEWEST:
            k = problem.d if self.n_components == "auto" else int(self.n_components)
            steps = 0 if problem.constant else self.max_iter
            return *self._unseen(problem, problem.starts(k)[-1], steps), False
        stopped = False
        try:
            search.choose()
        except KeyboardInterrupt:
            stopped = True
            if search.tuner is None:  # before any start was tried
                sample, _ = problem.sample(problem.rng)
                B = problem.axes(sample, start_components(self, problem.d))
                return *self._unseen(problem, B, 0), stopped
        setting, learned = search.best()
        # On all rows as many steps from the same map as were best
        start = learned if stopped else learned.start or learned
        if not (stopped or any(trial.setting.steps for trial in search.trials)):
            setting = replace(setting, steps=self.max_iter)  # nothing says that this gains nothing
        return setting, start, stopped

    def _unseen(self, problem: HyperKernelProblem, B: Array, steps: int) -> tuple[Setting, Learned]:
        """Give a setting and a map that nothing was held out for."""
        ridge = _NO_RIDGE if self.ridge == "auto" else float(self.ridge)
        lengthscale = problem.lengthscale(B, *problem.sample(problem.rng))
        return Setting(B.shape[0], ridge, steps), Learned(B, lengthscale)

    def _keep(
        self,
        problem: HyperKernelProblem,
        fit: HKRRFit,
        model: Solved,
        search: HKRRSearch,
        X: Array,
    ) -> None:
        xp = array_namespace(problem.reference)
        back = mover(X, dtype_for(self, X))
        with np.errstate(over="ignore"):
            dual_coef = back(xp.astype(model.alpha, xp.float64) * problem.y_scale[None, :])
        intercept = back(problem.y_mean)
        check_finite_result(dual_coef, intercept, back(model.B))
        self.dual_coef_, self.intercept_ = dual_coef, intercept
        self.B_, self.centers_ = back(model.B), back(model.Z)
        self.bound_ = back(xp.astype(problem.bound, xp.float64) * problem.y_scale)
        self._keep_scaling(problem.rows, X)
        self.kernel_ = problem.kernel.stretched(model.lengthscale)
        self.lengthscale_, self.ridge_ = model.lengthscale, float(model.ridge)
        self.feature_matrix_ = self.B_.T @ self.B_
        self._keep_directions(to_host(self.B_).T)
        self.tuning_ = search.report()
        self.history_, self.n_iter_ = fit.history, len(fit.history)
        self.jitter_ = model.factor.jitter
        self.smallest_eigenvalue_ = model.factor.smallest_eigenvalue
        self.place_ = f"{library_of(problem.reference)} {problem.reference.device}"
        self._library = library_of(X)
        self._n_samples = problem.n
        self._warn(model, fit)

    def _ended(self, setting: Setting, fit: HKRRFit, *, stopped: bool) -> Status:
        """Say how the fit ended: with as many steps as rows held out asked for, it is done."""
        if stopped:
            return Status.INTERRUPTED
        done = fit.status is Status.MAX_ITER and setting.steps < self.max_iter
        return Status.CONVERGED if done or not setting.steps else fit.status

    def _warn(self, model: Solved, fit: HKRRFit) -> None:
        status = Status[self.status_]
        if status not in _QUIET:
            msg = f"{type(self).__name__} after {self.n_iter_} iterations: {status.value}"
            warn(msg, ConvergenceWarning)
        if model.factor.raised or fit.jitter_raised:
            msg = (
                "the kernel matrix of the centres is singular in this precision (smallest "
                f"eigenvalue {self.smallest_eigenvalue_:.1e}): {model.factor.jitter:.1e} of its "
                "mean diagonal was added to its diagonal"
            )
            warn(msg, ConvergenceWarning)
        if model.path is not None and not model.path.brackets:
            msg = (
                f"the best ridge of the last fit, {model.ridge:.1e}, is at the edge of those tried"
            )
            warn(msg, UserWarning)

    # ------------------------------------------------------------------ description

    def _describe(self, names: Names, /) -> Description:
        return describe(self, names)

    def profiles(self, count: int = 5, points: int = 100) -> tuple[np.ndarray, np.ndarray]:
        """Predict along the leading directions, through the mean of the centres.

        Parameters
        ----------
        count : int
            Directions at most.
        points : int
            On each direction, over the range of the centres.

        Returns
        -------
        tuple of host arrays, shapes (c, points) and (c, points, n_targets)
            Coordinates along the directions, and predictions.
        """
        check_is_fitted(self)
        centers, B = to_host(self.centers_).astype(float), to_host(self.B_).astype(float)
        middle = centers.mean(axis=0)
        directions = to_host(self.components_).astype(float)[:count]
        along = (centers - middle) @ directions.T
        steps = np.linspace(along.min(axis=0), along.max(axis=0), points, axis=1)
        X = middle + steps[:, :, None] * directions[:, None, :]
        K = self.kernel_(X.reshape(-1, X.shape[-1]) @ B.T, centers @ B.T)
        fitted = truncated(K @ to_host(self.dual_coef_), to_host(self.bound_))
        values = to_host(self.intercept_) + fitted
        return steps, values.reshape(len(steps), points, -1)

    # ------------------------------------------------------------------ prediction

    def _predict(self, X: Any, method: str) -> Array:
        """Fitted functions at `X`: (n, t)."""
        check_is_fitted(self)
        X = validate_samples(self, X, reset=False, method=method)
        xp = array_namespace(self.B_)
        rows = Rows(X, xp.empty((0,), **like(self.B_)), self.mean_, self.scale_, self.limits_)
        operator = KernelOperator(self.kernel_, rows, self.centers_, self.B_)
        fitted = truncated(operator @ self.dual_coef_, self.bound_)
        return xp.astype(self.intercept_ + fitted, X.dtype)
