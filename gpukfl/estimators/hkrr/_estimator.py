"""HKRR as scikit-learn estimators."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, TypedDict

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from gpukfl.core._annotations import AnyValue, Choice, Count, Doubles, Floats, Sometimes
from gpukfl.core._array import (
    Array,
    array_namespace,
    asarray_like,
    double_reference,
    to_double,
    to_host,
)
from gpukfl.core._checks import check_choice, check_kind, check_number
from gpukfl.core._places import Backend
from gpukfl.core._results import Status
from gpukfl.core._warnings import warn
from gpukfl.estimators._base import OF_EVERY_FIT, ArrayRegressor
from gpukfl.estimators._calibration import Calibration, SoftmaxCalibration
from gpukfl.estimators._classifier import CLASS_WEIGHT, OF_CLASSIFIERS, OneHotClassifier
from gpukfl.estimators._dask import run_on_data_device
from gpukfl.estimators._data import rescale_dual_coefficients, truncate
from gpukfl.estimators._features import LinearFeatures, profile_curves
from gpukfl.estimators._fitted import Tried, held
from gpukfl.estimators._learner import SearchResult, SteppedLearner
from gpukfl.estimators._reweighting import LOSS
from gpukfl.estimators._validation import check_finite_result, validate_samples
from gpukfl.estimators.hkrr._data import HyperKernelProblem, SolvedModel
from gpukfl.estimators.hkrr._fit import HKRR, EvidenceHKRR, GradientHKRR, HKRRResult
from gpukfl.estimators.hkrr._metric import KEPT_ROWS
from gpukfl.estimators.hkrr._settings import (
    LOGISTIC,
    Centers,
    GradientSetting,
    HoldOut,
    HyperKernelSetting,
    KnownMetric,
    Optimizer,
    TunedRefit,
)
from gpukfl.estimators.scaling import SCALING, SCALING_ATTRIBUTE, SCALINGS
from gpukfl.inspection import Description, Directions, Importances, Names, Objective
from gpukfl.kernels import ColumnBlock, Kernel, KernelTerms, make_kernel, sum_terms
from gpukfl.linalg import eigvalsh
from gpukfl.methods import CRITERIA, AverageGradientOuterProduct, MetricFit, variances
from gpukfl.operators import KernelOperator, apply_map, diagonal_map
from gpukfl.predictor import KernelSum
from gpukfl.solvers import LBFGS, AlternatingGradient, ArmijoSearch, VariableProjection
from gpukfl.tables._monotone import MONOTONE

# ------------------------------------------------------------------------------ attributes


class HKRRTried(Tried):
    """A setting that was tried."""

    n_components: Annotated[int, Count()]
    ridge: float
    learned: bool


class LastFit(TypedDict):
    """How the last fit of a map's coefficients ended."""

    way: Annotated[str, Choice(("factor", "products", "centers"))]
    rows: Annotated[int, Count()]
    products: Annotated[int, Count()]
    residual: Annotated[float, AnyValue()] | None
    error: Annotated[float, AnyValue()] | None
    centers_error: Annotated[float, AnyValue()] | None


def describe_last_fit(model: SolvedModel, n: int, /) -> LastFit:
    """Return how the last fit to n rows ended."""
    found = model.solution
    if found is None:
        return LastFit(
            way="factor" if model.Z.shape[0] == n else "centers",
            rows=n,
            products=0,
            residual=None,
            error=None,
            centers_error=None,
        )
    held = found.centers_error
    return LastFit(
        way="factor" if found.by_factor else "products",
        rows=n,
        products=found.n_iter,
        residual=found.residual,
        error=math.sqrt(min(found.errors)) if found.errors else None,
        centers_error=None if held is None else math.sqrt(held),
    )


# ----------------------------------------------------------------------------- description

_FEW = 3  # targets whose noise is shown
_MAPS = {
    "evidence": "of the highest evidence",
    "loo": "of the lowest leave-one-out error",
    "logistic": "of the highest evidence of classes",
}


