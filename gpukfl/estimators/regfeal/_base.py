"""What the RegFeaL estimators share: parameters, what is kept of a fit, and predictions."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpukfl._array import (
    Array,
    array_namespace,
    beside,
    double_like,
    double_reference,
    index_like,
    reference_like,
    to_host,
)
from gpukfl._checks import check_choice, check_kind, check_number
from gpukfl._draws import drawn
from gpukfl._places import Backend
from gpukfl._results import Status
from gpukfl.estimators._bounds import BoundedPredictions
from gpukfl.estimators._features import DirectionProfiles
from gpukfl.estimators._learner import Choice, SteppedLearner
from gpukfl.estimators._validation import check_finite_result
from gpukfl.estimators.regfeal._attributes import ATTRIBUTES, RULES, TRIED
from gpukfl.estimators.regfeal._description import describe
from gpukfl.estimators.regfeal._problem import Problem, Setting
from gpukfl.estimators.regfeal._retraining import Retraining, check_retrain, leading_columns
from gpukfl.estimators.regfeal._search import Fitted, RegFeaLMethod
from gpukfl.inspection import Description, Names
from gpukfl.methods import (
    DegreeLaw,
    Reweighting,
    derivative_products,
    derivative_weights,
    eta_shares,
)
from gpukfl.prediction import farthest

SELECTIONS = ("features", "variables")
MAX_DEGREE = 40

_RIDGE = 1e-8  # the paper's λ, in units of d^(-(2-r)/r)
_RANGE_ROWS = 500  # over the range of which profiles are drawn
_QUIET = (Status.CONVERGED,)


class RegFeaLBase(DirectionProfiles, Retraining, BoundedPredictions, SteppedLearner):
    """The common part: parameters, what is kept of a fit, and predictions."""

    _tried = TRIED
    _predicts = "RegFeaL"
    _attributes = ATTRIBUTES
    _rules = RULES
    _values = (DegreeLaw, Reweighting)
    _renamed: ClassVar[dict[str, str]] = {
        "degree_decay": "give degrees, a number or 'auto'",
        "max_degree": "give degrees=DegreeLaw(largest=...)",
        "n_iter": "give optimizer=Reweighting(n_iter=...)",
        "sparsity_exponent": "give optimizer=Reweighting(exponent=...)",
        "over_c": "give optimizer=Reweighting(over_c=...)",
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
        """Give the law of the degrees; None where it is chosen."""
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
        problem: Problem,
        fitted: Fitted,
        choice: Choice[Setting, Any],
        back: Callable[[Array], Array],
    ) -> None:
        fit, exponent = fitted.fit, self._reweighting.exponent
        xp, on = array_namespace(problem.reference), double_like(problem.reference)
        assert fit.indices is not None
        with np.errstate(over="ignore"):
            coef = back(xp.asarray(fit.f_hat, **on) * problem.y_scale[None, :])
            intercept = back(xp.asarray(fit.intercept, **on) * problem.y_scale + problem.y_mean)
        check_finite_result(coef, intercept)
        self.coef_, self.intercept_ = coef, intercept
        self._keep_bounds(problem, back)
        xp = array_namespace(coef)
        there = double_reference(coef)
        self.multi_indices_ = xp.asarray(fit.indices.tuples, **index_like(coef))
        # What the last regression says of the directions, beside those it was made with
        R, eta = fitted.directions
        self._rotation = beside(fit.R, there)
        self.R_, self.eta_ = beside(R, coef), beside(eta, there)
        self.importances_ = beside(eta_shares(eta, exponent), there)
        self.eta_path_ = beside(np.stack([*fit.etas, eta]), there)
        in_units = fit.f_hat * to_host(problem.y_scale)[None, :]
        M = derivative_products(fit.indices.tuples, in_units)
        self.feature_matrix_ = beside(fit.of_features(M), coef)
        # Where no feature was learned, or none varies, all directions weigh alike and none is one
        found = bool(M.any()) and bool(problem.rows.varying().any())
        roots = derivative_weights(eta, exponent, 0.5) * float(found)
        self._keep_directions(R * roots[None, :], coef)
        law, self.strength_ = choice.setting.law, choice.setting.strength
        self.degree_decay_, self.max_degree_ = law.decay, law.largest
        self.ridge_ = fitted.method.ridge
        self._keep_retrained(fitted.retrained, problem, back)
        n, rng = problem.rows.shape[0], np.random.RandomState(0)
        index = np.arange(n) if n <= _RANGE_ROWS else drawn(rng, n, _RANGE_ROWS)
        self._keep_range(to_host(problem.rows.at(np.sort(index))))
        self._keep_steps(fit.history, fitted.status, _QUIET)

    def _keep_directions(self, W: np.ndarray, there: Array) -> None:
        super()._keep_directions(leading_columns(W), there)
        norms = np.linalg.norm(W, axis=1)  # of all columns
        self.feature_importances_ = beside(norms / (norms.sum() or 1.0), there)

    # ------------------------------------------------------------------ prediction

    def _functions(self) -> Callable[[Array], Array]:
        if self.retrained_ is None:
            return super()._functions()
        return self._of_its_regressor

    def _of_its_regressor(self, X: Array) -> Array:
        reference = reference_like(self.coef_)
        rows = replace(self._scaled_rows(X, reference), clip=farthest(self.clip))
        return array_namespace(X).astype(self._of_another(rows), X.dtype)

    # ------------------------------------------------------------------ description

    def _describe(self, names: Names, /) -> Description:
        return describe(self, names)

    @property
    def coef_rotation_(self) -> Array:
        """Rotation of the last regression (n_features, n_features), float64: that of `coef_`.

        `R_` is what the regression then said of the directions, and belongs to `eta_`.
        """
        check_is_fitted(self)
        return self._rotation

    @property
    def n_features_estimated_(self) -> int:
        """Directions, or variables, whose share of η is at least 1/d: the paper's rule."""
        check_is_fitted(self)
        shares = to_host(self.importances_)
        return int(np.sum(shares >= (1.0 - 1e-9) / len(shares)))
