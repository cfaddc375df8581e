"""RegFeaL as scikit-learn estimators."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpukfl.core._annotations import Count, Doubles, Floats, Recorded
from gpukfl.core._array import (
    Array,
    array_namespace,
    asarray_like,
    double_like,
    double_reference,
    index_like,
    to_host,
)
from gpukfl.core._checks import check_choice, check_kind, check_number
from gpukfl.core._places import Backend
from gpukfl.core._results import Status
from gpukfl.estimators._base import OF_EVERY_FIT, ArrayRegressor
from gpukfl.estimators._classifier import CLASS_WEIGHT, OF_CLASSIFIERS, OneHotClassifier
from gpukfl.estimators._data import (
    BoundedPredictions,
    Data,
    draw_rows,
    prediction_bounds,
    rescale_dual_coefficients,
)
from gpukfl.estimators._features import DirectionProfiles, profile_curves
from gpukfl.estimators._fitted import Tried, held
from gpukfl.estimators._learner import SearchResult, SteppedLearner
from gpukfl.estimators._reweighting import LOSS
from gpukfl.estimators._validation import check_finite_result
from gpukfl.estimators.regfeal._fit import (
    RegFeaLMethod,
    RegFeaLProblem,
    RegFeaLResult,
    RetrainedModel,
    leading_columns,
)
from gpukfl.estimators.regfeal._settings import (
    Coordinates,
    RegFeaLSetting,
    check_retrain,
    farthest,
)
from gpukfl.estimators.scaling import SCALING, SCALING_ATTRIBUTE
from gpukfl.inspection import Degrees, Description, Directions, Eta, Importances, Names, Objective
from gpukfl.kernels import Kernel
from gpukfl.methods import (
    DegreeLaw,
    Reweighting,
    derivative_products,
    derivative_weights,
    eta_shares,
)
from gpukfl.predictor import Function, HermiteSum, KernelSum
from gpukfl.tables._monotone import MONOTONE

# ------------------------------------------------------------------------------ attributes


class RegFeaLTried(Tried):
    """A setting that was tried."""

    degree_decay: float | None
    max_degree: Annotated[int, Count()] | None
    strength: float
    prediction: str


# ----------------------------------------------------------------------------- description


def describe(e: Any, names: Names, /) -> Description:
    """Describe a fitted estimator whose arrays are NumPy's."""
    features, importances = names.features, e.feature_importances_
    law, last = DegreeLaw(e.degree_decay_, e.max_degree_).text, e._last_text()
    count = e.multi_indices_.shape[0]
    return Description(
        **e._fit_fields(
            names, along="strength", beside=("degree_decay", "max_degree", "prediction")
        ),
        text=f"{count} Hermite features, {law}, strength {e.strength_:g}, prediction by {last}",
        products="by blocks",
        facts={
            "selection of": e.selection,
            "Hermite features": count,
            "law of the tuples": law,
            "strength μ": f"{e.strength_:g} of d^-(2-r)/r",
            "prediction by": last,
            "largest degree": int(e.multi_indices_.sum(axis=1).max(initial=0)),
        },
        note=(
            "A direction's loadings are the weights of the columns in it. A profile is the "
            "prediction along one learned direction, through the middle of the data."
        ),
        panels=(
            Importances(features, importances, "root mean squares of the derivatives"),
            Directions(features, e.components_, importances),
            profile_curves(e, names),
            _eta_panel(e, names),
            _degrees_panel(e),
            Objective(tuple(e.history_.objective)),
        ),
    )


def _eta_panel(e: Any, names: Names) -> Eta:
    r = e._reweighting.exponent
    shares = e.eta_path_ ** (r / (2.0 - r))
    shares = shares / shares.sum(axis=1, keepdims=True)
    return Eta(shares, names.features if e.selection == "variables" else None)