def describe(e: Any, names: Names, /) -> Description:
    """Describe a fitted estimator whose arrays are NumPy's."""
    features, importances = names.features, e.feature_importances_
    kernel = kernel_text(e.kernel_)
    start = f" (map: {map_text(e)})" if not e.learned_ or e.evidence_ is not None else ""
    return Description(
        **e._fit_fields(names, along="ridge", beside=("n_components",)),
        text=(
            f"{kernel} kernel of {e.map_.shape[0]} components{start}, "
            f"{e.centers_.shape[0]} centres, ridge {e.ridge_:.3g}"
            + "".join(f", {value}" for value in _last_fit_facts(e).values())
            + "".join(f", {name} {value}" for name, value in _posterior_facts(e).items())
        ),
        products="by blocks",
        facts={
            "kernel": kernel,
            "components": e.map_.shape[0],
            "map": map_text(e),
            "centres": e.centers_.shape[0],
            "ridge": f"{e.ridge_:.4g}",
            "lengthscale": f"{e.lengthscale_:.4g}",
            "jitter": f"{e.jitter_:.1e}",
            **_last_fit_facts(e),
            **_posterior_facts(e),
        },
        note=(
            "A direction's loadings are the weights of the columns in it. A profile is the "
            "prediction along one learned direction, through the middle of the centres."
        ),
        panels=(
            Importances(features, importances, "root mean squares of the derivatives"),
            Directions(features, e.components_, importances),
            profile_curves(e, names),
            Objective(tuple(e.history_.objective)),
        ),
    )


def _last_fit_facts(e: Any) -> dict[str, str]:
    """Return how a last fit with all rows as centres ended; {} for models from older files."""
    found: LastFit | None = getattr(e, "last_fit_", None)
    if found is None or found["residual"] is None:
        return {}
    text = (
        f"all {found['rows']} rows by {'a factor and ' * (found['way'] == 'factor')}"
        f"{found['products']} products to a residual of {found['residual']:.1e}"
    )
    if found["error"] is not None and found["centers_error"] is not None:
        text += (
            f" (error on rows held out {found['error']:.3g}, by centres "
            f"{found['centers_error']:.3g})"
        )
    return {"last fit": text}


def _posterior_facts(e: Any) -> dict[str, str]:
    """Return noise and evidence of a Gaussian process as facts, if there is one."""
    if e.evidence_ is None:
        return {}
    if e.noise_ is None:
        return {"evidence": f"{e.evidence_:.1f} nats"}
    ends = ", ".join(f"{value:.4g}" for value in e.noise_.tolist()[:_FEW])
    more = ", ..." if len(e.noise_) > _FEW else ""
    return {"evidence": f"{e.evidence_:.1f} nats", "noise of standard deviation": ends + more}


def kernel_text(kernel: Kernel, /) -> str:
    """Return the name of a kernel, or of the terms of a sum with their shares."""
    terms = KernelTerms.from_kernel(kernel)
    names = [
        type(one.kernel if isinstance(one, ColumnBlock) else one).__name__ for one in terms.kernels
    ]
    if len(names) == 1:
        return type(kernel).__name__
    return " + ".join(f"{w:.2g} {name}" for w, name in zip(terms.shares, names, strict=True))


def map_text(e: Any, /) -> str:
    """Return in words where the linear map comes from."""
    if e.evidence_ is not None and e.learned_:
        shape = "diagonal, " if e.map_.ndim == 1 else ""
        if e.structure == "diagonals" or e._n_scalings > 1:
            shape = "diagonal for each term, "
        return shape + _MAPS[e.criterion]
    if e.learned_:
        return "optimised"
    done = (Status.CONVERGED.name, Status.EARLY_STOPPED.name, Status.DECIDED.name)
    gained_nothing = e.tuning_ and e.status_ in done
    return "the best start: optimising gained nothing" if gained_nothing else "not optimised"


# ------------------------------------------------------------------------------------ base

STRUCTURES = ("full", "low_rank", "diagonal", "diagonals")
OPTIMIZERS = {"lbfgs": LBFGS, "varpro": VariableProjection, "agd": AlternatingGradient}
_ALL_OPTIMIZERS = {**OPTIMIZERS, "agop": AverageGradientOuterProduct}
_STEPS, _TOL = 100, 1e-4  # of an optimiser given by name
# Statuses without a warning
_QUIET = (Status.CONVERGED, Status.STALLED, Status.EARLY_STOPPED, Status.DECIDED)


