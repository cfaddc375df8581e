"""What the RegFeaL estimators share: parameters, the fit, and what was learned."""

from __future__ import annotations

import math
import numbers
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from gpukfl._array import (
    Array,
    array_namespace,
    beside,
    double_like,
    index_like,
    library_of,
    like,
    to_host,
)
from gpukfl._places import resolve_place
from gpukfl._results import Status
from gpukfl._rows import Rows
from gpukfl._warnings import warn
from gpukfl.estimators._base import HostPickled
from gpukfl.estimators._data import Data, dtype_for, mover
from gpukfl.estimators._features import DirectionProfiles
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
from gpukfl.estimators.regfeal._description import describe
from gpukfl.estimators.regfeal._fold import Point
from gpukfl.estimators.regfeal._retraining import HERMITE, Coordinates, Retraining
from gpukfl.estimators.regfeal._search import RegFeaLSearch
from gpukfl.inspection import Description, Names
from gpukfl.methods import (
    DegreeLaw,
    RegFeaL,
    RegFeaLFit,
    derivative_products,
    derivative_weights,
    eta_shares,
)
from gpukfl.operators import HermiteOperator

SELECTIONS = ("features", "variables")
MAX_DEGREE = 40
FAR = 6.0  # standard deviations beyond which Hermite polynomials explode
_TERMS = 10  # of the kernel for each random feature, from which these tell little

_RIDGE = 1e-8  # the paper's λ, in units of d^(-(2-r)/r)
_FIT_WORKS = 3  # iterations for which there should be time
_QUICK_FEATURES, _QUICK_ITERATIONS = 300, 2  # after an interruption, with nothing to go on
_FIT_SHARE = 0.8  # of max_time after which the fit has ended