def _degrees_panel(e: Any) -> Degrees:
    degrees = e.multi_indices_.sum(axis=1)
    squares = np.bincount(degrees, weights=(e.coef_**2).sum(axis=1).astype(np.float64))
    counts, total = np.bincount(degrees), squares.sum()
    return Degrees(counts / counts.sum(), squares / total if total > 0 else squares)


# ------------------------------------------------------------------------------------ base

SELECTIONS = ("features", "variables")
MAX_DEGREE = 40

_RIDGE = 1e-8  # the paper's λ, in units of d^(-(2-r)/r)
_RANGE_ROWS = 500  # sample for the range of profiles
_QUIET = (Status.CONVERGED,)


@dataclass(frozen=True, eq=False, kw_only=True)
class RegressorOfDirections(Function):
    """Predictions of a regressor of another library, on the learned directions.

    Attributes
    ----------
    regressor : regressor
        Fitted to standardised targets; `intercept` is their mean.
    B : array, shape (k, d)
        The directions.
    scale : host array, shape (t,)
        Of the targets.
    """

    regressor: Any
    B: Array
    scale: np.ndarray
    _on_host: ClassVar[tuple[str, ...]] = ("scale",)

    @property
    def width(self) -> int:
        """Return the temporary elements per row."""
        return self.B.shape[0]

    def evaluate(self, X: Array, /) -> Array:
        """Values (n, t)."""
        Z = to_host(X @ self.B.T).astype(np.float64)
        found = np.asarray(self.regressor.predict(Z)).reshape(len(Z), -1)
        return asarray_like(found * self.scale, self.intercept) + self.intercept

    def to_traceable(self) -> Self:
        """Raise TypeError: it is no function of arrays."""
        msg = (
            "expected predictions of gpukfl, got those of "
            f"{type(self.regressor).__name__}: fit with retrain='kernel_ridge' or retrain=None"
        )
        raise TypeError(msg)


