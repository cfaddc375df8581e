"""What the HKRR estimators share: parameters, what is kept of a fit, and predictions."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from gpukfl._array import (
    Array,
    array_namespace,
    beside,
    double_reference,
    in_double,
    to_host,
)
from gpukfl._checks import check_choice, check_kind, check_number
from gpukfl._places import Backend
from gpukfl._results import Status
from gpukfl._warnings import warn
from gpukfl.estimators._data import dual_coefficients, truncated
from gpukfl.estimators._features import LinearFeatures
from gpukfl.estimators._learner import Choice, SteppedLearner
from gpukfl.estimators._validation import check_finite_result, validate_samples
from gpukfl.estimators.hkrr._agop import GradientHKRR, Setting
from gpukfl.estimators.hkrr._attributes import ATTRIBUTES, TRIED
from gpukfl.estimators.hkrr._by_evidence import ByEvidence
from gpukfl.estimators.hkrr._description import describe
from gpukfl.estimators.hkrr._metric import KEPT_ROWS
from gpukfl.estimators.hkrr._problem import Belief, HyperKernelProblem
from gpukfl.estimators.hkrr._search import HKRR, Fitted
from gpukfl.estimators.hkrr._settings import Centers, HoldOut, Optimizer
from gpukfl.inspection import Description, Names
from gpukfl.kernels import Kernel, make_kernel
from gpukfl.linalg import eigvalsh
from gpukfl.methods import CRITERIA, AverageGradientOuterProduct, variances
from gpukfl.operators import KernelOperator, diagonal_map, mapped
from gpukfl.solvers import LBFGS, AlternatingGradient, ArmijoSearch, VariableProjection

STRUCTURES = ("full", "low_rank", "diagonal")
OPTIMIZERS = {"lbfgs": LBFGS, "varpro": VariableProjection, "agd": AlternatingGradient}
_ALL_OPTIMIZERS = {**OPTIMIZERS, "agop": AverageGradientOuterProduct}
_STEPS, _TOL = 100, 1e-4  # of an optimiser that is given by name
# No further progress is where a fit may well end, and so are as many maps as were asked for
_QUIET = (Status.CONVERGED, Status.STALLED, Status.EARLY_STOPPED, Status.DECIDED)


class HKRRBase(LinearFeatures, SteppedLearner):
    """The common part: parameters, what is kept of a fit, and predictions."""

    _tried = TRIED
    _predicts = "HKRR"
    _attributes = ATTRIBUTES
    _values = (Centers, HoldOut, ArmijoSearch, *_ALL_OPTIMIZERS.values())
    _renamed: ClassVar[dict[str, str]] = {
        "learn_lengthscale": "give lengthscale='auto' to learn it, or a number to keep",
        "center_selection": "give n_centers=Centers(selection=...)",
        "refit_centers": "give n_centers=Centers(refit=...)",
        "max_iter": "give optimizer=LBFGS(max_iter=...)",
        "tol": "give optimizer=LBFGS(tol=...)",
        "n_starts": "give criterion=HoldOut(n_starts=...)",
        "warm_start": "give criterion=HoldOut(warm_start=True)",
    }

    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        kernel: str | Kernel = "auto",
        ridge: float | str = "auto",
        lengthscale: float | str = "auto",
        n_centers: int | str | Centers = "auto",
        criterion: str | HoldOut = "hold_out",
        structure: str = "auto",
        optimizer: str | Optimizer | None = None,
        max_time: float | None = None,
        random_state: Any = None,
        backend: str | Backend = "auto",
        scaling: str | None = "auto",
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.ridge = ridge
        self.lengthscale = lengthscale
        self.n_centers = n_centers
        self.optimizer = optimizer
        self.criterion = criterion
        self.structure = structure
        self.max_time = max_time
        self.random_state = random_state
        self.backend = backend
        self.scaling = scaling
        self.verbose = verbose

    # ------------------------------------------------------------------ fitting

    def _method(self) -> HKRR | ByEvidence | GradientHKRR:
        whole = numbers.Integral
        check_number("n_components", self.n_components, kind=whole, low=1, also=("auto",))
        check_number("ridge", self.ridge, low=0, low_allowed=False, also=("auto",))
        check_number("lengthscale", self.lengthscale, low=0, low_allowed=False, also=("auto",))
        held_out = self._hold_out()
        warm = held_out is not None and held_out.warm_start
        any_kernel = isinstance(self.kernel, str) and self.kernel == "auto"
        settings = (ByEvidence if held_out is None else HKRR)(
            n_components=None if isinstance(self.n_components, str) else int(self.n_components),
            kernel=make_kernel("gaussian" if any_kernel else self.kernel),
            ridge=None if isinstance(self.ridge, str) else float(self.ridge),
            lengthscale=None if isinstance(self.lengthscale, str) else float(self.lengthscale),
            centers=self._centers,
            optimizer=self._optimizer(),
            n_starts=0 if held_out is None else int(held_out.n_starts),
            start=getattr(self, "B_", None) if warm else None,
            start_lengthscale=getattr(self, "lengthscale_", None) if warm else None,
            scaling=self.scaling,
            criterion="hold_out" if held_out is not None else str(self.criterion),
            structure=self._structure(held_out),
        )
        if not isinstance(settings.optimizer, AverageGradientOuterProduct):
            return settings
        if not isinstance(settings, HKRR) or self.structure != "auto":
            msg = (
                "expected criterion='hold_out' and structure='auto' with optimizer='agop', whose "
                "structure is AverageGradientOuterProduct's, got "
                f"criterion={self.criterion!r}, structure={self.structure!r}"
            )
            raise ValueError(msg)
        return GradientHKRR.of(settings, any_kernel=any_kernel)

    def _hold_out(self) -> HoldOut | None:
        """Give how to start where held-out rows judge, None where the evidence does."""
        if isinstance(self.criterion, HoldOut):
            return self.criterion
        check_kind("criterion", self.criterion, (HoldOut, str))
        check_choice("criterion", self.criterion, ("hold_out", *CRITERIA))
        return HoldOut() if self.criterion == "hold_out" else None

    def _structure(self, held_out: HoldOut | None) -> str:
        """Check what the criterion leaves open."""
        check_choice("structure", self.structure, ("auto", *STRUCTURES))
        chosen, given = self.structure, not isinstance(self.n_components, str)
        if chosen == "auto":
            chosen = "diagonal" if held_out is None and not given else "low_rank"
        if held_out is not None and chosen == "diagonal":
            msg = (
                "expected structure to be 'full' or 'low_rank' with criterion='hold_out', got "
                "'diagonal', which goes with 'evidence' and 'loo'"
            )
            raise ValueError(msg)
        if given and chosen != "low_rank":
            msg = (
                f"expected n_components='auto' with structure={chosen!r}, which has as many as "
                f"features, got {self.n_components!r}"
            )
            raise ValueError(msg)
        if held_out is None and not isinstance(self.lengthscale, str):
            msg = (
                f"expected lengthscale='auto' with criterion={self.criterion!r}, which learns it, "
                f"got {self.lengthscale!r}"
            )
            raise ValueError(msg)
        return chosen

    @property
    def _centers(self) -> Centers:
        return self.n_centers if isinstance(self.n_centers, Centers) else Centers(self.n_centers)

    def _optimizer(self) -> Optimizer:
        given = "lbfgs" if self.optimizer is None else self.optimizer
        if isinstance(given, str):
            check_choice("optimizer", given, tuple(_ALL_OPTIMIZERS))
            if given == "agop":
                return AverageGradientOuterProduct()
            return OPTIMIZERS[given](max_iter=_STEPS, tol=_TOL)
        check_kind("optimizer", given, (*_ALL_OPTIMIZERS.values(), str, type(None)))
        return given

    def _keep(
        self,
        problem: HyperKernelProblem,
        fitted: Fitted,
        choice: Choice[Any, Any],  # noqa: ARG002
        back: Callable[[Array], Array],
    ) -> None:
        xp, model = array_namespace(problem.reference), fitted.model
        # What does not vary plays no part, whatever the map says
        model = replace(model, B=model.B * beside(problem.rows.varying() * 1.0, model.B))
        self.intercept_ = intercept = back(problem.y_mean)
        self.dual_coef_ = dual_coefficients(model.alpha, problem, intercept)
        check_finite_result(back(self.dual_coef_), intercept, back(model.B))
        self.map_, self.centers_ = back(model.B), back(model.Z)
        self.bound_ = back(xp.astype(problem.bound, xp.float64) * problem.y_scale)
        self.kernel_ = problem.kernel.stretched(model.lengthscale)
        self.lengthscale_, self.ridge_ = model.lengthscale, float(model.ridge)
        self._keep_directions(problem.gradients(model).T, self.map_)
        self.learned_ = fitted.learned
        self.jitter_ = model.jitter.size
        self._keep_belief(problem, fitted.belief, back)
        self._keep_steps(fitted.steps.history, fitted.status, _QUIET)
        self._warn(problem, fitted)

    def _settled(self, choice: Choice[Any, Any], fitted: Fitted) -> Any:
        if fitted.metric is not None:
            return fitted.metric
        found, few = choice.setting, self._n_samples < KEPT_ROWS
        if isinstance(found, Setting):  # of gradients, not of the grid
            found = replace(found, ridges=fitted.ridges, map=None if few else fitted.model.B)
        elif few:
            return found
        return replace(found, tuned=fitted.model.tuned)

    def _keep_belief(
        self, problem: HyperKernelProblem, belief: Belief | None, back: Callable[[Array], Array]
    ) -> None:
        """Set what variances are made of, in the units of the targets."""
        self.factor_: Array | None = None
        self.inner_factor_: Array | None = None
        self.evidence_ = self.amplitude_ = self.noise_ = None
        if belief is None:
            return
        xp = array_namespace(problem.y_scale)
        squares = xp.where(problem.varies, belief.squares, xp.zeros_like(belief.squares))
        amplitude = xp.sqrt(squares) * problem.y_scale
        self.amplitude_, self.noise_ = back(amplitude), back(belief.ratio**0.5 * amplitude)
        scales = float(xp.sum(xp.log(problem.y_scale)))
        self.evidence_ = belief.evidence - problem.n * scales

    def _keep_deviations(self, fitted: Fitted, back: Callable[[Array], Array], /) -> None:  # noqa: ARG002
        """Set matrices that are larger than all else together, in float64 as they were made."""
        if fitted.belief is None:
            return
        there = double_reference(self.map_)
        # In the order of a file's, so that what is loaded gives the same to the last bit
        self.factor_, self.inner_factor_ = (
            None if L is None else beside(np.ascontiguousarray(to_host(L)), there)
            for L in fitted.belief.factors
        )

    @property
    def B_(self) -> Array:  # noqa: N802
        """The learned map (n_components, n_features), as a matrix also where it is diagonal."""
        return diagonal_map(self.map_)

    @property
    def feature_matrix_(self) -> Array:
        """BᵀB (n_features, n_features), when it is asked for."""
        return diagonal_map(self.map_**2) if self.map_.ndim == 1 else self.map_.T @ self.map_

    @property
    def smallest_eigenvalue_(self) -> float:
        """Smallest eigenvalue of the centres' kernel matrix, in float64, when it is asked for."""
        return _smallest_eigenvalue(self.kernel_, self.centers_, self.map_)

    def _warn(self, problem: HyperKernelProblem, fitted: Fitted) -> None:
        model, asked = fitted.model, self._centers.fit
        if not isinstance(asked, str) and asked > problem.n:
            warn(f"n_centers={asked} is more than the {problem.n} samples: all of them are centres")
        if model.jitter.raised:  # of what predicts: steps on the way only lead to a map
            lowest = _smallest_eigenvalue(self.kernel_, model.Z, model.B)  # where the fit was
            fewer = "n_centers" if self._centers.refit is None else "refit_centers"
            msg = (
                "the kernel matrix of the centres is singular in this precision (smallest "
                f"eigenvalue {lowest:.1e}): {model.jitter.size:.1e} of its mean diagonal was added "
                f"to its diagonal in the last fit; a smaller number of {fewer} needs less"
            )
            warn(msg, ConvergenceWarning)
        belief, metric = fitted.belief, fitted.metric
        if belief is not None and metric is not None and belief.ratio > metric.ratio:
            msg = (
                f"noise of {metric.ratio:.1e} of the function's variance is below the rounding of "
                f"sums over the samples: {belief.ratio:.1e} is taken"
            )
            warn(msg, ConvergenceWarning)
        tuned = model.tuned
        at_edge = tuned is not None and len(tuned.path.ridges) > 1 and not tuned.path.brackets
        if at_edge and problem.rows.varying().any():
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
        centers, B = to_host(self.centers_).astype(float), to_host(self.map_).astype(float)
        middle = centers.mean(axis=0)
        directions = to_host(self.components_).astype(float)[:count]
        along = (centers - middle) @ directions.T
        steps = np.linspace(along.min(axis=0), along.max(axis=0), points, axis=1)
        X = middle + steps[:, :, None] * directions[:, None, :]
        K = self.kernel_(mapped(X.reshape(-1, X.shape[-1]), B), mapped(centers, B))
        fitted = truncated(K @ to_host(self.dual_coef_), to_host(self.bound_))
        values = to_host(self.intercept_) + fitted
        return steps, values.reshape(len(steps), points, fitted.shape[1])

    # ------------------------------------------------------------------ prediction

    def _deviations(self, X: Any) -> Array:
        """Give the root mean squares (n, t) of new targets at `X` less the predictions.

        These are cut off: how much of the mean is lost by that counts beside the variance.
        """
        if self.factor_ is None:
            msg = (
                "expected criterion='evidence' or 'loo' for standard deviations, and a model that "
                "is neither compressed nor a member of a blend, got "
                f"criterion={self.criterion!r} and no factor_"
            )
            raise ValueError(msg)
        X = validate_samples(self, X, reset=False, method="predict")
        operator, factor, inner = self._operator_at(X), self.factor_, self.inner_factor_
        xp, parts = array_namespace(factor), []
        given = *self._spreads(), self.dual_coef_, self.bound_
        amplitude, noise, alpha, bound = map(in_double, given)

        def compute(start: int, stop: int) -> Array:
            U = operator.project(operator.rows.block(start, stop))
            K = operator.values(start, stop, U)
            variance = variances(self.kernel_.diagonal(U), K, factor, inner)[:, None]
            mean = K @ alpha
            lost = mean - truncated(mean, bound)
            return xp.sqrt(amplitude**2 * variance + noise**2 + lost**2)

        operator.over_blocks(compute, lambda _start, _stop, part: parts.append(part))
        return xp.astype(xp.concat(parts, axis=0), X.dtype)

    def _spreads(self) -> tuple[Array, Array]:
        """Give the deviations of functions and noise of a model that has them."""
        assert self.amplitude_ is not None
        assert self.noise_ is not None
        return self.amplitude_, self.noise_

    def _operator_at(self, X: Array) -> KernelOperator:
        rows = self._scaled_rows(X, double_reference(self.map_))
        return KernelOperator(self.kernel_, rows, in_double(self.centers_), in_double(self.map_))


def _smallest_eigenvalue(kernel: Kernel, Z: Array, B: Array, /) -> float:
    """Smallest eigenvalue of the kernel matrix of centres `Z` under the map `B`, in float64."""
    U = mapped(in_double(Z), in_double(B))
    return float(eigvalsh(kernel(U, U))[0])
