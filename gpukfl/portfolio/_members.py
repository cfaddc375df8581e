"""Members of a portfolio, their fits, and the candidates."""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
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

# A member of a portfolio: an estimator, and what a fit of it takes and gives.


_BEYOND = 0.1  # of the targets' range
_STOPPED_FROM = 10_000  # rows above which scikit-learn's trees are stopped early by themselves
_MOST_COPIES = 1_000  # of the row that has the fewest, beside which others are whole numbers
_FEWEST_KNOWN = 5  # values of a column that trees may split: they leave so many rows on each side


@dataclass(frozen=True)
class Member:
    """A scikit-learn estimator under a name.

    Attributes
    ----------
    name : str
        By which leaderboards show it.
    estimator : estimator
        Of which each fold fits a clone.
    power : float
        With which power of the rows a fit takes longer.
    blended : bool
        Whether it may enter the blend; it is shown in any case.
    reference : bool
        Whether it is fitted to the end though it is clearly behind.
    sees : str
        How it sees the rows of a table: as numbers, as codes with gaps, or with levels.
    like : str
        The name of a member without which it is of no use either; none where it is empty.
    at_once_from : float
        Rows from which its fits to several folds are quicker at once, in threads.
    weighted : bool
        Whether weights were given. Without them, a row's weight is the number of its copies, and
        what takes no weights has the copies.
    start : WarmStart or None
        What an earlier fit to other rows came to, from which a fit without a precedent starts.
    model : str
        What it is in words, where a user chose the name; empty where `MODELS` says it.
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
        """What it is in words, with its name."""
        return member_text(self.name, {self.name: self.model} if self.model else {})

    @property
    def takes_any_library(self) -> bool:
        """Whether the member takes arrays of any library."""
        return isinstance(self.estimator, Learner)

    @property
    def keeps_time(self) -> bool:
        """Whether the member keeps a time limit."""
        return self.takes_any_library and hasattr(self.estimator, "max_time")

    def in_fold(self, n: int, /) -> Member:
        """Return the member as folds of n rows fit it.

        The last fit of HKRR has all of many rows for centres. Those of folds have some: they weigh
        the member, and would take most of the time.
        """
        e = self.estimator
        is_hkrr = isinstance(e, (HKRRRegressor, HKRRClassifier))
        if not is_hkrr or e.n_centers != "auto" or n <= ALL_CENTERS:
            return self
        return replace(self, estimator=clone(e).set_params(n_centers=Centers(refit=REFIT_CENTERS)))

    def fit_clone(
        self, samples: Samples, precedent: WarmStart[Any] | None, max_time: float | None, /
    ) -> tuple[Any, WarmStart[Any] | None]:
        """Fit a clone, perhaps with the setting of another fit; also return its own setting.

        Raises
        ------
        ValueError
            If weights were given, whatever they are, and the estimator takes none.
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
            if len(np.unique(y)) == 1:  # all that some folds have
                model = DummyClassifier()
        elif len(samples) == 1:
            model = DummyRegressor()
        if isinstance(model, Learner):
            if self.keeps_time:
                model.set_params(max_time=max_time)
            found = model.fit_like(
                *(samples.X, y, samples.weights, precedent or self.start),
                relations=samples.relations,
                deviations=False,
            )
            if self.keeps_time:
                model.set_params(max_time=None)
            return model, found
        # Scikit-learn would standardise in float32, and a model elsewhere does it in float64
        X, y = np.asarray(to_host(samples.X), dtype=np.float64), to_host(y)
        if self.sees == CODES:
            X = _fill_scarce_columns(X, samples.weights)
        # Weights are passed by the names of steps, whatever requests a user routes elsewhere
        with (
            few_threads(len(X)),
            config_context(enable_metadata_routing=False),
            _own_splits(model, samples),
        ):
            if not _fit_watched(model, X, y, samples):
                _fit(model, X, y, samples.weights, may_repeat=not self.weighted)
        return model, precedent

    @property
    def _takes_weights(self) -> bool:
        return self.takes_any_library or any(_takes_weights(_last_step(self.estimator)))