class RegFeaLBase(DirectionProfiles, Retraining, HostPickled):
    """The common part: parameters, the fit, and everything but what a target means."""

    def __init__(
        self,
        n_random_features: int = 2000,
        *,
        selection: str = "features",
        degree_decay: float | str = "auto",
        max_degree: int | None = None,
        strength: float | str = "auto",
        ridge: float | str = "auto",
        sparsity_exponent: float = 0.33,
        n_iter: int = 5,
        retrain: Any = "kernel_ridge",
        over_c: bool = False,
        clip: float | str | None = "auto",
        validation_fraction: float = 0.2,
        max_time: float | None = None,
        random_state: Any = None,
        backend: str = "auto",
        dtype: str = "auto",
        normalize_y: bool = True,
        standardize: bool = True,
        verbose: int = 0,
    ) -> None:
        self.n_random_features = n_random_features
        self.selection = selection
        self.degree_decay = degree_decay
        self.max_degree = max_degree
        self.strength = strength
        self.ridge = ridge
        self.sparsity_exponent = sparsity_exponent
        self.n_iter = n_iter
        self.retrain = retrain
        self.over_c = over_c
        self.clip = clip
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
        check_number("n_random_features", self.n_random_features, kind=whole, low=1)
        check_choice("selection", self.selection, SELECTIONS)
        check_number("degree_decay", self.degree_decay, low=0, also=("auto",))
        if self.degree_decay != "auto" and float(self.degree_decay) >= 1.0:
            msg = f"expected a degree_decay of at least 0 and below 1, got {self.degree_decay}"
            raise ValueError(msg)
        check_number(
            "max_degree", self.max_degree, kind=whole, low=1, high=MAX_DEGREE, also=(None,)
        )
        check_number("strength", self.strength, low=0, low_allowed=False, also=("auto",))
        check_number("ridge", self.ridge, low=0, low_allowed=False, also=("auto",))
        exponent = self.sparsity_exponent
        check_number("sparsity_exponent", exponent, low=0, high=2, low_allowed=False)
        if exponent >= 2:
            msg = f"expected a sparsity_exponent between 0 and 2, got {exponent}"
            raise ValueError(msg)
        check_number("n_iter", self.n_iter, kind=whole, low=1)
        self._check_retrain()
        check_number("clip", self.clip, low=0, low_allowed=False, also=("auto", None))
        fraction = self.validation_fraction
        check_number("validation_fraction", fraction, low=0, high=0.9, low_allowed=False)
        check_number("max_time", self.max_time, low=0, low_allowed=False, also=(None,))
        check_place(self)
        for switch in ("over_c", "normalize_y", "standardize"):
            check_switch(switch, getattr(self, switch))

    # ------------------------------------------------------------------ fit

    def _fit(self, samples: Samples, run: Run) -> None:
        """Fit every target and set every attribute; nothing is set on an error."""
        X, weights, n = samples.X, samples.weights, len(samples)
        self._check_retrain_weights(weights)
        dtype = dtype_for(self, X)
        place = resolve_place(self.backend, X, dtype=dtype, work=n * self.n_random_features)

        def make(some: Samples) -> Data:
            return Data(self, some, place, clip=self._clip)

        data = make(samples)
        self._check_scale(data)
        self._warn_of_many_terms(X.shape[1])
        search = RegFeaLSearch(
            make,
            data,
            samples,
            self,
            lambda law, strength: self._method(law, strength, None),
            run,
        )
        point, stopped = self._chosen(search)
        method = self._method(*point, None)
        if stopped and not search.trials:  # next to nothing is known
            method = self._quick(method)
        try:
            method, fit = self._learn(method, data, run)
        except KeyboardInterrupt:  # before the first iteration was done
            stopped = True
            method, fit = self._learn(self._quick(method), data, run)
        if stopped:
            fit.status = Status.INTERRUPTED
        self._keep(data, method, fit, X)
        law, self.strength_ = point
        self.degree_decay_, self.max_degree_ = law.decay, law.largest
        self.tuning_ = search.report()
        self._no_retraining()
        retrains = self.retrain is not None and not data.constant
        if retrains and fit.status is not Status.INTERRUPTED:
            try:
                way = search.coordinates(point) or Coordinates(self.n_effective_features_)
                if way != HERMITE:
                    self._retrain(data, weights, X, way, run)
            except KeyboardInterrupt:  # the Hermite features predict
                self._no_retraining()
                self.status_ = Status.INTERRUPTED.name
        self._warn(data)

    def _learn(self, method: RegFeaL, data: Data, run: Run) -> tuple[RegFeaL, RegFeaLFit]:
        """Fit with as many random features as there is time for; give the method with these."""
        method = self._affordable(method, data, run)
        method = replace(method, max_time=run.left(_FIT_SHARE))
        fit = method.run(
            data.rows,
            data.Y,
            data.weights,
            run.rng,
            watch=lambda k, fit: run.tell("fit", k, fit.history),
        )
        return method, fit

    def _quick(self, method: RegFeaL) -> RegFeaL:
        """Give the method with what takes a moment."""
        few = min(method.n_random_features, _QUICK_FEATURES)
        return method.with_effort(few, min(method.n_iter, _QUICK_ITERATIONS))

    def _affordable(self, method: RegFeaL, data: Data, run: Run) -> RegFeaL:
        """Give the method with as many random features as there is time for."""
        asked = method.n_random_features

        def iterate(count: int) -> None:
            few = method.with_effort(count, 1)
            fit = few.run(data.rows, data.Y, data.weights, np.random.RandomState(0))
            if fit.status is Status.INTERRUPTED:
                raise KeyboardInterrupt

        count = run.affordable(asked, iterate, times=_FIT_WORKS)
        if count < asked:
            msg = f"max_time leaves time for {count} random features of {asked}"
            warn(msg, ConvergenceWarning)
        return method.with_effort(count, method.n_iter)

    def _method(self, law: DegreeLaw, strength: float, max_time: float | None) -> RegFeaL:
        return RegFeaL(
            int(self.n_random_features),
            law,
            strength,
            _RIDGE if self.ridge == "auto" else float(self.ridge),
            exponent=self.sparsity_exponent,
            rotate=self.selection == "features",
            over_c=self.over_c,
            n_iter=int(self.n_iter),
            max_time=max_time,
        )

    def _chosen(self, search: RegFeaLSearch) -> tuple[Point, bool]:
        """Give what the search chose, and whether the user interrupted it."""
        try:
            return search.choose(), False
        except KeyboardInterrupt:
            return search.best.setting if search.trials else search.start, True

    def _warn_of_many_terms(self, d: int) -> None:
        if self.degree_decay == "auto" or self.max_degree is not None:
            return
        enough = _TERMS * int(self.n_random_features)
        log_terms = -d * math.log1p(-float(self.degree_decay))
        if log_terms > math.log(enough):
            most = -math.expm1(-math.log(enough) / d)
            msg = (
                f"degree_decay={self.degree_decay:g} with {d} features gives the kernel about "
                f"e^{log_terms:.1f} terms, of which {self.n_random_features} random ones tell "
                f"little: expected at most {most:.2g}, more random features, or 'auto'"
            )
            warn(msg, UserWarning)

    @property
    def _clip(self) -> float | None:
        return FAR if self.clip == "auto" else self.clip  # type: ignore[return-value]

    def _check_scale(self, data: Data) -> None:
        """Refuse features of which most values are far from 0, and warn of some."""
        if self.standardize and self.clip is not None:
            return
        xp = array_namespace(data.reference)
        rows, largest = replace(data.rows, clip=None), 0.0
        beyond = np.zeros(rows.shape[1])
        for _, _, block in rows.blocks():
            size = xp.abs(block)
            largest = max(largest, float(xp.max(size)))
            beyond += to_host(xp.sum(xp.astype(size > (self._clip or FAR), xp.float64), axis=0))
        if (beyond > 0.5 * rows.shape[0]).any():
            msg = (
                "expected features around 0 of about unit variance, got most values of feature "
                f"{np.argmax(beyond)} beyond {self._clip or FAR:g}: standardize=True scales them"
            )
            raise ValueError(msg)
        if largest > FAR and self.clip in ("auto", None):
            advice = "" if self.standardize else "standardize=True scales features, "
            msg = (
                f"a feature is {largest:.3g} standard deviations from 0, where Hermite polynomials "
                f"are huge: {advice}clip={FAR:g} moves what lies beyond"
            )
            warn(msg, UserWarning)

    def _keep(self, data: Data, method: RegFeaL, fit: RegFeaLFit, X: Array) -> None:
        xp = array_namespace(data.reference)
        back = mover(X, dtype_for(self, X))
        on = double_like(data.reference)
        assert fit.indices is not None
        with np.errstate(over="ignore"):
            coef = back(xp.asarray(fit.f_hat, **on) * data.y_scale[None, :])
            intercept = back(xp.asarray(fit.intercept, **on) * data.y_scale + data.y_mean)
        check_finite_result(coef, intercept)
        self.coef_, self.intercept_ = coef, intercept
        xp = array_namespace(coef)
        there = xp.empty((0,), **double_like(coef))
        self.multi_indices_ = xp.asarray(fit.indices.tuples, **index_like(coef))
        self._keep_scaling(data.rows, X)
        # What the last regression says of the directions, beside those it was made with
        R, eta = method.directions(fit)
        self._rotation = beside(fit.R, there)
        shares = eta_shares(eta, self.sparsity_exponent)
        self.R_, self.eta_ = beside(R, coef), beside(eta, there)
        self.importances_ = beside(shares, there)
        self.eta_path_ = beside(np.stack([*fit.etas, eta]), there)
        in_units = fit.f_hat * to_host(data.y_scale)[None, :]
        M = derivative_products(fit.indices.tuples, in_units)
        self.feature_matrix_ = beside(fit.R @ M @ fit.R.T, coef)
        roots = derivative_weights(eta, self.sparsity_exponent, 0.5)
        self._keep_directions(R * roots[None, :])
        self.ridge_ = method.ridge
        self.history_, self.n_iter_ = fit.history, len(fit.history)
        self.status_ = fit.status.name
        self.place_ = f"{library_of(data.reference)} {data.reference.device}"
        self._library = library_of(X)
        self._n_samples = data.rows.shape[0]
        index = np.arange(self._n_samples)
        if len(index) > 500:
            index = np.sort(np.random.RandomState(0).choice(len(index), 500, replace=False))
        self._keep_range(to_host(data.rows.at(index)))

    def _warn(self, data: Data) -> None:
        status = Status[self.status_]
        if data.constant:
            msg = "y is constant: the model predicts that constant and learns no features"
            warn(msg, UserWarning)
        if status is not Status.CONVERGED:
            msg = f"{type(self).__name__} after {self.n_iter_} iterations: {status.value}"
            warn(msg, ConvergenceWarning)

    # ------------------------------------------------------------------ prediction

    def _predict(self, X: Any, method: str) -> Array:
        """Fitted functions at `X`: (n, t)."""
        check_is_fitted(self)
        return self._evaluate(validate_samples(self, X, reset=False, method=method))

    def _evaluate(self, X: Array) -> Array:
        xp = array_namespace(self.coef_)
        reference = xp.empty((0,), **like(self.coef_))
        rows = Rows(X, reference, self.mean_, self.scale_, self.limits_, self._clip)
        if self._is_retrained:
            return xp.astype(self._evaluate_retrained(rows), X.dtype)
        R = to_host(self._rotation)
        placed = None if np.array_equal(R, np.eye(len(R))) else self._rotation
        tuples = to_host(self.multi_indices_)
        operator = HermiteOperator(rows, tuples, np.ones(len(tuples)), placed)
        return xp.astype(self.intercept_ + operator @ self.coef_, X.dtype)

    # ------------------------------------------------------------------ description

    def _describe(self, names: Names, /) -> Description:
        return describe(self, names)

    @property
    def n_features_estimated_(self) -> int:
        """Directions, or variables, whose share of η is at least 1/d: the paper's rule."""
        check_is_fitted(self)
        shares = to_host(self.importances_)
        return int(np.sum(shares >= (1.0 - 1e-9) / len(shares)))