class RegFeaLBase(DirectionProfiles, BoundedPredictions, SteppedLearner):
    """The base of regressor and classifier: parameters, fitted attributes and predictions."""

    _describe = describe
    _values = (DegreeLaw, Reweighting, RegFeaLSetting, Coordinates)
    # The Hermite features of a fit whose retrained model predicts
    _hermite: Annotated[HermiteSum | None, Recorded()]
    R_: Annotated[Array, Floats("n_features", "n_features")]
    eta_: Annotated[Array, Doubles("n_features")]
    importances_: Annotated[Array, Doubles("n_features")]
    eta_path_: Annotated[Array, Doubles("n_updates", "n_features")]
    feature_matrix_: Annotated[Array, Floats("n_features", "n_features")]
    degree_decay_: float | None
    max_degree_: Annotated[int, Count()] | None
    strength_: float
    ridge_: float
    tuning_: list[RegFeaLTried]
    kernel_: Kernel | None = held("values.kernel", or_none=True)
    centers_: Array | None = held("values.centers", or_none=True)
    retrain_components_: Array | None = held("values.B", or_none=True)
    retrained_: Any = held("values.regressor", or_none=True)
    coef_: Array = held("coef", of="_features")
    intercept_: Array = held("intercept", of="_features")
    multi_indices_: Array = held("tuples", of="_features")
    _rotation: Array = held("R", of="_features")
    _renamed: ClassVar[dict[str, str]] = {
        "degree_decay": "pass degrees, a number or 'auto'",
        "max_degree": "pass degrees=DegreeLaw(largest=...)",
        "n_iter": "pass optimizer=Reweighting(n_iter=...)",
        "sparsity_exponent": "pass optimizer=Reweighting(exponent=...)",
        "over_c": "pass optimizer=Reweighting(over_c=...)",
    }

    def __init__(
        self,
        n_random_features: int = 2000,
        *,
        selection: str = "features",
        degrees: float | str | DegreeLaw = "auto",
        strength: float | str = "auto",
        ridge: float | str = "auto",
        optimizer: Reweighting | None = None,
        retrain: Any = "kernel_ridge",
        clip: float | str | None = "auto",
        max_time: float | None = None,
        random_state: Any = None,
        backend: str | Backend = "auto",
        scaling: str | None = "auto",
        verbose: int = 0,
    ) -> None:
        self.n_random_features = n_random_features
        self.selection = selection
        self.degrees = degrees
        self.strength = strength
        self.ridge = ridge
        self.optimizer = optimizer
        self.retrain = retrain
        self.clip = clip
        self.max_time = max_time
        self.random_state = random_state
        self.backend = backend
        self.scaling = scaling
        self.verbose = verbose

    def _rules(self) -> Iterator[tuple[str, bool]]:
        yield from super()._rules()
        yield "degrees of a law", (self.degree_decay_ is None) != (self.max_degree_ is None)
        by_features = isinstance(self.predictor_.values, HermiteSum)
        yield "all of a retrained model", by_features == (self._hermite is None)

    # ------------------------------------------------------------------ fitting

    def _method(self) -> RegFeaLMethod:
        whole = numbers.Integral
        check_number("n_random_features", self.n_random_features, kind=whole, low=1)
        check_choice("selection", self.selection, SELECTIONS)
        check_number("strength", self.strength, low=0, low_allowed=False, also=("auto",))
        check_number("ridge", self.ridge, low=0, low_allowed=False, also=("auto",))
        check_kind("optimizer", self.optimizer, (Reweighting, type(None)))
        check_retrain(self.retrain)
        check_number("clip", self.clip, low=0, low_allowed=False, also=("auto", None))
        return RegFeaLMethod(
            n_random_features=int(self.n_random_features),
            rotate=self.selection == "features",
            law=self._law(),
            strength=None if isinstance(self.strength, str) else float(self.strength),
            ridge=_RIDGE if isinstance(self.ridge, str) else float(self.ridge),
            reweighting=self._reweighting,
            retrain=self.retrain,
            clip=self.clip,
            scaling=self.scaling,
        )

    def _law(self) -> DegreeLaw | None:
        """Return the law of the degrees, or None if it is to be chosen."""
        given = self.degrees
        if isinstance(given, DegreeLaw):
            check_number(
                "largest", given.largest, kind=numbers.Integral, high=MAX_DEGREE, also=(None,)
            )
            return given
        check_number("degrees", given, low=0, also=("auto",))
        if isinstance(given, str):
            return None
        if given >= 1.0:
            msg = f"expected degrees of at least 0 and below 1, or a DegreeLaw, got {given}"
            raise ValueError(msg)
        return DegreeLaw(float(given))

    @property
    def _reweighting(self) -> Reweighting:
        return self.optimizer or Reweighting()

    def _keep(
        self,
        problem: RegFeaLProblem,
        fitted: RegFeaLResult,
        choice: SearchResult[RegFeaLSetting, Any],
        back: Callable[[Array], Array],
    ) -> Function:
        fit, exponent = fitted.fit, self._reweighting.exponent
        xp, on = array_namespace(problem.reference), double_like(problem.reference)
        assert fit.indices is not None
        coef = back(problem.to_target_units(xp.asarray(fit.f_hat, **on)))
        intercept = back(problem.to_target_units(xp.asarray(fit.intercept, **on), mean=True))
        check_finite_result(coef, intercept)
        xp = array_namespace(coef)
        there = double_reference(coef)
        hermite = HermiteSum(
            intercept=intercept,
            tuples=xp.asarray(fit.indices.tuples, **index_like(coef)),
            coef=coef,
            R=asarray_like(fit.R, there),
            bounds=prediction_bounds(problem, back),
        )
        # Directions by the last regression, and those it was computed with
        R, eta = fitted.directions
        self.R_, self.eta_ = asarray_like(R, coef), asarray_like(eta, there)
        self.importances_ = asarray_like(eta_shares(eta, exponent), there)
        self.eta_path_ = asarray_like(np.stack([*fit.etas, eta]), there)
        in_units = fit.f_hat * to_host(problem.y_scale)[None, :]
        M = derivative_products(fit.indices.tuples, in_units)
        self.feature_matrix_ = asarray_like(fit.to_feature_coordinates(M), coef)
        # If no feature was learned or all are constant, there is no direction
        found = bool(M.any()) and bool(problem.rows.varying().any())
        roots = derivative_weights(eta, exponent, 0.5) * float(found)
        self._keep_directions(leading_columns(R, roots), coef)
        norms = np.sqrt(np.einsum("ij,ij,j->i", R, R, roots**2))  # of the rows, of all columns
        self.feature_importances_ = asarray_like(norms / (norms.sum() or 1.0), coef)
        law, self.strength_ = choice.setting.law, choice.setting.strength
        self.degree_decay_, self.max_degree_ = law.decay, law.largest
        self.ridge_ = fitted.method.ridge
        index = draw_rows(problem.n, np.random.RandomState(0), _RANGE_ROWS)
        self._keep_range(to_host(problem.rows.gather(index)))
        self._keep_steps(fit.history, fitted.status, _QUIET)
        prepared: dict[str, Any] = {"scaling": problem.scaling, "clip": farthest(self.clip)}
        last = self._retrained_function(fitted.retrained, problem, hermite, back)
        self._hermite = None if last is None else hermite
        return replace(hermite if last is None else last, **prepared)

    def _retrained_function(
        self,
        found: RetrainedModel | None,
        data: Data,
        hermite: HermiteSum,
        back: Callable[[Array], Array],
    ) -> Function | None:
        """Return the function of the retrained model, or None if Hermite features predict."""
        if found is None:
            return None
        components = asarray_like(found.directions, hermite.coef)
        offset = back(data.y_mean)
        if found.fit is None:
            scale = to_host(data.y_scale)
            return RegressorOfDirections(
                intercept=offset, regressor=found.regressor, B=components, scale=scale
            )
        alpha = rescale_dual_coefficients(found.fit.alpha, data, offset)
        check_finite_result(back(alpha), offset)
        return KernelSum(
            intercept=offset,
            kernel=found.fit.kernel,
            centers=back(found.fit.Z),
            coef=alpha,
            B=components,
            is_mapped=True,
            bounds=hermite.bounds,
        )

    # ------------------------------------------------------------------ prediction

    @property
    def _features(self) -> HermiteSum:
        """The sum of Hermite features, whether it predicts or not."""
        values = self.predictor_.values
        found = values if isinstance(values, HermiteSum) else self._hermite
        assert found is not None
        return found

    @_features.setter
    def _features(self, features: HermiteSum) -> None:
        if self._hermite is None:
            self.predictor_ = replace(self.predictor_, values=features)
        else:
            self._hermite = features

    @property
    def dual_coef_(self) -> Array | None:
        """Coefficients of the kernel ridge regression on the directions, or None."""
        values = self.predictor_.values
        return values.coef if isinstance(values, KernelSum) else None

    @dual_coef_.setter
    def dual_coef_(self, coef: Array) -> None:
        values: Any = self.predictor_.values
        self.predictor_ = replace(self.predictor_, values=replace(values, coef=coef))

    def _last_text(self) -> str:
        """Return the final predictor in words."""
        if self.kernel_ is None and self.retrained_ is None:
            return "Hermite features"
        model = self.retrained_ if self.kernel_ is None else self.kernel_
        suffix = "" if self.kernel_ is None else " kernel ridge"
        assert self.retrain_components_ is not None
        components = to_host(self.retrain_components_)
        plural = "" if len(components) == 1 else "s"
        norms = np.linalg.norm(components, axis=1)
        weighted = "" if np.allclose(norms, 1.0, atol=1e-3) else "weighted "
        what = f"{len(components)} {weighted}direction{plural}"
        return f"{type(model).__name__}{suffix} on {what}"

    @property
    def coef_rotation_(self) -> Array:
        """The rotation of the last regression (n_features, n_features), float64, that of `coef_`.

        `R_` is what the regression then said of the directions, and belongs to `eta_`.
        """
        check_is_fitted(self)
        return self._rotation

    @property
    def n_features_estimated_(self) -> int:
        """The number of directions, or variables, with a share of η of at least 1/d."""
        check_is_fitted(self)
        shares = to_host(self.importances_)
        return int(np.sum(shares >= (1.0 - 1e-9) / len(shares)))