class HKRRBase(LinearFeatures, SteppedLearner):
    """The base of regressor and classifier: parameters, fitted attributes and predictions."""

    map_: Array = held("values.B")
    centers_: Array = held("values.centers")
    dual_coef_: Array = held("values.coef")
    bound_: Array = held("values.bound")
    kernel_: Kernel = held("values.kernel")
    _describe = describe
    lengthscale_: float
    ridge_: float
    jitter_: float
    learned_: bool
    evidence_: float | None
    amplitude_: Annotated[Array, Floats("n_targets")] | None
    noise_: Annotated[Array, Floats("n_targets")] | None
    factor_: Annotated[Array, Doubles("n_known", "n_known")] | None
    inner_factor_: Annotated[Array, Doubles("n_known", "n_known")] | None
    tuning_: list[HKRRTried]
    last_fit_: Annotated[LastFit, Sometimes()]  # not in older files
    _for_inference = ("factor_", "inner_factor_")
    _values = (
        *(Centers, HoldOut, ArmijoSearch, *_ALL_OPTIMIZERS.values()),
        *(HyperKernelSetting, GradientSetting, KnownMetric, TunedRefit),
    )
    _renamed: ClassVar[dict[str, str]] = {
        "learn_lengthscale": "pass lengthscale='auto' to learn it, or a number to keep",
        "center_selection": "pass n_centers=Centers(selection=...)",
        "refit_centers": "pass n_centers=Centers(refit=...)",
        "max_iter": "pass optimizer=LBFGS(max_iter=...)",
        "tol": "pass optimizer=LBFGS(tol=...)",
        "n_starts": "pass criterion=HoldOut(n_starts=...)",
        "warm_start": "pass criterion=HoldOut(warm_start=True)",
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
        scaling: str | Sequence[str] | None = "auto",
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

    def _method(self) -> HKRR | EvidenceHKRR | GradientHKRR:
        whole = numbers.Integral
        check_number("n_components", self.n_components, kind=whole, low=1, also=("auto",))
        check_number("ridge", self.ridge, low=0, low_allowed=False, also=("auto",))
        check_number("lengthscale", self.lengthscale, low=0, low_allowed=False, also=("auto",))
        held_out = self._hold_out()
        warm = held_out is not None and held_out.warm_start
        any_kernel = self._mother_kernel is not self.kernel
        settings = (EvidenceHKRR if held_out is None else HKRR)(
            n_components=None if isinstance(self.n_components, str) else int(self.n_components),
            kernel=make_kernel(self._mother_kernel),
            ridge=None if isinstance(self.ridge, str) else float(self.ridge),
            lengthscale=None if isinstance(self.lengthscale, str) else float(self.lengthscale),
            centers=self._centers,
            optimizer=self._optimizer(),
            n_starts=0 if held_out is None else int(held_out.n_starts),
            start=getattr(self, "B_", None) if warm else None,
            start_lengthscale=getattr(self, "lengthscale_", None) if warm else None,
            scaling=self._scalings or self.scaling,
            criterion="hold_out" if held_out is not None else str(self.criterion),
            structure=self._structure(held_out),
        )
        if not isinstance(settings.optimizer, AverageGradientOuterProduct):
            return settings
        if not isinstance(settings, HKRR) or self.structure != "auto":
            msg = (
                "expected criterion='hold_out' and structure='auto' with optimizer='agop', got "
                f"criterion={self.criterion!r}, structure={self.structure!r}"
            )
            raise ValueError(msg)
        return GradientHKRR.from_settings(settings, any_kernel=any_kernel)

    @property
    def _mother_kernel(self) -> str | Kernel:
        automatic = isinstance(self.kernel, str) and self.kernel == "auto"
        return "gaussian" if automatic else self.kernel

    @property
    def _scalings(self) -> tuple[str, ...]:
        """The scalings of the kernel's terms; empty if all have the same."""
        several = isinstance(self.scaling, (list, tuple))
        return tuple(self.scaling) if several else ()

    def _check_scaling(self) -> None:
        if not isinstance(self.scaling, (list, tuple)):
            super()._check_scaling()
        elif not self.scaling:
            msg = f"expected a scaling, or one for each term of the kernel, got {self.scaling!r}"
            raise ValueError(msg)
        for word in self._scalings:
            check_choice("scaling", word, ("auto", *SCALINGS))

    def _hold_out(self) -> HoldOut | None:
        """Return the hold-out settings, or None if the evidence is maximised."""
        if isinstance(self.criterion, HoldOut):
            return self.criterion
        check_kind("criterion", self.criterion, (HoldOut, str))
        of_classes = (LOGISTIC,) if is_classifier(self) else ()
        check_choice("criterion", self.criterion, ("hold_out", *CRITERIA, *of_classes))
        return HoldOut() if self.criterion == "hold_out" else None

    def _structure(self, held_out: HoldOut | None) -> str:
        """Check the parameters that depend on the criterion."""
        check_choice("structure", self.structure, ("auto", *STRUCTURES))
        chosen, given = self.structure, not isinstance(self.n_components, str)
        if chosen == "auto":
            chosen = "diagonal" if held_out is None and not given else "low_rank"
            if self._scalings and chosen == "diagonal":
                chosen = "diagonals"
        if held_out is not None and chosen in ("diagonal", "diagonals"):
            msg = (
                "expected structure to be 'full' or 'low_rank' with criterion='hold_out', got "
                f"{chosen!r}, which needs criterion='evidence' or 'loo'"
            )
            raise ValueError(msg)
        self._check_terms(chosen)
        if given and chosen != "low_rank":
            msg = (
                f"expected n_components='auto' with structure={chosen!r}, which has one for each "
                f"feature, got {self.n_components!r}"
            )
            raise ValueError(msg)
        if held_out is None and not isinstance(self.lengthscale, str):
            msg = (
                f"expected lengthscale='auto' with criterion={self.criterion!r}, which learns it, "
                f"got {self.lengthscale!r}"
            )
            raise ValueError(msg)
        return chosen

    def _check_terms(self, structure: str) -> None:
        """Check that structure and scalings are valid for the kernel's terms."""
        count = len(sum_terms(make_kernel(self._mother_kernel)))
        if self._scalings and structure != "diagonals":
            msg = (
                f"expected one scaling, got scaling={self.scaling!r}: several, one for each term "
                "of a sum of kernels, need structure='diagonals' and criterion='evidence', 'loo' "
                "or 'logistic'"
            )
            raise ValueError(msg)
        if structure == "diagonals" and count == 1:
            msg = (
                "expected kernel to be a sum, such as Matern52() + 0.2 * Matern32(0.3), with "
                f"structure='diagonals', got {self.kernel!r}"
            )
            raise ValueError(msg)
        if self._scalings and len(self._scalings) != count:
            msg = (
                f"expected {count} scalings, one for each term of the kernel, got {self.scaling!r}"
            )
            raise ValueError(msg)

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
        fitted: HKRRResult,
        choice: SearchResult[Any, Any],  # noqa: ARG002
        back: Callable[[Array], Array],
    ) -> KernelSum:
        model = fitted.model
        # Constant features have no influence
        model = replace(model, B=model.B * asarray_like(problem.rows.varying() * 1.0, model.B))
        offsets = 0.0 if model.offsets is None else model.offsets
        intercept, B = back(problem.y_mean + offsets), back(model.B)
        coef = rescale_dual_coefficients(model.alpha, problem, intercept)
        check_finite_result(back(coef), intercept, B)
        self.lengthscale_, self.ridge_ = model.lengthscale, float(model.ridge)
        count, gradients = problem.n_scalings, problem.gradients(model)
        along = gradients.reshape(len(gradients), count, -1).sum(axis=1)
        self._keep_directions(along.T, B)
        self.learned_ = fitted.learned
        self.jitter_ = model.jitter.size
        self.last_fit_ = describe_last_fit(model, problem.n)
        self._keep_belief(problem, fitted, back)
        self._keep_steps(fitted.steps.history, fitted.status, _QUIET)
        self._warn(problem, fitted)
        return KernelSum(
            intercept=intercept,
            scaling=problem.scaling,
            kernel=problem.model_kernel(model).stretched(model.lengthscale),
            centers=back(model.Z),
            coef=coef,
            B=B,
            bound=back(problem.to_target_units(problem.bound)),
        )

    def _warm_setting(
        self, choice: SearchResult[Any, Any], fitted: HKRRResult, *, alike: bool = False
    ) -> Any:
        if fitted.metric is not None:
            return fitted.metric
        found, few = choice.setting, self._n_samples < KEPT_ROWS and not alike
        if isinstance(found, GradientSetting):
            found = replace(found, ridges=fitted.ridges, map=None if few else fitted.model.B)
        elif few:
            return found
        return replace(found, tuned=fitted.model.tuned)

    def _stored_setting(self, setting: Any, /) -> Any:
        if isinstance(setting, HyperKernelSetting):  # `map_` is saved already
            return replace(setting, map=None)
        return KnownMetric.from_fit(setting) if isinstance(setting, MetricFit) else setting

    def _restored_setting(self) -> Any:
        known = self._setting
        if isinstance(known, HyperKernelSetting):
            return replace(known, map=self.map_, lengthscale=float(self.lengthscale_))
        return known.to_fit() if isinstance(known, KnownMetric) else known

    def _keep_belief(
        self,
        problem: HyperKernelProblem,
        fitted: HKRRResult,
        back: Callable[[Array], Array],
    ) -> None:
        """Set the attributes for variances, in the units of the targets."""
        self.factor_ = self.inner_factor_ = None
        self.evidence_ = self.amplitude_ = self.noise_ = None
        belief, latent = fitted.belief, fitted.latent
        if latent is not None:
            self.evidence_, self.amplitude_ = latent.evidence, back(latent.amplitudes)
        if belief is None:
            return
        xp = array_namespace(problem.y_scale)
        squares = xp.where(problem.varies, belief.squares, xp.zeros_like(belief.squares))
        amplitude = xp.sqrt(squares) * problem.y_scale
        self.amplitude_, self.noise_ = back(amplitude), back(belief.ratio**0.5 * amplitude)
        scales = float(xp.sum(xp.log(problem.y_scale)))
        self.evidence_ = belief.evidence - problem.n * scales

    def _keep_deviations(self, fitted: HKRRResult, back: Callable[[Array], Array], /) -> None:  # noqa: ARG002
        """Set the large matrices for variances, in float64."""
        if fitted.belief is None:
            return
        there = double_reference(self.map_)
        # Contiguous as in files, for bitwise equal results after loading
        self.factor_, self.inner_factor_ = (
            None if L is None else asarray_like(np.ascontiguousarray(to_host(L)), there)
            for L in fitted.belief.factors
        )

    @property
    def B_(self) -> Array:  # noqa: N802
        """The learned map (n_components, n_features), as a matrix also where it is diagonal."""
        return diagonal_map(self._map_of_features)

    @property
    def _map_of_features(self) -> Array:
        """The map, or the diagonals (s, 1, n_features) of terms with their own scalings."""
        B, count = self.map_, self._n_scalings
        return B if count == 1 else array_namespace(B).reshape(B, (count, 1, -1))

    @property
    def _n_scalings(self) -> int:
        return 1 if self.scaling_ is None else len(self.scaling_.parts)

    @property
    def _projection(self) -> Array:
        """The projection of scaled rows; several scalings of a feature are averaged."""
        count = self._n_scalings
        if count == 1:
            return self.components_
        xp = array_namespace(self.components_)
        return xp.concat([self.components_ / count] * count, axis=1)

    @property
    def feature_matrix_(self) -> Array:
        """The matrix BᵀB (n_features, n_features), computed on access."""
        B = self._map_of_features
        return diagonal_map(B**2) if B.ndim == 1 else diagonal_map(B).T @ diagonal_map(B)

    @property
    def smallest_eigenvalue_(self) -> float:
        """Smallest eigenvalue of the centres' kernel matrix in float64, computed on access."""
        return _smallest_eigenvalue(self.kernel_, self.centers_, self.map_)

    def _warn(self, problem: HyperKernelProblem, fitted: HKRRResult) -> None:
        model, asked = fitted.model, self._centers.fit
        if not isinstance(asked, str) and asked > problem.n:
            warn(
                f"n_centers={asked} is more than the {problem.n} rows: all rows are used as centres"
            )
        if model.jitter.raised:  # in the final solve, not in steps before it
            kernel = problem.kernel.stretched(model.lengthscale)
            lowest = _smallest_eigenvalue(kernel, model.Z, model.B)  # on the place of the fit
            fewer = "n_centers" if self._centers.refit is None else "refit_centers"
            msg = (
                "the kernel matrix of the centres is singular in this precision (smallest "
                f"eigenvalue {lowest:.1e}). The last fit added {model.jitter.size:.1e} of its mean "
                f"diagonal to the diagonal: to avoid this, use a smaller {fewer}"
            )
            warn(msg, ConvergenceWarning)
        belief, metric = fitted.belief, fitted.metric
        if belief is not None and metric is not None and belief.ratio > metric.ratio:
            msg = (
                f"noise of {metric.ratio:.1e} of the function's variance is below the rounding of "
                f"sums over the rows: {belief.ratio:.1e} is used instead"
            )
            warn(msg, ConvergenceWarning)
        tuned = model.tuned
        at_edge = tuned is not None and len(tuned.path.ridges) > 1 and not tuned.path.brackets
        if at_edge and problem.rows.varying().any():
            msg = (
                f"the best ridge of the last fit, {model.ridge:.1e}, is at the edge of those tried"
            )
            warn(msg)

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
        projection = to_host(self._projection).astype(float)[:count]
        along = (centers - middle) @ projection.T
        steps = np.linspace(along.min(axis=0), along.max(axis=0), points, axis=1)
        directions = self._n_scalings * projection  # all scalings of a feature move alike
        X = middle + steps[:, :, None] * directions[:, None, :]
        K = self.kernel_(apply_map(X.reshape(-1, X.shape[-1]), B), apply_map(centers, B))
        fitted = truncate(K @ to_host(self.dual_coef_), to_host(self.bound_))
        values = to_host(self.intercept_) + fitted
        return steps, values.reshape(len(steps), points, fitted.shape[1])

    # ------------------------------------------------------------------ prediction

    def _deviations(self, X: Any) -> Array:
        """Return the predictive standard deviations (n, t) of new targets at `X`.

        The part of the mean that clipping removes is added to the variance.
        """
        if self.factor_ is None:
            msg = (
                "expected a fit with criterion='evidence' or 'loo' for standard deviations, got "
                f"criterion={self.criterion!r}, and no factor_. Compressed models, models of a "
                "blend and those saved with record=False have no standard deviations"
            )
            raise ValueError(msg)
        X = validate_samples(self, X, reset=False, method="predict")
        operator, factor, inner = self._make_operator(X), self.factor_, self.inner_factor_
        xp, parts = array_namespace(factor), []
        assert self.amplitude_ is not None
        assert self.noise_ is not None
        given = self.amplitude_, self.noise_, self.dual_coef_, self.bound_
        amplitude, noise, alpha, bound = map(to_double, given)

        def compute(start: int, stop: int) -> Array:
            U = operator.project(operator.rows.block(start, stop))
            K = operator.values(start, stop, U)
            known = K[:, : factor.shape[0]]  # of the centres of the variances
            variance = variances(self.kernel_.diagonal(U), known, factor, inner)[:, None]
            mean = K @ alpha
            lost = mean - truncate(mean, bound)
            return xp.sqrt(amplitude**2 * variance + noise**2 + lost**2)

        operator.for_each_block(compute, lambda _start, _stop, part: parts.append(part))
        return xp.astype(xp.concat(parts, axis=0), X.dtype)

    def _make_operator(self, X: Array) -> KernelOperator:
        rows = self._scaled_rows(X, double_reference(self.map_))
        return KernelOperator(self.kernel_, rows, to_double(self.centers_), to_double(self.map_))