def _fill_scarce_columns(X: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Set columns (n, d) with hardly any known values to 0, for trees.

    Scikit-learn's fail where all are missing, perhaps in the rows that early stopping leaves.
    """
    known = np.isfinite(X) if weights is None else np.isfinite(X[weights > 0])
    scarce = np.count_nonzero(known, axis=0) < min(_FEWEST_KNOWN, len(known))
    return np.where(scarce, 0.0, X) if scarce.any() else X


def _fit(
    model: Any, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None, *, may_repeat: bool
) -> None:
    """Fit a model of another library, with weights for the last step of a pipeline.

    Where rows `may_repeat`, others have each as often as its weight says.
    """
    named, passed_on = _takes_weights(_last_step(model))
    if weights is None:
        model.fit(X, y)
    elif named or (passed_on and not may_repeat):
        model.fit(X, y, **{_parameter_path(model) + "sample_weight": weights})
    else:
        times = _integer_weights(weights)
        model.fit(np.repeat(X, times, axis=0), np.repeat(y, times, axis=0))


@contextlib.contextmanager
def _own_splits(model: Any, samples: Samples) -> Iterator[None]:
    """Let a model of another library choose its settings by splits of rows as they hang together.

    Where it has its own parameter `cv`, which the user did not set to a splitter.
    """
    last = _last_step(model)
    given = getattr(last, "cv", "")
    if (
        samples.relations is None
        or not isinstance(given, (int, type(None)))
        or not (samples.weights is None or _takes_weights(last)[0])
    ):
        yield
        return
    how = Splits(at_most=len(samples), folds_below=len(samples) + 1)
    last.set_params(cv=samples.split_rows(np.random.RandomState(0), how))
    try:
        yield
    finally:
        last.set_params(cv=given)


def _fit_watched(model: Any, X: np.ndarray, y: np.ndarray, samples: Samples) -> bool:
    """Fit trees that are stopped early by rows as they hang together; return whether it did.

    Where nothing hangs together, or the trees cannot be told, scikit-learn draws these rows.
    """
    known, stops = samples.relations, getattr(model, "early_stopping", False)
    stops = len(X) > _STOPPED_FROM if stops == "auto" else stops
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


def _takes_weights(model: Any) -> tuple[bool, bool]:
    """Return whether `fit` takes weights, and whether it passes them to other estimators."""
    parameters = inspect.signature(model.fit).parameters
    passed_on = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    return "sample_weight" in parameters, passed_on


def _integer_weights(weights: np.ndarray) -> np.ndarray:
    """Return integer copies (n,) proportional to weights (n,)."""
    shares = weights / weights[weights > 0].min()
    for fewest in range(1, _MOST_COPIES):
        counts = np.rint(shares * fewest)
        if np.allclose(counts, shares * fewest, rtol=1e-6, atol=0.0):
            break
    return counts.astype(np.int64)


def prediction_limits(targets: np.ndarray, /) -> np.ndarray:
    """Return the limits of predictions (2, t): a tenth beyond the targets (n, t).

    A linear member, or one of the user's, may say anything far from the data.
    """
    low, high = targets.min(axis=0), targets.max(axis=0)
    return np.stack([low, high]) + _BEYOND * (high - low) * np.array([[-1.0], [1.0]])


# ------------------------------------------------------------------------------ candidates

# The members that are tried: a row each, cheapest first.


EFFORTS = ("quick", "normal", "thorough")
BOOSTED = TREES, SHALLOW_TREES, DEEP_TREES = "trees", "shallow_trees", "deep_trees"
_EXACT = 3_000  # rows up to which kernel ridge regression has all of them as centres
_CENTERS = 1_000
_FEW = 1_000  # rows up to which variants of a member are cheap
_MANY = 2_000  # rows from which trees may be large
_RARE = 50  # rows of a class, of which folds and then those that stop trees early need some
_MOST = 200_000  # rows up to which many features are formed
_SHORT_STEPS = 2_000  # rows below which steps of BKerNN are so short that threads would wait
_WIDE = 300  # features above which eigenvalue problems of their number take most of the time
_TURNED = AverageGradientOuterProduct(max_iter=5, structure="full", shrinkage=0.05)
_FEW_CLASSES = 3  # columns of classes up to which their evidence takes little time
_STEPS_TIMES_FEATURES = 400_000  # of small trees
_FEWEST_STEPS, _FASTEST = 20, 0.3  # iterations of trees, and their learning rate
_LARGEST_TARGET, _LARGEST_FEATURE = 1e37, 1e140  # that members of other libraries can hold
_RIDGES = tuple(10.0**k for k in range(-4, 5))
_ASKED = ("fit", "get_params", "set_params", "__sklearn_tags__")  # of an estimator


@dataclass(frozen=True)
class Task:
    """The data properties for which members are made.

    Attributes
    ----------
    classes : bool
        Whether targets are classes.
    n, d, t : int
        Rows, features, and targets.
    rarest : int
        Rows of the rarest class; all of a regression.
    backend : str or Backend
        Where members compute that can.
    seed : int
        For their draws.
    of_table : bool
        Whether rows are of a table, of which trees take the codes.
    has_levels : bool
        Whether levels of some of its categories are seen by members that take them.
    too_large : frozenset of str
        Members of other libraries that numbers of this size overflow.
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
        """Whether columns are many and more than rows."""
        return self.d > max(self.n, _WIDE)

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
        too_large = _overflowing_members(samples)
        return cls(codes is not None, *sizes, backend, seed, of_table, has_levels, too_large)


def _overflowing_members(samples: Samples) -> frozenset[str]:
    """Return the names of members that would overflow on the samples."""
    names: frozenset[str] = frozenset()
    if samples.classes is None and _exceeds(samples.Y, _LARGEST_TARGET):
        names |= {*BOOSTED}
    return names | {"linear"} if _exceeds(samples.X, _LARGEST_FEATURE) else names


def _exceeds(X: Array, limit: float) -> bool:
    if lies_in_parts(X) or 0 in X.shape:
        return False
    xp = array_namespace(X)
    return float(xp.max(X)) > limit or float(xp.min(X)) < -limit


@dataclass(frozen=True)
class MemberCandidate:
    """A candidate member.

    Attributes
    ----------
    name : str
        By which it is asked for.
    make : callable
        Its estimator for a task.
    effort : callable
        The least with which it is tried for a task.
    power : float
        With which power of the rows a fit takes longer.
    suits : callable
        Whether it is tried for a task.
    like : str
        The member before it without which it is of no use either; none where it is empty.
    sees : str
        How it sees the rows of a table.
    at_once_from : int
        Rows from which fits of a method of ours to several folds are quicker at once: where they
        are fewer, threads wait for the interpreter more than they compute.
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
        """Whether the candidate is tried at an effort."""
        known = EFFORTS.index(self.effort(task)) <= EFFORTS.index(effort)
        return known and self.suits(task) and self.name not in task.too_large


def _method_maker(regressor: type, classifier: type, /, **options: Any) -> Callable[[Task], Any]:
    def make(task: Task) -> Any:
        kind = classifier if task.classes else regressor
        return kind(random_state=task.seed, backend=task.backend, **options)

    return make


def _kernel_ridge(kernel: str) -> Callable[[Task], Any]:
    def make(task: Task) -> Any:
        centers = "auto" if task.n <= _EXACT else _CENTERS
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


def _leave_one_out(kernel: str, scaling: str) -> Callable[[Task], Any]:
    return _hkrr(criterion="loo", kernel=kernel, scaling=scaling)


def _logistic(scaling: str) -> Callable[[Task], Any]:
    return _hkrr(criterion="logistic", kernel="matern32", scaling=scaling)


def _has_few_classes(task: Task) -> bool:
    return task.classes and task.t <= _FEW_CLASSES and task.n <= _EXACT


def _linear(task: Task) -> Any:
    last = LogisticRegression(max_iter=300) if task.classes else RidgeCV(_RIDGES)
    return make_pipeline(StandardScaler(), last)


def _make_boosted_trees(task: Task, **options: Any) -> Any:
    given: dict[str, Any] = {"learning_rate": 0.05, "random_state": task.seed, **options}
    # An iteration takes a moment for each feature, however few rows there are
    most = max(_FEWEST_STEPS, _STEPS_TIMES_FEATURES // task.d)
    if task.n < _MANY and given["max_iter"] > most:
        faster = given["learning_rate"] * given["max_iter"] / most
        given |= {"max_iter": most, "learning_rate": min(faster, _FASTEST)}
    if task.classes:
        return HistGradientBoostingClassifier(**given)
    trees = HistGradientBoostingRegressor(**given)
    return trees if task.t == 1 else MultiOutputRegressor(trees)


def _trees(task: Task) -> Any:
    if task.n < _MANY or task.rarest < _RARE:
        few = {"max_leaf_nodes": 8, "min_samples_leaf": 5, "max_features": 0.5}
        if not task.classes:
            return _make_boosted_trees(task, max_iter=100, learning_rate=0.1, **few)
        # With many classes an iteration is many trees, and the best of them comes sooner
        return _make_boosted_trees(task, max_iter=max(100, min(200, 6_000 // task.t)), **few)
    form = {"n_iter_no_change": 20, "max_features": 0.6}
    if task.classes:  # smaller trees, and more of them, lost less on training rows of three sets
        form = {"n_iter_no_change": 30, "max_leaf_nodes": 15, "max_features": 0.5}
        form["l2_regularization"] = 5.0
    most = max(100, min(1_000, 20_000 // task.t))
    return _make_boosted_trees(task, max_iter=most, early_stopping=True, **form)


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
    return task.n <= _FEW


def _quick(_: Task) -> str:
    return "quick"


def _thorough(_: Task) -> str:
    return "thorough"


def _takes_two_scales(task: Task) -> bool:
    """Whether kernels of two scales are tried; of wide tables their maps would fill memory."""
    return not task.classes and task.d <= _WIDE


def _takes_more_of_two_scales(task: Task) -> bool:
    return _takes_two_scales(task) and task.n <= _EXACT


def _normal_unless_two_scales(task: Task) -> str:
    """Return the effort of what gained nothing beside kernels of two scales."""
    return "thorough" if _takes_more_of_two_scales(task) else "normal"


# Whatever is added here is tried, shown, blended and saved; `make` gives any estimator.
# Chosen by what blends of out-of-fold predictions gained with them on training rows of 25 sets
CANDIDATES = (
    MemberCandidate("linear", _linear, _quick),
    MemberCandidate(TREES, _trees, _quick, sees=CODES),
    MemberCandidate(
        SHALLOW_TREES, _shallow_trees, _quick, suits=lambda task: task.of_table, sees=CODES
    ),
    MemberCandidate("manhattan_laplace", _kernel_ridge("manhattan_laplace"), _quick, sees=LEVELS),
    # A long and a short scale for each feature take the place of one: on training rows of eight
    # regressions the blend's errors were 2.2 % smaller, in two thirds of the time, as BKerNN, HKRR
    # and RegFeaL had hardly a use beside them. Of two sets of classes two scales gained nothing
    MemberCandidate(
        "scales_quantile",
        _two_scales("quantile"),
        _quick,
        suits=_takes_two_scales,
    ),
    MemberCandidate(
        "scales_standard",
        _two_scales("standard"),
        suits=_takes_more_of_two_scales,
    ),
    MemberCandidate("agop", _hkrr(optimizer="agop"), _quick),
    # Far ahead of all others where a rough target depends on few directions; of classes, or of
    # many rows, it gained nothing
    MemberCandidate(
        "agop_full",
        _hkrr(optimizer=_TURNED, scaling="standard"),
        suits=lambda task: not task.classes and task.n < _MANY and task.d <= _WIDE,
    ),
    MemberCandidate(
        "evidence_quantile",
        _evidence("matern32", "quantile"),
        lambda task: "thorough" if _takes_two_scales(task) else "quick",
    ),
    # The same, which learns what acts differently by level
    MemberCandidate(
        "evidence_levels",
        _evidence("matern32", "quantile"),
        _quick,
        suits=lambda task: task.has_levels and not _has_few_classes(task),
        sees=LEVELS,
    ),
    # Of few classes, log odds by two scalings are better than indicators of classes by three
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
        _leave_one_out("matern32", "quantile"),
        suits=lambda task: _has_few_rows(task) and not _has_few_classes(task),
    ),
    MemberCandidate("matern52", _kernel_ridge("matern52")),
    # After the kernels that are quicker: where these are far ahead of trees, it is not begun
    MemberCandidate(
        DEEP_TREES,
        _deep_trees,
        suits=lambda task: task.n >= _MANY and not task.classes,
        like=TREES,
        sees=CODES,
    ),
    MemberCandidate(
        "agop_quantile",
        _hkrr(optimizer="agop", scaling="quantile"),
        _thorough,
        suits=_has_few_rows,
    ),
    # Of eight sets of few rows these gained .1 % beside two scales, and of 800 rows of kin8nm 13 %:
    # directions are learned that no feature has alone
    MemberCandidate("bkernn", _bkernn(), at_once_from=_SHORT_STEPS),
    # These take longer than BKerNN, most of it in the first fold: where that was behind, blends of
    # 22 parts of sets of at most 800 rows lost .01 % without them
    MemberCandidate("hkrr", _hkrr(), like="bkernn"),
    # Of small regressions it took two fifths of the time, and gained nothing
    MemberCandidate(
        "rkhs_weighting",
        _method_maker(RKHSWeightingRegressor, RKHSWeightingClassifier),
        suits=lambda task: task.classes or not _has_few_rows(task),
        like="bkernn",
    ),
    MemberCandidate(
        "regfeal",
        _method_maker(RegFeaLRegressor, RegFeaLClassifier, scaling="quantile"),
        lambda task: "thorough" if _takes_two_scales(task) else "normal",
        suits=lambda task: task.n <= _MOST and task.d <= _WIDE,
        like="bkernn",
    ),
    MemberCandidate("laplace", _kernel_ridge("laplace"), _thorough),
    MemberCandidate(
        "evidence_matern52", _evidence("matern52", "standard"), _thorough, suits=_has_few_rows
    ),
    MemberCandidate(
        "bkernn_robust", _bkernn(scaling="robust"), _thorough, at_once_from=_SHORT_STEPS
    ),
    MemberCandidate("hkrr_standard", _hkrr(scaling="standard"), _thorough),
    MemberCandidate(
        "selection",
        _method_maker(KernelFeatureSelector, KernelFeatureSelectorClassifier),
        # It alone finds few columns among thousands, and a fit takes less than one of trees
        lambda task: "quick" if task.is_wide else "thorough",
    ),
)
NAMES = tuple(row.name for row in CANDIDATES)
# Which make the most of many rows and a short time
_IN_HASTE = ("linear", TREES, "evidence_levels", "logistic_levels", "bkernn", "hkrr")
_WIDE_IN_HASTE = ("linear", "selection")


def make_members(asked: Any, effort: str, task: Task, /, *, limited: bool = False) -> list[Member]:
    """Return the requested members: None, "kernels", or names and estimators.

    What is named is tried to the end; of the others those that are clearly behind are left.

    Trees are always among them; with "kernels", or where they are not asked for, they are shown
    beside the others and enter no blend. Where time is `limited` and rows are many, or columns more
    than rows, those of which something comes soonest are first.
    """
    if asked is None or isinstance(asked, str):
        rows = [row for row in CANDIDATES if row.is_tried(effort, task)]
        if limited and (task.is_wide or task.n >= _MANY):
            first = _WIDE_IN_HASTE if task.is_wide else _IN_HASTE
            rows = sorted(rows, key=lambda row: row.name not in first)
        shown = () if asked is None else BOOSTED
        return [_make_member(row, task, blended=row.name not in shown) for row in rows]
    found = []
    for k, one in enumerate(asked):
        name, what = one if isinstance(one, (tuple, list)) else (None, one)
        if isinstance(what, str):
            own = _make_member(CANDIDATES[NAMES.index(what)], task)
            model = "" if name in (None, own.name) else MODELS[own.name]
            found.append(replace(own, name=name or own.name, reference=True, model=model))
        else:
            name = name or f"{type(what).__name__}, number {k + 1}"
            found.append(Member(name, what, reference=True, model=class_name(what)))
    if TREES not in [member.name for member in found]:
        found.append(_make_member(CANDIDATES[NAMES.index(TREES)], task, blended=False))
    return found


def check_members(asked: Any, classes: bool, /) -> None:
    """Raise TypeError or ValueError unless members are names of candidates, or estimators."""
    if asked is None or (isinstance(asked, str) and asked == "kernels"):
        return
    own = f"{', '.join(NAMES)} and estimators with {', '.join(_ASKED)}"
    want = f"expected members to be None, 'kernels', or a list of {own}"
    if isinstance(asked, str) or not isinstance(asked, (list, tuple)) or not asked:
        msg = f"{want}, got {asked!r}"
        raise ValueError(msg)
    for one in asked:
        what = one[1] if isinstance(one, (tuple, list)) and len(one) == 2 else one
        if isinstance(what, str):
            known = what in NAMES
        else:
            known = not isinstance(what, type) and all(hasattr(what, name) for name in _ASKED)
        if not known:
            msg = f"{want}, got {what!r}"
            raise ValueError(msg)
        if not isinstance(what, str) and is_classifier(what) != classes:
            kind = "classifiers" if classes else "regressors"
            msg = f"expected members to be {kind}, got {type(what).__name__}"
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
    return Member("constant", DummyClassifier() if classes else DummyRegressor())


def _make_member(row: MemberCandidate, task: Task, *, blended: bool = True) -> Member:
    sees = row.sees if task.has_levels or (task.of_table and row.sees == CODES) else NUMBERS
    shown = row.name == TREES
    made, from_rows = row.make(task), row.at_once_from
    return Member(row.name, made, row.power, blended, shown, sees, row.like, from_rows)


# ----------------------------------------------------------------------------- fewer steps

# Members of which few columns and few steps are fitted first, to say how long all take.


_FASTEST_FEWER_STEPS = 0.3  # learning rate of few steps
_BOOSTED = HistGradientBoostingClassifier, HistGradientBoostingRegressor


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
    return isinstance(estimator, (Learner, LogisticRegression, RidgeCV, *_BOOSTED))


def n_steps(estimator: Any, /) -> int:
    """Return the number of steps of an estimator; 1 if it has none."""
    inner = _stepped_part(estimator)
    return 1 if inner is None else int(inner.max_iter)


def clone_with_steps(estimator: Any, steps: int, /) -> Any:
    """Return a clone with fewer steps, which are larger in boosting."""
    new = clone(estimator)
    inner = _stepped_part(new)
    if inner is None or steps >= inner.max_iter:
        return new
    if isinstance(inner, _BOOSTED):
        faster = min(inner.learning_rate * inner.max_iter / steps, _FASTEST_FEWER_STEPS)
        # Few steps need no rows that say when to stop
        inner.set_params(learning_rate=max(faster, inner.learning_rate), early_stopping=False)
    inner.set_params(max_iter=steps)
    return new


def _stepped_part(estimator: Any) -> Any:
    """Return the part of an estimator that has steps, or None."""
    if isinstance(estimator, Pipeline):
        return _stepped_part(estimator.steps[-1][1])
    if isinstance(estimator, MultiOutputRegressor):
        return _stepped_part(estimator.estimator)
    return estimator if isinstance(estimator, (LogisticRegression, *_BOOSTED)) else None


def member_work(estimator: Any, power: float, size: Size, /) -> float:
    """Return the work of a fit: rows to a power, times columns, times steps.

    A ridge regression solves for the fewer of its rows and columns.
    """
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    each = min(size.rows, size.columns) if isinstance(last, RidgeCV) else 1
    return float(size.rows) ** power * size.columns * size.steps * each