_PARAMETERS = (
    """
    Parameters
    ----------
    n_random_features : int, default=2000
        Number m of tuples of Hermite degrees that each iteration draws.
    selection : {"features", "variables"}, default="features"
        Whether to learn directions, with a rotation, or to select variables.
    degrees : float, "auto" or DegreeLaw, default="auto"
        Weights c_k of the degrees k. A number is ρ in c_k = ρ^k, at least 0 and below 1. Smaller
        values give lower degrees; 0 leaves degree 1. ``DegreeLaw(largest=M)`` of `gpukfl.methods`,
        with M up to 40, is c_k = 1 up to degree M. All tuples are used if there are at most
        `n_random_features`. "auto" chooses ρ together with the strength on held-out rows. If there
        are many variables for the number of random features, M = 2 is tried as well.
    strength : float or "auto", default="auto"
        Strength μ of the penalty, positive, in units of d^(-(2-r)/r).
    ridge : float or "auto", default="auto"
        Regularisation λ, positive, in the same units, for numerical stability. "auto" is 1e-8.
    optimizer : Reweighting, optional
        Number of iterations, and how sparse the directions are: by default
        ``Reweighting(n_iter=5, exponent=0.33, over_c=False)`` of `gpukfl.methods`.
    retrain : "kernel_ridge", None or a regressor, default="kernel_ridge"
        Model that predicts from the learned directions. "kernel_ridge" is `KernelRidgeRegressor`,
        or the Hermite features if they do better on held-out rows. None always uses the Hermite
        features. Or a scikit-learn regressor.
    clip : float, "auto" or None, default="auto"
        Largest absolute standardised coordinate: larger ones are clipped, in fits and predictions,
        as Hermite polynomials are huge there. "auto" is 6, and None clips nothing.
    max_time : float or None, default=None
        Time limit in seconds. The last complete iteration is kept, and retrained quickly.
    random_state : int, RandomState or None, default=None
        Seed of the tuples and splits, which are drawn on the host.
    backend : {"auto", "numpy", "cupy", "torch"} or Backend, default="auto"
        Array library to compute with; "auto" uses that of X, and moves large NumPy data to a usable
        GPU. A `Backend` also sets the precision of the features. The recursion, sums over rows and
        linear systems are float64.
"""
    + SCALING
    + """        The polynomials rely on it.
    verbose : int, default=0
        1 prints a line per iteration.
"""
)