def _smallest_eigenvalue(kernel: Kernel, Z: Array, B: Array, /) -> float:
    """Return the smallest eigenvalue of the kernel matrix of centres `Z` under the map `B`."""
    U = apply_map(to_double(Z), to_double(B))
    return float(eigvalsh(kernel(U, U))[0])


_PARAMETERS = (
    """
    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number k of rows of the linear map B, at most the number of features. "auto" is chosen with
        the ridge on held-out rows. Too few cost much accuracy, some more than needed little.
    kernel : str or Kernel, default="auto"
        The mother kernel; "auto" is "gaussian", and with "agop" ``PowerExponential(order=1.5)``.
        Others are "brownian", "gaussian_mixture", "inverse_manhattan", "inverse_multiquadric",
        "laplace", "linear", "manhattan_laplace", "manhattan_mixture", "matern32", "matern52",
        "polynomial", "power_exponential", "rational_quadratic", or a value, such as
        ``Gaussian() + 0.1 * Linear()``. With "evidence" and "loo", the factors and lengthscales of
        the terms of a sum are where the search begins: see `structure`.
    ridge : float or "auto", default="auto"
        Regularisation λ while the map is learned, positive, in units of the kernel. "auto" is
        chosen on held-out rows from a geometric grid. The final fit tunes it again on these rows.
    lengthscale : float or "auto", default="auto"
        Lengthscale of the kernel of Bx. "auto" starts at the median distance of the mapped rows and
        is learned with the map; the bound on B's norm then only fixes its unit. A number is fixed.
        "varpro" and "agd" fix it while the map is learned, as the paper does.
    n_centers : int, "auto" or Centers, default="auto"
        Number of Nyström centres while the map is learned; "auto" is 500, and none by evidence.
        ``Centers(fit, refit, selection)`` of `gpukfl.estimators.hkrr` also sets the centres of the
        final fit, and how they are drawn. By default, the final fit uses all of at most 20,000
        rows, or 200,000 on a GPU, if memory and time allow, else 2000.
    criterion : {"hold_out", "evidence", "loo", "logistic"} or HoldOut, default="hold_out"
        Criterion for the map, its lengthscale and the ridge. "hold_out" is the paper's: the
        training error, with held-out rows to choose components, ridge and steps.
        ``HoldOut(n_starts, warm_start)`` of `gpukfl.estimators.hkrr` also sets the starts.
        "evidence" is the marginal likelihood of a Gaussian process, of at most 2500 rows. If
        `n_centers` is a number, it is Titsias' bound of it with so many centres, of more rows. It
        holds nothing out, and has standard deviations. "loo" is the leave-one-out error in closed
        form, of at most 2500 rows. "logistic", for classifiers, is the evidence of the classes by
        Laplace's approximation, of at most 1000 rows; its functions are log odds. The last three
        use L-BFGS, whatever `optimizer` is.
    structure : {"auto", "full", "low_rank", "diagonal", "diagonals"}, default="auto"
        Structure of the map: any (d, d), one with `n_components` rows, or a lengthscale for each
        feature. The last needs "evidence", "loo" or "logistic". "auto" is "low_rank" with
        "hold_out" or a number of components, else "diagonal". For a sum of kernels, such as
        ``Matern52() + 0.2 * Matern32(0.3)``, "evidence" and "loo" learn each term's share of the
        variance, and its lengthscale relative to the first term. With "diagonals", each term has a
        lengthscale for each feature. Lengthscales, shares and noise have a weak prior: normal
        densities of their logarithms, centred at the typical distance of rows, the given kernel and
        5 % noise. With few rows, they stay near these.
    optimizer : {"lbfgs", "varpro", "agd", "agop"}, or a solver, optional
        L-BFGS on the reduced objective (7), the default; variable projection (Algorithm 3); or
        alternating gradient descent (Algorithm 4). "agop" does not descend. It starts at the
        identity, and sets the map to the root of the average gradient outer product of a fit, three
        times; the map that is best on held-out rows is kept. A value such as
        ``LBFGS(max_iter=100, tol=1e-4)``, the default, also sets the largest number of steps, and
        the relative gain at which it stops. If the number of components or the ridge is chosen,
        held-out rows choose the number of steps. `LBFGS`, `VariableProjection` and
        `AlternatingGradient` are in `gpukfl.solvers`. `AverageGradientOuterProduct` in
        `gpukfl.methods` also sets whether the map may rotate the features.
    max_time : float or None, default=None
        Time limit in seconds for tuning and optimisation; the best iterate is kept.
    random_state : int, RandomState or None, default=None
        Seed of the maps, centres and splits, which are drawn on the host.
    backend : {"auto", "numpy", "cupy", "torch"} or Backend, default="auto"
        Array library to compute with; "auto" uses that of X, and moves large NumPy data to a usable
        GPU. A `Backend` also sets the precision of kernel values while the map is learned. Sums
        over rows, linear systems of the centres, and the final fit are float64.
"""
    + SCALING
    + """        With "evidence", "loo" and "logistic", it may be a tuple of names, one for each
        term of a sum of kernels, such as ``("standard", "quantile")``. Each term then has its
        scaling of all features, with a lengthscale for each, as in ``structure="diagonals"``.
    verbose : int, default=0
        1 prints a line per iteration.
"""
)

