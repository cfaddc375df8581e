"""Members of a blend, their fits, and the candidates that blends try."""

from __future__ import annotations

import contextlib
import inspect
import math
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from gpukfl.core._array import Array, array_namespace, lies_in_parts, to_host
from gpukfl.core._places import Backend
from gpukfl.estimators import (
    BKerNNClassifier,
    BKerNNRegressor,
    HKRRClassifier,
    HKRRRegressor,
    KernelFeatureSelector,
    KernelFeatureSelectorClassifier,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    RegFeaLClassifier,
    RegFeaLRegressor,
    RKHSWeightingClassifier,
    RKHSWeightingRegressor,
)
from gpukfl.estimators._learner import Learner, WarmStart
from gpukfl.estimators._pace import Size
from gpukfl.estimators._samples import Samples, Splits
from gpukfl.estimators.hkrr import Centers
from gpukfl.estimators.hkrr._data import ALL_CENTERS, REFIT_CENTERS
from gpukfl.inspection._tuning import BLEND
from gpukfl.kernels import Matern32, Matern52
from gpukfl.methods import AverageGradientOuterProduct
from gpukfl.portfolio._names import MODELS, class_name, member_text
from gpukfl.predictor import few_threads
from gpukfl.tables._seen import CODES, LEVELS, NUMBERS

# --------------------------------------------------------------------------------- members

_MARGIN = 0.1  # of the targets' range, by which predictions may be outside
_EARLY_STOPPING_FROM = 10_000  # rows above which "auto" of scikit-learn's trees stops early
_MAX_COPIES = 1_000  # of the row of the smallest weight, when weights become numbers of copies
_MIN_KNOWN = 5  # values of a column that trees can split


@dataclass(frozen=True)
class Member:
    """A scikit-learn estimator with a name.

    Attributes
    ----------
    name : str
        Name in the leaderboard.
    estimator : estimator
        Each fold fits a clone of it.
    power : float
        Power of the number of rows with which the time of a fit grows.
    blended : bool
        Whether it may enter the blend; it is shown in any case.
    reference : bool
        Whether all its folds are fitted even if it is clearly behind.
    sees : str
        How it sees the rows of a table: as numbers, as codes with missing values, or with levels.
    like : str
        Name of a similar member. If that one is clearly worse, this one is skipped. May be empty.
    at_once_from : float
        Number of rows from which parallel fits to several folds, in threads, are faster.
    weighted : bool
        Whether the user gave weights. Otherwise the weight of a row is the number of its copies,
        and an estimator that takes no weights is fitted to the copies.
    start : WarmStart or None
        Settings of a fit to other rows, from which the first fit starts.
    model : str
        Its model in words, if the user chose the name; empty if `MODELS` has it.
    """

    name: str
    estimator: Any
    power: float = 2.0
    blended: bool = True
    reference: bool = False
    sees: str = NUMBERS
    like: str = ""
    at_once_from: float = math.inf
    weighted: bool = False
    start: WarmStart[Any] | None = None
    model: str = ""

    @property
    def text(self) -> str:
        """Its model in words, with its name."""
        return member_text(self.name, {self.name: self.model} if self.model else {})

    @property
    def takes_any_library(self) -> bool:
        """Whether the member takes arrays of any library."""
        return isinstance(self.estimator, Learner)

    @property
    def keeps_time(self) -> bool:
        """Whether the estimator has a time limit."""
        return self.takes_any_library and hasattr(self.estimator, "max_time")

    def limit_centers(self, n: int, /) -> Member:
        """Return the member for a fold of n rows: of HKRR with fewer centres than a refit has.

        With all centres, the folds of many rows would take most of the time.
        """
        e = self.estimator
        is_hkrr = isinstance(e, (HKRRRegressor, HKRRClassifier))
        if not is_hkrr or e.n_centers != "auto" or n <= ALL_CENTERS:
            return self
        return replace(self, estimator=clone(e).set_params(n_centers=Centers(refit=REFIT_CENTERS)))

    def fit_clone(
        self, samples: Samples, warm_start: WarmStart[Any] | None, max_time: float | None, /
    ) -> tuple[Any, WarmStart[Any] | None]:
        """Fit a clone, perhaps from the settings of another fit; also return its own settings.

        Raises
        ------
        ValueError
            If the user gave weights, and the estimator takes none.
        """
        if self.weighted and not self._takes_weights:
            name = type(_last_step(self.estimator)).__name__
            msg = (
                f"expected a fit that takes sample_weight, as weights are given, got that of {name}"
            )
            raise ValueError(msg)
        model = clone(self.estimator)
        y = samples.Y[:, 0] if samples.Y.shape[1] == 1 else samples.Y
        if samples.classes is not None:
            y = samples.classes
            if len(np.unique(y)) == 1:  # a fold may have one class only
                model = DummyClassifier()
        elif len(samples) == 1:
            model = DummyRegressor()
        if isinstance(model, Learner):
            if self.keeps_time:
                model.set_params(max_time=max_time)
            found = model.fit_like(
                *(samples.X, y, samples.weights, warm_start or self.start),
                relations=samples.relations,
                deviations=False,
            )
            if self.keeps_time:
                model.set_params(max_time=None)
            return model, found
        # In float64, as saved models standardise in float64
        X, y = np.asarray(to_host(samples.X), dtype=np.float64), to_host(y)
        if self.sees == CODES:
            X = _fill_scarce_columns(X, samples.weights)
        # Weights are passed by the names of steps, even if the user has enabled metadata routing
        with (
            few_threads(len(X)),
            config_context(enable_metadata_routing=False),
            _use_related_splits(model, samples),
            _hide_convergence_warnings(model) if self.name == LINEAR else contextlib.nullcontext(),
        ):
            if not _fit_with_early_stopping(model, X, y, samples):
                _fit_with_weights(model, X, y, samples.weights, may_repeat=not self.weighted)
        return model, warm_start

    @property
    def _takes_weights(self) -> bool:
        return self.takes_any_library or any(_find_weight_support(_last_step(self.estimator)))


