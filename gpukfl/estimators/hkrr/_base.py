"""What the HKRR estimators share: parameters, what is kept of a fit, and predictions."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from gpukfl._array import Array, array_namespace, like, to_host
from gpukfl._checks import check_choice, check_kind, check_number, check_switch
from gpukfl._places import Backend
from gpukfl._results import Status
from gpukfl._warnings import warn
from gpukfl.estimators._data import truncated
from gpukfl.estimators._features import LinearFeatures
from gpukfl.estimators._learner import Choice, SteppedLearner
from gpukfl.estimators._validation import check_finite_result, validate_samples
from gpukfl.estimators.hkrr._attributes import ATTRIBUTES, TRIED
from gpukfl.estimators.hkrr._description import describe
from gpukfl.estimators.hkrr._problem import Centers, HyperKernelProblem, Optimizer
from gpukfl.estimators.hkrr._search import HKRR, Fitted, Setting
from gpukfl.inspection import Description, Names
from gpukfl.kernels import Kernel, make_kernel
from gpukfl.operators import KernelOperator
from gpukfl.solvers import LBFGS, AlternatingGradient, ArmijoSearch, VariableProjection

OPTIMIZERS = {"lbfgs": LBFGS, "varpro": VariableProjection, "agd": AlternatingGradient}
_STEPS, _TOL = 100, 1e-4  # of an optimiser that is given by name
_QUIET = (Status.CONVERGED, Status.STALLED)  # no further progress is where a fit may well end


class HKRRBase(LinearFeatures, SteppedLearner):
    """The common part: parameters, what is kept of a fit, and predictions."""

    _tried = TRIED
    _attributes = ATTRIBUTES
    _values = (Centers, ArmijoSearch, *OPTIMIZERS.values())
    _renamed: ClassVar[dict[str, str]] = {
        "learn_lengthscale": "give lengthscale='auto' to learn it, or a number to keep",
        "center_selection": "give n_centers=Centers(selection=...)",
        "refit_centers": "give n_centers=Centers(refit=...)",
        "max_iter": "give optimizer=LBFGS(max_iter=...)",
        "tol": "give optimizer=LBFGS(tol=...)",
    }

    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        kernel: str | Kernel = "gaussian",
        ridge: float | str = "auto",
        lengthscale: float | str = "auto",
        n_centers: int | str | Centers = "auto",
        optimizer: str | Optimizer | None = None,
        n_starts: int = 10,
        warm_start: bool = False,
        max_time: float | None = None,
        random_state: Any = None,
        backend: str | Backend = "auto",
        scaling: str | None = "standard",
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.ridge = ridge
        self.lengthscale = lengthscale
        self.n_centers = n_centers
        self.optimizer = optimizer
        self.n_starts = n_starts
        self.warm_start = warm_start
        self.max_time = max_time
        self.random_state = random_state
        self.backend = backend
        self.scaling = scaling
        self.verbose = verbose

    # ------------------------------------------------------------------ fitting

    def _method(self) -> HKRR:
        whole = numbers.Integral
        check_number("n_components", self.n_components, kind=whole, low=1, also=("auto",))
        check_number("ridge", self.ridge, low=0, low_allowed=False, also=("auto",))
        check_number("lengthscale", self.lengthscale, low=0, low_allowed=False, also=("auto",))
        check_number("n_starts", self.n_starts, kind=whole, low=0)
        check_switch("warm_start", self.warm_start)
        warm = self.warm_start
        return HKRR(
            n_components=None if isinstance(self.n_components, str) else int(self.n_components),
            kernel=make_kernel(self.kernel),
            ridge=None if isinstance(self.ridge, str) else float(self.ridge),
            lengthscale=None if isinstance(self.lengthscale, str) else float(self.lengthscale),
            centers=self._centers,
            optimizer=self._optimizer(),
            n_starts=int(self.n_starts),
            start=getattr(self, "B_", None) if warm else None,
            start_lengthscale=getattr(self, "lengthscale_", None) if warm else None,
            scaling=self.scaling,
        )

    @property
    def _centers(self) -> Centers:
        return self.n_centers if isinstance(self.n_centers, Centers) else Centers(self.n_centers)

    def _optimizer(self) -> Optimizer:
        given = "lbfgs" if self.optimizer is None else self.optimizer
        if isinstance(given, str):
            check_choice("optimizer", given, tuple(OPTIMIZERS))
            return OPTIMIZERS[given](max_iter=_STEPS, tol=_TOL)
        check_kind("optimizer", given, (*OPTIMIZERS.values(), str, type(None)))
        return given

    def _keep(
        self,
        problem: HyperKernelProblem,
        fitted: Fitted,
        choice: Choice[Setting, Any],  # noqa: ARG002
        back: Callable[[Array], Array],
    ) -> None:
        xp, model = array_namespace(problem.reference), fitted.model
        with np.errstate(over="ignore"):
            dual_coef = back(xp.astype(model.alpha, xp.float64) * problem.y_scale[None, :])
        intercept = back(problem.y_mean)
        check_finite_result(dual_coef, intercept, back(model.B))
        self.dual_coef_, self.intercept_ = dual_coef, intercept
        self.B_, self.centers_ = back(model.B), back(model.Z)
        self.bound_ = back(xp.astype(problem.bound, xp.float64) * problem.y_scale)
        self.kernel_ = problem.kernel.stretched(model.lengthscale)
        self.lengthscale_, self.ridge_ = model.lengthscale, float(model.ridge)
        self.feature_matrix_ = self.B_.T @ self.B_
        self._keep_directions(to_host(self.B_).T)
        self.learned_ = fitted.learned
        self.jitter_ = model.factor.jitter
        self.smallest_eigenvalue_ = model.factor.smallest_eigenvalue
        self._keep_steps(fitted.steps.history, fitted.status, _QUIET)
        self._warn(problem, fitted)

    def _warn(self, problem: HyperKernelProblem, fitted: Fitted) -> None:
        model, asked = fitted.model, self._centers.fit
        if not isinstance(asked, str) and asked > problem.n:
            warn(f"n_centers={asked} is more than the {problem.n} samples: all of them are centres")
        if model.factor.raised or fitted.steps.jitter_raised:
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
            warn(msg)

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
        rows = self._scaled_rows(X, xp.empty((0,), **like(self.B_)))
        operator = KernelOperator(self.kernel_, rows, self.centers_, self.B_)
        fitted = truncated(operator @ self.dual_coef_, self.bound_)
        return xp.astype(self.intercept_ + fitted, X.dtype)