_ATTRIBUTES = (
    """
    Attributes
    ----------
    B_ : array of shape (n_components, n_features)
        The learned map, of operator norm at most 1.
    map_ : array of shape (n_components, n_features), or (n_features,)
        The same as it is kept: of ``structure="diagonal"`` the diagonal alone; of "diagonals" those
        of all terms, one below the other, ``n_terms * n_features`` rows; where each term has its
        scaling, these diagonals one after the other, (n_terms * n_features,).
    centers_ : array of shape (n_centers, n_features)
        Centres, on the scale of the standardised features; of several scalings side by side,
        (n_centers, n_terms * n_features).
    dual_coef_ : array of shape (n_centers, n_targets)
        α.
    intercept_ : array of shape (n_targets,)
        Mean of the targets.
    bound_ : array of shape (n_targets,)
        Largest deviation of a target from its mean: predictions are truncated to it.
    kernel_, lengthscale_, ridge_ : Kernel, float, float
        Of the last fit.
    feature_matrix_ : array of shape (n_features, n_features)
        BᵀB: which directions of two samples tell them apart.
    feature_importances_ : array of shape (n_features,)
        Root mean squares of the derivatives of the function by scaled features at some samples,
        summing to 1. Several scalings of a feature move alike: their derivatives are added up.
    components_, n_effective_features_ : array of shape (n_effective_features_, n_features), int
        Orthonormal directions in which the function varies, eigenvectors of its average gradient
        outer product, most first; and the estimated dimension, the number of those whose root of
        an eigenvalue is at least a fifth of the largest.
"""
    + SCALING_ATTRIBUTE
    + """        Of several its `parts` are these, and it returns their columns side by side.
    learned_ : bool
        Whether the map was optimised. Where the search for components or a ridge finds, on held-out
        samples, no gain over the best start of more than its standard error, that is kept.
    tuning_ : list of dict
        Settings tried: scores on held-out samples with their standard errors, seconds, and which
        was chosen.
    history_ : History
        Objective, step, norm of the gradient and seconds of every iteration.
    n_iter_, status_ : int, str
        Iterations of the final optimisation, and how it ended.
    evidence_ : float or None
        Log marginal likelihood of the targets less their mean, or the bound of it, in nats; None
        with "hold_out".
    amplitude_, noise_ : arrays of shape (n_targets,) or None
        Standard deviations of the function and of the noise of a sample of weight 1, in units of
        the targets, of the Gaussian process.
    factor_, inner_factor_ : arrays of shape (n_known, n_known) or None
        Lower triangular L and N, by which the variance of the function at x is
        ``amplitude_**2 * (k(x, x) - h @ h)`` where all samples are centres, with
        ``h = solve(L, k_x)``, and ``amplitude_**2 * (k(x, x) - h @ h + g @ g)``, with
        ``g = solve(N, h)``, where some are: k_x is of the first ``n_known`` centres. None also of
        members of a blend.
    jitter_, smallest_eigenvalue_ : float, float
        What was added to the diagonal of the centres' kernel matrix, relative to its mean, and
        that matrix's smallest eigenvalue: Theorem 4 asks that it stays away from 0.
    last_fit_ : dict
        How the last fit ended: its ``way``, "factor" or "products" with all rows as centres, or
        "centers"; ``rows``; ``products`` with the kernel matrix; and the largest ``residual`` of a
        target, relative to it. Where rows were held out, their ``error`` and ``centers_error``, by
        all other rows and by the centres alone, are roots in units of their targets. What was not
        computed is None. Files of older fits have none.
"""
)

_REFERENCES = """
    Notes
    -----
    An iteration takes two passes over the samples, of which at most 20,000 are drawn for it:
    O(n q (q + k + t)) for q centres, a block of rows in memory. Rows may be a NumPy memory map.

    References
    ----------
    .. [1] Huang, Labarrière, De Vito, Poggio and Rosasco, "Learning Multi-Index Models with
       Hyper-Kernel Ridge Regression".
    .. [2] Radhakrishnan, Beaglehole, Pandit and Belkin, "Mechanism of feature learning in deep
       fully connected networks and kernel machines that recursively learn features", 2022.
"""


class HKRRRegressor(ArrayRegressor, HKRRBase):
    __doc__ = f"""Hyper-kernel ridge regression: kernel ridge regression of a learned linear map.

    f(x) = Σ_j α_j k(Bx, Bz_j), with B, α and the lengthscale learned together.
    {_PARAMETERS}{LOSS}{MONOTONE}{_ATTRIBUTES}{OF_EVERY_FIT}{_REFERENCES}
    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl import HKRRRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, (300, 5))
    >>> y = np.sin(3 * (X[:, 0] + X[:, 1]))
    >>> model = HKRRRegressor(1, ridge=1e-6, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.99)
    True
    """

    @run_on_data_device
    def predict(self, X: Any, return_std: bool = False) -> Array | tuple[Array, Array]:  # type: ignore[override]
        """Predict the targets.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.
        return_std : bool, default=False
            Also give the standard deviation of a new target, of the mean weight of those of the
            fit: of the function and the noise together, in units of the targets. It is that of the
            Gaussian process whose map and noise are taken for known, which only "evidence" and
            "loo" have. Where predictions are cut off at the largest deviation of the targets of the
            fit, as beyond their range, it is the root of the mean squared error that this makes. A
            model that was read from a file has it as its `estimator`.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_targets), or a tuple of two
            Predictions, of the library, device and dtype of X.

        Raises
        ------
        ValueError
            If standard deviations are asked of a model without.
        """
        predicted = super().predict(X)
        if not return_std:
            return predicted
        deviations = self._deviations(X)
        return predicted, deviations[:, 0] if self._one_target else deviations


class HKRRClassifier(OneHotClassifier, HKRRBase):
    __doc__ = f"""Hyper-kernel ridge regression for classification.

    Least squares on one-hot classes with a shared map; probabilities are calibrated on held-out
    samples. Any number of classes, any labels.
    {_PARAMETERS}{MONOTONE}{CLASS_WEIGHT}{_ATTRIBUTES}{OF_EVERY_FIT}{OF_CLASSIFIERS}{_REFERENCES}
    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpukfl import HKRRClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(HKRRClassifier(2, ridge=1e-3, random_state=0).fit(X, y).score(X, y) > 0.95)
    True
    """

    @property
    def _has_signs(self) -> bool:  # type: ignore[override]
        """Whether scores are log odds, 0 where two classes are as likely."""
        return isinstance(self.criterion, str) and self.criterion == LOGISTIC

    @property
    def _calibration_class(self) -> type[Calibration | SoftmaxCalibration]:  # type: ignore[override]
        """The class of the map from scores to probabilities."""
        return SoftmaxCalibration if self._has_signs else Calibration