_ATTRIBUTES = (
    """
    Attributes
    ----------
    R_ : array of shape (n_features, n_features)
        Rotation; its columns are directions, most important first. The identity for variables. It
        is updated after the last regression: `coef_` belongs to `coef_rotation_`, not to it.
    eta_, importances_ : arrays of shape (n_features,)
        η of the columns of R, and their shares η^(r/(2-r)), which sum to 1. 1e-8 is added to the
        squared derivatives they are made of, so that a direction without any has not 0, but
        10^(-4r) of the share of one whose squared derivative is 1: 0.05 at the exponent r = 0.33,
        and 0.4 at 0.1.
    eta_path_ : array of shape (updates + 1, n_features)
        η of each iteration, and of the end.
    n_features_estimated_ : int
        Directions whose share is at least 1/d, the paper's rule.
    n_effective_features_ : int
        Directions along which the root of the mean squared derivative is at least a fifth of the
        largest.
    components_ : array of shape (n_effective_features_, n_features)
        These directions.
    feature_importances_ : array of shape (n_features,)
        Roots of the mean squared derivatives by the features, that is of the diagonal of
        `feature_matrix_`, summing to 1.
    feature_matrix_ : array of shape (n_features, n_features)
        Expected outer product of gradients, eq. (2.9).
    multi_indices_ : array of shape (n_distinct, n_features)
        Tuples α of the last iteration.
    coef_, intercept_ : arrays of shape (n_distinct, n_targets) and (n_targets,)
        Coefficients of their Hermite products, of rows turned by `coef_rotation_`: without
        retraining f(x) is ``intercept_`` plus the sum of ``coef_[k]`` times the product of
        ``h_α(z)`` over ``multi_indices_[k]``, with z the scaled and clipped row times
        ``coef_rotation_``, within `bounds_`. Setting `coef_` changes no prediction where
        a retrained function predicts: where `retrain_components_` is not None.
    coef_rotation_ : array of shape (n_features, n_features)
        Rotation that the last regression was made with, before `R_`; in float64.
    retrain_components_ : array of shape (k, n_features), or None
        What the data are projected on for `retrain`: the leading directions, as many as kernel
        ridge regression asks for on held-out rows, or all with weights. None where the Hermite
        features predict.
    kernel_, centers_, dual_coef_ : Kernel and arrays, or None
        Of the kernel ridge regression on the directions.
    retrained_ : regressor or None
        As given in `retrain`, fitted on the directions.
    bounds_ : array of shape (2, n_targets)
        Least and largest value that is predicted: the mean of a target, less and plus twice its
        largest deviation. Polynomials rise steeply outside the data.
    degree_decay_, max_degree_ : float and int, or None
        ρ or M as used; the other is None.
    strength_, ridge_ : float
        μ and λ as used.
"""
    + SCALING_ATTRIBUTE
    + """    tuning_ : list of dict
        Settings tried: scores (R²) on held-out rows with their standard errors, seconds, and which
        was chosen. First laws and strengths, with predictions by the Hermite features; then, for
        the best three, kernel ridge regressions on their directions.
    history_, n_iter_, status_ : History, int, str
        Objective and distinct tuples (as "step") of every iteration; how the fit ended.
"""
)