@contextlib.contextmanager
def _hide_convergence_warnings(model: Any) -> Iterator[None]:
    """Hide scikit-learn's warnings of a logistic regression with fewer steps than the default."""
    if n_steps(model) >= _LOGISTIC_STEPS or not isinstance(_last_step(model), LogisticRegression):
        yield
        return
    with _WARNING_FILTERS, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _fill_scarce_columns(X: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Set columns (n, d) with hardly any known values to 0, for trees.

    Scikit-learn's trees fail if all values are missing, also in the rows that early stopping fits.
    """
    known = np.isfinite(X) if weights is None else np.isfinite(X[weights > 0])
    scarce = np.count_nonzero(known, axis=0) < min(_MIN_KNOWN, len(known))
    return np.where(scarce, 0.0, X) if scarce.any() else X


def _fit_with_weights(
    model: Any, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None, *, may_repeat: bool
) -> None:
    """Fit a model of another library, with weights for the last step of a pipeline.

    If it takes no weights and rows `may_repeat`, each row is repeated as often as its weight says.
    """
    named, passed_on = _find_weight_support(_last_step(model))
    if weights is None:
        model.fit(X, y)
    elif named or (passed_on and not may_repeat):
        model.fit(X, y, **{_parameter_path(model) + "sample_weight": weights})
    else:
        times = _integer_weights(weights)
        model.fit(np.repeat(X, times, axis=0), np.repeat(y, times, axis=0))


@contextlib.contextmanager
def _use_related_splits(model: Any, samples: Samples) -> Iterator[None]:
    """Let the `cv` of another library's model split related rows by their groups or times.

    A splitter that the user set is kept.
    """
    last = _last_step(model)
    given = getattr(last, "cv", "")
    if (
        samples.relations is None
        or not isinstance(given, (int, type(None)))
        or not (samples.weights is None or _find_weight_support(last)[0])
    ):
        yield
        return
    how = Splits(at_most=len(samples), folds_below=len(samples) + 1)
    last.set_params(cv=samples.split_rows(np.random.RandomState(0), how))
    try:
        yield
    finally:
        last.set_params(cv=given)


def _fit_with_early_stopping(model: Any, X: np.ndarray, y: np.ndarray, samples: Samples) -> bool:
    """Fit trees with early stopping on held-out related rows; return whether it did.

    Without related rows, or if the trees take no validation rows, it returns False.
    """
    known, stops = samples.relations, getattr(model, "early_stopping", False)
    stops = len(X) > _EARLY_STOPPING_FROM if stops == "auto" else stops
    if known is None or not stops or "X_val" not in inspect.signature(model.fit).parameters:
        return False
    share = float(model.validation_fraction)
    found = known.split(np.random.RandomState(0), 1, share, samples.classes)
    if not found:
        return False
    inside, outside = found[0]
    if samples.classes is not None and len(np.unique(y[inside])) < len(np.unique(y)):
        return False
    w = samples.weights
    weights = {"sample_weight": w[inside], "sample_weight_val": w[outside]} if w is not None else {}
    model.fit(X[inside], y[inside], X_val=X[outside], y_val=y[outside], **weights)
    return True


def _last_step(model: Any) -> Any:
    return _last_step(model.steps[-1][1]) if isinstance(model, Pipeline) else model


def _parameter_path(model: Any) -> str:
    """Return the prefix of parameters of the last step of nested pipelines."""
    if not isinstance(model, Pipeline):
        return ""
    name, last = model.steps[-1]
    return f"{name}__{_parameter_path(last)}"


def _find_weight_support(model: Any) -> tuple[bool, bool]:
    """Return whether `fit` takes weights, and whether it passes them to other estimators."""
    parameters = inspect.signature(model.fit).parameters
    passed_on = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    return "sample_weight" in parameters, passed_on


def _integer_weights(weights: np.ndarray) -> np.ndarray:
    """Return integer copies (n,) proportional to weights (n,)."""
    shares = weights / weights[weights > 0].min()
    for fewest in range(1, _MAX_COPIES):
        counts = np.rint(shares * fewest)
        if np.allclose(counts, shares * fewest, rtol=1e-6, atol=0.0):
            break
    return counts.astype(np.int64)


def prediction_limits(targets: np.ndarray, /) -> np.ndarray:
    """Return the limits of predictions (2, t): a tenth outside the range of the targets (n, t).

    Linear members, or those of the user, may predict anything far from the data.
    """
    low, high = targets.min(axis=0), targets.max(axis=0)
    return np.stack([low, high]) + _MARGIN * (high - low) * np.array([[-1.0], [1.0]])


# ------------------------------------------------------------------------------ candidates

_LOGISTIC_STEPS = 300
_WARNING_FILTERS = threading.Lock()  # those of Python are of the whole process
EFFORTS = ("quick", "normal", "thorough")
CONSTANT = "constant"  # name of the member for a target that does not vary
LINEAR = "linear"
BOOSTED = TREES, SHALLOW_TREES, DEEP_TREES = "trees", "shallow_trees", "deep_trees"
BOOSTED_CLASSES = HistGradientBoostingClassifier, HistGradientBoostingRegressor
_EXACT_UP_TO = 3_000  # rows up to which kernel ridge regression has all of them as centres
_CENTERS = 1_000  # with more rows
_FEW_ROWS = 1_000  # up to which variants of a member are cheap
_MANY_ROWS = 2_000  # from which trees may be large
_RARE_CLASS = 50  # rows of the rarest class that early stopping of trees needs
_FEATURE_MAPS_UP_TO = 200_000  # rows for which memory holds many features
_PARALLEL_BKERNN_FROM = 2_000  # rows; steps of BKerNN on fewer are too short for threads
_MANY_COLUMNS = 300  # above which eigenvalue problems of this size take most of the time
_FULL_AGOP = AverageGradientOuterProduct(max_iter=5, structure="full", shrinkage=0.05)
_FEW_CLASSES = 3  # targets up to which the evidence of classes takes little time
_STEPS_TIMES_FEATURES = 400_000  # limit of boosting on few rows
_MIN_TREE_STEPS, _MAX_LEARNING_RATE = 20, 0.3  # of boosting with fewer steps
_MAX_TARGET, _MAX_FEATURE = 1e37, 1e140  # that members of scikit-learn can take
_RIDGES = tuple(10.0**k for k in range(-4, 5))
_REQUIRED = ("fit", "get_params", "set_params", "__sklearn_tags__")  # of an estimator


@dataclass(frozen=True)
class Task:
    """Properties of the data for which members are made.

    Attributes
    ----------
    classes : bool
        Whether targets are classes.
    n, d, t : int
        Numbers of rows, features and targets.
    rarest : int
        Rows of the rarest class; all rows for a regression.
    backend : str or Backend
        Backend of the members of gpukfl.
    seed : int
        Seed of the members.
    of_table : bool
        Whether rows come from a table. Trees then take its codes.
    has_levels : bool
        Whether some members see levels of categories.
    too_large : frozenset of str
        Members of scikit-learn that would overflow.
    """

    classes: bool
    n: int
    d: int
    t: int
    rarest: int
    backend: str | Backend
    seed: int
    of_table: bool = False
    has_levels: bool = False
    too_large: frozenset[str] = frozenset()

    @property
    def is_wide(self) -> bool:
        """Whether there are many columns, and more than rows."""
        return self.d > max(self.n, _MANY_COLUMNS)

    @classmethod
    def from_samples(
        cls,
        samples: Samples,
        d: int,
        backend: str | Backend,
        seed: int,
        /,
        *,
        of_table: bool = False,
        has_levels: bool = False,
    ) -> Self:
        """Return the task of samples with d features."""
        n, codes = len(samples), samples.classes
        rarest = n if codes is None else int(np.unique(codes, return_counts=True)[1].min())
        t = samples.Y.shape[1]
        sizes = n, d, t, rarest
        too_large = _find_overflowing_members(samples)
        return cls(codes is not None, *sizes, backend, seed, of_table, has_levels, too_large)


def _find_overflowing_members(samples: Samples) -> frozenset[str]:
    """Return the names of members that would overflow on the samples."""
    names: frozenset[str] = frozenset()
    if samples.classes is None and _exceeds(samples.Y, _MAX_TARGET):
        names |= {*BOOSTED}
    return names | {"linear"} if _exceeds(samples.X, _MAX_FEATURE) else names


def _exceeds(X: Array, limit: float) -> bool:
    if lies_in_parts(X) or 0 in X.shape:
        return False
    xp = array_namespace(X)
    return float(xp.max(X)) > limit or float(xp.min(X)) < -limit


@dataclass(frozen=True)
class MemberCandidate:
    """A member that blends may try.

    Attributes
    ----------
    name : str
        Name of the member.
    make : callable
        Returns its estimator for a task.
    effort : callable
        Returns the lowest effort with which it is tried for a task.
    power : float
        Power of the number of rows with which the time of a fit grows.
    suits : callable
        Returns whether it suits a task.
    like, sees, at_once_from
        As for `Member`.
    """

    name: str
    make: Callable[[Task], Any]
    effort: Callable[[Task], str] = lambda _: "normal"
    power: float = 1.0
    suits: Callable[[Task], bool] = lambda _: True
    like: str = ""
    sees: str = NUMBERS
    at_once_from: int = 300

    def is_tried(self, effort: str, task: Task, /) -> bool:
        """Whether it is tried for a task with an effort."""
        known = EFFORTS.index(self.effort(task)) <= EFFORTS.index(effort)
        return known and self.suits(task) and self.name not in task.too_large


def _method_maker(regressor: type, classifier: type, /, **options: Any) -> Callable[[Task], Any]:
    def make(task: Task) -> Any:
        kind = classifier if task.classes else regressor
        return kind(random_state=task.seed, backend=task.backend, **options)

    return make


def _kernel_ridge(kernel: str) -> Callable[[Task], Any]:
    def make(task: Task) -> Any:
        centers = "auto" if task.n <= _EXACT_UP_TO else _CENTERS
        kinds = KernelRidgeRegressor, KernelRidgeClassifier
        return _method_maker(*kinds, kernel=kernel, n_centers=centers)(task)

    return make


def _hkrr(**options: Any) -> Callable[[Task], Any]:
    return _method_maker(HKRRRegressor, HKRRClassifier, **options)


def _bkernn(**options: Any) -> Callable[[Task], Any]:
    return _method_maker(BKerNNRegressor, BKerNNClassifier, **options)


def _evidence(kernel: str, scaling: str) -> Callable[[Task], Any]:
    return _hkrr(criterion="evidence", kernel=kernel, scaling=scaling)


def _two_scales(scaling: str) -> Callable[[Task], Any]:
    kernel = Matern52() + 0.2 * Matern32(0.25)
    return _hkrr(criterion="evidence", kernel=kernel, structure="diagonals", scaling=scaling)


def _logistic(scaling: str) -> Callable[[Task], Any]:
    return _hkrr(criterion="logistic", kernel="matern32", scaling=scaling)


def _has_few_classes(task: Task) -> bool:
    return task.classes and task.t <= _FEW_CLASSES and task.n <= _EXACT_UP_TO


def _linear(task: Task) -> Any:
    last = LogisticRegression(max_iter=_LOGISTIC_STEPS) if task.classes else RidgeCV(_RIDGES)
    return make_pipeline(StandardScaler(), last)


def _make_boosted_trees(task: Task, **options: Any) -> Any:
    given: dict[str, Any] = {"learning_rate": 0.05, "random_state": task.seed, **options}
    # With few rows, the time of a step depends on the number of features alone
    most = max(_MIN_TREE_STEPS, _STEPS_TIMES_FEATURES // task.d)
    if task.n < _MANY_ROWS and given["max_iter"] > most:
        rate = given["learning_rate"] * given["max_iter"] / most
        given |= {"max_iter": most, "learning_rate": min(rate, _MAX_LEARNING_RATE)}
    if task.classes:
        return HistGradientBoostingClassifier(**given)
    trees = HistGradientBoostingRegressor(**given)
    return trees if task.t == 1 else MultiOutputRegressor(trees)


def _trees(task: Task) -> Any:
    if task.n < _MANY_ROWS or task.rarest < _RARE_CLASS:
        few = {"max_leaf_nodes": 8, "min_samples_leaf": 5, "max_features": 0.5}
        if not task.classes:
            return _make_boosted_trees(task, max_iter=100, learning_rate=0.1, **few)
        # With many classes a step fits many trees, and fewer steps suffice
        return _make_boosted_trees(task, max_iter=max(100, min(200, 6_000 // task.t)), **few)
    options = {"n_iter_no_change": 20, "max_features": 0.6}
    if task.classes:  # more and smaller trees: a lower loss on training rows of three data sets
        options = {"n_iter_no_change": 30, "max_leaf_nodes": 15, "max_features": 0.5}
        options["l2_regularization"] = 5.0
    most = max(100, min(1_000, 20_000 // task.t))
    return _make_boosted_trees(task, max_iter=most, early_stopping=True, **options)


def _shallow_trees(task: Task) -> Any:
    return _make_boosted_trees(
        task, max_iter=150, max_leaf_nodes=8, l2_regularization=5.0, max_features=0.5
    )


def _deep_trees(task: Task) -> Any:
    return _make_boosted_trees(
        task,
        max_iter=600,
        max_leaf_nodes=63,
        min_samples_leaf=5,
        max_features=0.6,
        early_stopping=False,
    )


def _has_few_rows(task: Task) -> bool:
    return task.n <= _FEW_ROWS


def _quick(_: Task) -> str:
    return "quick"


def _thorough(_: Task) -> str:
    return "thorough"


def _suits_two_scales(task: Task) -> bool:
    """Whether kernels of two scales are tried; with many columns they would fill memory."""
    return not task.classes and task.d <= _MANY_COLUMNS


def _suits_more_of_two_scales(task: Task) -> bool:
    return _suits_two_scales(task) and task.n <= _EXACT_UP_TO


def _normal_unless_two_scales(task: Task) -> str:
    """Return the effort of members that gained nothing beside kernels of two scales."""
    return "thorough" if _suits_more_of_two_scales(task) else "normal"


# Cheapest first. A new row is all that a new member needs. Members were chosen by the gains of
# blends of out-of-fold predictions on training rows of 25 data sets
CANDIDATES = (
    MemberCandidate(LINEAR, _linear, _quick),
    MemberCandidate(TREES, _trees, _quick, sees=CODES),
    MemberCandidate(
        SHALLOW_TREES, _shallow_trees, _quick, suits=lambda task: task.of_table, sees=CODES
    ),
    MemberCandidate("manhattan_laplace", _kernel_ridge("manhattan_laplace"), _quick, sees=LEVELS),
    # A long and a short scale for each feature. On training rows of eight regressions, the blend's
    # errors were 2.2 % smaller in two thirds of the time, as BKerNN, HKRR and RegFeaL then gained
    # hardly anything. On two classifications they gained nothing
    MemberCandidate(
        "scales_quantile",
        _two_scales("quantile"),
        _quick,
        suits=_suits_two_scales,
    ),
    MemberCandidate(
        "scales_standard",
        _two_scales("standard"),
        suits=_suits_more_of_two_scales,
    ),
    MemberCandidate("agop", _hkrr(optimizer="agop"), _quick),
    # By far the best if a rough target depends on few directions. With classes or many rows it
    # gained nothing
    MemberCandidate(
        "agop_full",
        _hkrr(optimizer=_FULL_AGOP, scaling="standard"),
        suits=lambda task: not task.classes and task.n < _MANY_ROWS and task.d <= _MANY_COLUMNS,
    ),
    MemberCandidate(
        "evidence_quantile",
        _evidence("matern32", "quantile"),
        lambda task: "thorough" if _suits_two_scales(task) else "quick",
    ),
    # The same, with interactions of levels
    MemberCandidate(
        "evidence_levels",
        _evidence("matern32", "quantile"),
        _quick,
        suits=lambda task: task.has_levels and not _has_few_classes(task),
        sees=LEVELS,
    ),
    # With few classes, log odds with two scalings are better than class indicators with three
    MemberCandidate(
        "logistic_levels",
        _logistic("quantile"),
        _quick,
        suits=lambda task: _has_few_classes(task) and task.has_levels,
        sees=LEVELS,
    ),
    MemberCandidate("logistic_robust", _logistic("robust"), suits=_has_few_classes),
    MemberCandidate(
        "evidence_robust",
        _evidence("matern32", "robust"),
        _normal_unless_two_scales,
        suits=lambda task: _has_few_rows(task) and not _has_few_classes(task),
    ),
    MemberCandidate(
        "loo_quantile",
        _hkrr(criterion="loo", kernel="matern32", scaling="quantile"),
        suits=lambda task: _has_few_rows(task) and not _has_few_classes(task),
    ),
    MemberCandidate("matern52", _kernel_ridge("matern52")),
    # After quicker kernels: if these are far better than trees, deep trees are skipped
    MemberCandidate(
        DEEP_TREES,
        _deep_trees,
        suits=lambda task: task.n >= _MANY_ROWS and not task.classes,
        like=TREES,
        sees=CODES,
    ),
    MemberCandidate(
        "agop_quantile",
        _hkrr(optimizer="agop", scaling="quantile"),
        _thorough,
        suits=_has_few_rows,
    ),
    # Learns directions across features. On eight data sets of few rows it gained .1 % beside two
    # scales, and 13 % on 800 rows of kin8nm
    MemberCandidate("bkernn", _bkernn(), at_once_from=_PARALLEL_BKERNN_FROM),
    # Slower than BKerNN, mostly in the first fold. If BKerNN is behind, these are skipped: on 22
    # parts of data sets of at most 800 rows, blends lost .01 % without them
    MemberCandidate("hkrr", _hkrr(), like="bkernn"),
    # On small regressions it took two fifths of the time, and gained nothing
    MemberCandidate(
        "rkhs_weighting",
        _method_maker(RKHSWeightingRegressor, RKHSWeightingClassifier),
        suits=lambda task: task.classes or not _has_few_rows(task),
        like="bkernn",
    ),
    MemberCandidate(
        "regfeal",
        _method_maker(RegFeaLRegressor, RegFeaLClassifier, scaling="quantile"),
        lambda task: "thorough" if _suits_two_scales(task) else "normal",
        suits=lambda task: task.n <= _FEATURE_MAPS_UP_TO and task.d <= _MANY_COLUMNS,
        like="bkernn",
    ),
    MemberCandidate("laplace", _kernel_ridge("laplace"), _thorough),
    MemberCandidate(
        "evidence_matern52", _evidence("matern52", "standard"), _thorough, suits=_has_few_rows
    ),
    MemberCandidate(
        "bkernn_robust", _bkernn(scaling="robust"), _thorough, at_once_from=_PARALLEL_BKERNN_FROM
    ),
    MemberCandidate("hkrr_standard", _hkrr(scaling="standard"), _thorough),
    MemberCandidate(
        "selection",
        _method_maker(KernelFeatureSelector, KernelFeatureSelectorClassifier),
        # The only one that finds few columns among thousands; a fit is quicker than one of trees
        lambda task: "quick" if task.is_wide else "thorough",
    ),
)
NAMES = tuple(row.name for row in CANDIDATES)
# Members that come first under a time limit: with many rows, and with many columns
_FIRST_IF_LIMITED = ("linear", TREES, "evidence_levels", "logistic_levels", "bkernn", "hkrr")
_FIRST_IF_WIDE = ("linear", "selection")


def make_members(asked: Any, effort: str, task: Task, /, *, limited: bool = False) -> list[Member]:
    """Return the members that the user asked for: None, "kernels", or names and estimators.

    All folds of named members are fitted. Trees are always included. With "kernels", or if the
    names do not include them, they are shown but not blended. If time is `limited` and there are
    many rows or columns, the members that gain most in a short time come first.
    """
    if asked is None or isinstance(asked, str):
        rows = [row for row in CANDIDATES if row.is_tried(effort, task)]
        if limited and (task.is_wide or task.n >= _MANY_ROWS):
            first = _FIRST_IF_WIDE if task.is_wide else _FIRST_IF_LIMITED
            rows = sorted(rows, key=lambda row: row.name not in first)
        shown = () if asked is None else BOOSTED
        return [_make_member(row, task, blended=row.name not in shown) for row in rows]
    found = []
    for k, one in enumerate(asked):
        name, member = one if isinstance(one, (tuple, list)) else (None, one)
        if isinstance(member, str):
            own = _make_member(CANDIDATES[NAMES.index(member)], task)
            model = "" if name in (None, own.name) else MODELS[own.name]
            found.append(replace(own, name=name or own.name, reference=True, model=model))
        else:
            name = name or f"{type(member).__name__}, number {k + 1}"
            found.append(Member(name, member, reference=True, model=class_name(member)))
    if TREES not in [member.name for member in found]:
        found.append(_make_member(CANDIDATES[NAMES.index(TREES)], task, blended=False))
    return found


def check_members(asked: Any, classes: bool, /) -> None:
    """Raise TypeError or ValueError unless members are names of candidates, or estimators."""
    if asked is None or (isinstance(asked, str) and asked == "kernels"):
        return
    own = f"{', '.join(NAMES)} and estimators with {', '.join(_REQUIRED)}"
    want = f"expected members to be None, 'kernels', or a list of {own}"
    if isinstance(asked, str) or not isinstance(asked, (list, tuple)) or not asked:
        msg = f"{want}, got {asked!r}"
        raise ValueError(msg)
    for one in asked:
        member = one[1] if isinstance(one, (tuple, list)) and len(one) == 2 else one
        if isinstance(member, str):
            known = member in NAMES
        else:
            has_all = all(hasattr(member, name) for name in _REQUIRED)
            known = has_all and not isinstance(member, type)
        if not known:
            msg = f"{want}, got {member!r}"
            raise ValueError(msg)
        if not isinstance(member, str) and is_classifier(member) != classes:
            kind = "classifiers" if classes else "regressors"
            msg = f"expected members to be {kind}, got {type(member).__name__}"
            raise ValueError(msg)
    given = [one[0] for one in asked if isinstance(one, (tuple, list))]
    for name in given:
        if not isinstance(name, str) or name in (BLEND, TREES):
            msg = f"expected a name in members other than {BLEND} and {TREES}, got {name!r}"
            raise ValueError(msg)
    names = [*given, *(one for one in asked if isinstance(one, str))]
    if len(set(names)) < len(names):
        msg = f"expected a different name for each of members, got {', '.join(names)}"
        raise ValueError(msg)


def make_constant_member(classes: bool, /) -> Member:
    """Return a member for a target that does not vary."""
    return Member(CONSTANT, DummyClassifier() if classes else DummyRegressor())


def _make_member(row: MemberCandidate, task: Task, *, blended: bool = True) -> Member:
    sees = row.sees if task.has_levels or (task.of_table and row.sees == CODES) else NUMBERS
    is_reference = row.name == TREES
    return Member(
        *(row.name, row.make(task), row.power, blended, is_reference, sees, row.like),
        at_once_from=row.at_once_from,
    )


# ----------------------------------------------------------------------------- fewer steps


def takes_any_columns(estimator: Any, /) -> bool:
    """Whether an estimator can be timed on a subset of the columns."""
    if isinstance(estimator, Pipeline):
        steps = [one for _, one in estimator.steps]
        return (
            len(steps) == 2 and isinstance(steps[0], StandardScaler) and takes_any_columns(steps[1])
        )
    if isinstance(estimator, MultiOutputRegressor):
        return takes_any_columns(estimator.estimator)
    if getattr(estimator, "monotonic_cst", None) is not None:
        return False
    return isinstance(estimator, (Learner, LogisticRegression, RidgeCV, *BOOSTED_CLASSES))


def n_steps(estimator: Any, /) -> int:
    """Return the number of steps of an estimator; 1 if it has none."""
    inner = _stepped_part(estimator)
    return 1 if inner is None else int(inner.max_iter)


def clone_with_steps(estimator: Any, steps: int, /) -> Any:
    """Return a clone with fewer steps; boosting then has a higher learning rate."""
    new = clone(estimator)
    inner = _stepped_part(new)
    if inner is None or steps >= inner.max_iter:
        return new
    if isinstance(inner, BOOSTED_CLASSES):
        rate = min(inner.learning_rate * inner.max_iter / steps, _MAX_LEARNING_RATE)
        # Few steps need no validation rows
        inner.set_params(learning_rate=max(rate, inner.learning_rate), early_stopping=False)
    inner.set_params(max_iter=steps)
    return new


def _stepped_part(estimator: Any) -> Any:
    """Return the part of an estimator that has `max_iter` steps, or None."""
    if isinstance(estimator, Pipeline):
        return _stepped_part(estimator.steps[-1][1])
    if isinstance(estimator, MultiOutputRegressor):
        return _stepped_part(estimator.estimator)
    return estimator if isinstance(estimator, (LogisticRegression, *BOOSTED_CLASSES)) else None


def member_work(estimator: Any, power: float, size: Size, /) -> float:
    """Return the work of a fit: rows to a power, times columns, times steps.

    A ridge regression also takes a factor: the smaller of its numbers of rows and columns.
    """
    each = min(size.rows, size.columns) if isinstance(_last_step(estimator), RidgeCV) else 1
    return float(size.rows) ** power * size.columns * size.steps * each