_NOTES = """
    Notes
    -----
    An iteration is O(n m' s) for features of s factors and O(n m' min(n, m')) for the ridge
    regression on the m' distinct tuples, in blocks of rows where n is above m'. Rows may be a
    NumPy memory map.

    References
    ----------
    .. [1] Follain and Bach, "Nonparametric Linear Feature Learning in Regression Through
       Regularisation", arXiv:2307.12754.
"""


class RegFeaLRegressor(ArrayRegressor, RegFeaLBase):
    __doc__ = f"""Regularised feature learning with Hermite polynomials.

    Ridge regression on random products of Hermite polynomials of rotated data, with a penalty on
    derivatives that leaves few directions; then a regression on these.
    {_PARAMETERS}{LOSS}{MONOTONE}{_ATTRIBUTES}{OF_EVERY_FIT}{_NOTES}
    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl import RegFeaLRegressor
    >>> X = np.random.default_rng(0).standard_normal((300, 5))
    >>> z = (X[:, 0] + X[:, 1]) / np.sqrt(2)
    >>> y = z**3 - z
    >>> model = RegFeaLRegressor(500, degrees=0.4, strength=0.1, random_state=0).fit(X, y)
    >>> np.abs(model.components_[:, :2]).round(1)
    array([[0.7, 0.7]])
    """


class RegFeaLClassifier(OneHotClassifier, RegFeaLBase):
    __doc__ = f"""Regularised feature learning with Hermite polynomials for classes.

    Least squares on one-hot classes with shared directions; probabilities are calibrated on
    held-out rows. Any number of classes, any labels.
    {_PARAMETERS}{MONOTONE}{CLASS_WEIGHT}{_ATTRIBUTES}{OF_EVERY_FIT}{OF_CLASSIFIERS}{_NOTES}
    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpukfl import RegFeaLClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RegFeaLClassifier(300, degrees=0.2, strength=0.1, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """
