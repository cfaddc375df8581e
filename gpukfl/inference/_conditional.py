"""Conditional importances: the loss by redrawing columns given the others, with p-values."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.covariance import LedoitWolf
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.metrics import mean_poisson_deviance
from sklearn.model_selection import (
    KFold,
    PredefinedSplit,
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import has_fit_parameter

from gpukfl.core._array import unique_rows
from gpukfl.core._checks import check_kind, check_number
from gpukfl.core._warnings import collect_warnings
from gpukfl.estimators import KernelRidgeClassifier, KernelRidgeRegressor
from gpukfl.estimators._progress import show_progress
from gpukfl.inference._evaluation import (
    EvaluationData,
    Part,
    known_importances,
    make_evaluation_data,
)
from gpukfl.inference._groups import read_groups
from gpukfl.inference._row_groups import find_row_groups
from gpukfl.inference._stepwise import NO_LIMIT, TimeLimit, map_with_progress
from gpukfl.inference._test_results import ConditionalImportance
from gpukfl.portfolio._folds import HeldOutLoss
from gpukfl.tables._clusters import deviation_of_sum, group_sums, number_groups
from gpukfl.tables._relations import deal_groups

# ------------------------------------------------------------------------------ imputation

# What the other columns say of some: a prediction and residuals, or probabilities of levels.


RowGroups = np.ndarray | None  # numbers (n,) of the groups of rows that depend on each other
_FOLDS = 3
_RARE = 1e-3  # probability below which a kernel's are alike
_STEPS = 1_000
_EACH = 4  # rows for a level, on average, so that its probability can be learned


@dataclass(frozen=True)
class Imputer:
    """A model that predicts columns from all others, for `conditional_importance`.

    Parameters
    ----------
    regressor : scikit-learn regressor, optional
        Regressor for columns of numbers, cloned for each column. By default it is
        `KernelRidgeRegressor`. Leave-one-out chooses its ridge and lengthscale, and a linear kernel
        where that is best.
    classifier : scikit-learn classifier with `predict_proba`, optional
        Classifier for columns of few levels. By default it is logistic regression. Its inputs are
        the other columns, and predictions of `KernelRidgeClassifier` for rows that it has not seen.
    max_levels : int, default=10
        Largest number of levels. A column or group with at most so many different values, or
        combinations of values, is predicted as levels.

    Raises
    ------
    TypeError, ValueError
        If `max_levels` is no integer of at least 1, or an estimator lacks the required methods.
    """

    regressor: Any = None
    classifier: Any = None
    max_levels: int = 10

    def __post_init__(self) -> None:
        check_number("max_levels", self.max_levels, kind=numbers.Integral, low=1)
        wanted = {"regressor": "predict", "classifier": "predict_proba"}
        for name, method in wanted.items():
            given = getattr(self, name)
            if given is not None and not hasattr(given, method):
                msg = f"expected {name} to have a method {method}, got {given!r}"
                raise TypeError(msg)

    def levels(self, values: np.ndarray, /) -> np.ndarray | None:
        """Return the level (n,) of each row of values (n, g), or None if there are many."""
        codes = [np.unique(column, return_inverse=True)[1].ravel() for column in values.T]
        _, level = unique_rows(np.stack(codes, axis=1))
        return level if level.max() < min(self.max_levels, max(len(values) // _EACH, 1)) else None

    def means(
        self, others: np.ndarray, values: np.ndarray, seed: int, row_groups: RowGroups = None, /
    ) -> np.ndarray:
        """Predict columns (n, g), some values of which may be missing, from others (n, q).

        A model that takes groups of rows chooses its settings by whole ones.
        """
        default = KernelRidgeRegressor(random_state=seed)
        model = default if self.regressor is None else self.regressor
        found = [_predict_column(model, others, column, row_groups) for column in values.T]
        return np.stack(found, axis=1)

    def probabilities(
        self, others: np.ndarray, levels: np.ndarray, seed: int, row_groups: RowGroups = None, /
    ) -> np.ndarray:
        """Estimate the probabilities (n, v) of levels 0, ..., v - 1 from others (n, q)."""
        counts = np.bincount(levels)
        if others.shape[1] == 0 or len(counts) == 1:
            return np.tile(counts / len(levels), (len(levels), 1))
        if self.classifier is None:
            return _estimate_probabilities(others, levels, seed, row_groups)
        model = clone(self.classifier)
        with collect_warnings():
            return np.asarray(model.fit(others, levels).predict_proba(others), dtype=np.float64)


def _estimate_probabilities(
    others: np.ndarray, levels: np.ndarray, seed: int, row_groups: RowGroups
) -> np.ndarray:
    """Estimate probabilities (n, v) by a logistic regression on the others and a kernel's scores.

    Where levels are drawn by probabilities, errors of these that go along with a column would be
    taken for effects; of maximum likelihood there are none on the rows that it is fitted to. Scores
    are those of rows that were held out, so that they say no more of these rows than of new ones.
    """
    enough = row_groups is None or len(np.unique(row_groups)) >= _FOLDS
    if enough and np.bincount(levels).min() >= _FOLDS:
        folds: Any = StratifiedKFold(_FOLDS, shuffle=True, random_state=seed)
        related = {}
        if row_groups is not None:
            folds = _group_folds(row_groups, _FOLDS, seed, levels)
            related["params"] = {"groups": row_groups}
        kernel = KernelRidgeClassifier(random_state=seed)
        how = {"cv": folds, "method": "predict_proba", **related}
        with collect_warnings():
            shares = cross_val_predict(kernel, others, levels, **how)
        others = np.concatenate([others, np.log(np.maximum(shares[:, 1:], _RARE))], axis=1)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=_STEPS))
    return np.asarray(model.fit(others, levels).predict_proba(others), dtype=np.float64)


def _group_folds(
    row_groups: np.ndarray, n_folds: int, seed: int, levels: np.ndarray | None = None
) -> PredefinedSplit:
    """Return folds of whole groups of rows, of which there are no fewer than two."""
    count, rng = min(n_folds, len(np.unique(row_groups))), np.random.RandomState(seed)
    return PredefinedSplit(deal_groups(row_groups, count, rng, levels))


def _predict_column(
    model: Any, others: np.ndarray, column: np.ndarray, row_groups: RowGroups
) -> np.ndarray:
    """Predict one column (n,), or return its mean if the others do not explain it."""
    there = np.flatnonzero(~np.isnan(column))
    known = column[there]
    if others.shape[1] == 0 or len(there) < 2 or np.ptp(known) == 0:
        return np.full(len(column), known.mean() if len(there) else 0.0)
    related = {}
    if row_groups is not None and has_fit_parameter(model, "groups"):
        own = row_groups[there]
        related = {"groups": own} if np.ptp(own) > 0 else {}
    with collect_warnings():
        fitted = clone(model).fit(others[there], known, **related)
        return np.asarray(fitted.predict(others), dtype=np.float64).reshape(len(column))


# --------------------------------------------------------------------------------- redrawn

# Rows whose values in some columns are redrawn, given all others.


_ROUNDING = 1e-12  # of a sum of losses; closer ones are equal


@dataclass(frozen=True, eq=False)
class Redrawn(ABC):
    """Rows with alternative values of some columns.

    A table (n, v) or (n, v, t) says something of each row with each of its values.
    """

    rows: np.ndarray  # (n,), which rows they are
    values: np.ndarray  # (n, v, g), of g columns; what the row has itself is among them
    own: np.ndarray  # (n,), which of the values that is

    def actual(self, table: np.ndarray, /) -> np.ndarray:
        """Return the entries of a table for the actual values: (n,)."""
        return table[np.arange(len(self.own)), self.own]

    @abstractmethod
    def middle(self, table: np.ndarray, /) -> np.ndarray:
        """Return the average of a table over the values, which redrawing does not change."""

    @abstractmethod
    def expectation(self, table: np.ndarray, /) -> np.ndarray:
        """Return the expectation of a table over redrawn values."""

    @abstractmethod
    def sums(self, table: np.ndarray, count: int, rng: np.random.RandomState, /) -> np.ndarray:
        """Redraw all rows repeatedly, and sum a table (n, v) over them: (count,)."""

    def p_value(self, losses: np.ndarray, count: int, rng: np.random.RandomState, /) -> float:
        r"""Return the p-value of a sum of losses: :math:`(1 + \#\{T_b \le T\}) / (1 + B)`."""
        actual = float(self.actual(losses).sum())
        as_low = self.sums(losses, count, rng) <= actual + _ROUNDING * abs(actual)
        return float(1 + np.count_nonzero(as_low)) / (1 + count)


@dataclass(frozen=True, eq=False)
class Permuted(Redrawn):
    """Rows in blocks of v, each with the residuals of its block.

    They are redrawn by permutations inside the blocks, of which there are many more than values
    that a model is asked of.
    """

    @classmethod
    def from_residuals(
        cls, values: np.ndarray, means: np.ndarray, scales: np.ndarray, blocks: np.ndarray, /
    ) -> Permuted:
        """Permute the residuals (m, g) of values within blocks (b, v) of rows.

        In units of the scales (m, g) of both rows.
        """
        size = blocks.shape[1]
        residuals = ((values - means) / scales)[blocks]
        moved = scales[blocks][:, :, None, :] * residuals[:, None, :, :]
        copies = means[blocks][:, :, None, :] + moved
        own = np.arange(size)
        copies[:, own, own, :] = values[blocks]  # as they are, to the last bit
        flat = copies.reshape(blocks.size, size, values.shape[1])
        return cls(blocks.ravel(), flat, np.tile(own, len(blocks)))

    def middle(self, table: np.ndarray, /) -> np.ndarray:
        """Return the average of a table over all residuals of the block."""
        return table.mean(axis=1)

    def expectation(self, table: np.ndarray, /) -> np.ndarray:
        """Return the expectation of a table over the residuals of other rows."""
        size, actual = table.shape[1], self.actual(table)
        return (table.sum(axis=1) - actual) / (size - 1) if size > 1 else actual

    def sums(self, table: np.ndarray, count: int, rng: np.random.RandomState, /) -> np.ndarray:
        """Permute within every block, and sum a table: (count,)."""
        size = table.shape[1]
        total, rows = np.zeros(count), np.arange(size)
        for block in table.reshape(-1, size, size):
            permutations = np.argsort(rng.random_sample((count, size)), axis=1)
            total += block[rows, permutations].sum(axis=1)
        return total


@dataclass(frozen=True, eq=False)
class GroupBlocks:
    """Rows whose groups are in blocks of v, and those that they may change places with."""

    rows: np.ndarray  # (n,), group by group
    sources: np.ndarray  # (n, v), of each group of the block the row at the same place in it
    own: np.ndarray  # (n,), which of these is the row itself
    numbers: np.ndarray  # (n,), of the groups

    @classmethod
    def pair_rows(cls, groups: Sequence[np.ndarray], blocks: np.ndarray, /) -> GroupBlocks:
        """Pair the rows of each group with those of others, by blocks (b, v) of group numbers.

        Of groups that are larger or smaller, rows are left out or come again evenly.
        """
        sources, own = [], []
        for block in blocks:
            for k, number in enumerate(block):
                count = len(groups[number])
                ranks = [np.arange(count) * len(groups[other]) // count for other in block]
                pairs = zip(block, ranks, strict=True)
                sources.append(np.stack([groups[other][rank] for other, rank in pairs], axis=1))
                own.append(np.full(count, k))
        sizes = [len(part) for part in sources]
        every, place = np.concatenate(sources), np.concatenate(own)
        rows = every[np.arange(len(every)), place]
        return cls(rows, every, place, np.repeat(np.arange(len(sizes)), sizes))


@dataclass(frozen=True, eq=False)
class PermutedGroups(Permuted):
    """Rows with what is left of rows in other groups, which change places as whole groups.

    So rows of a group may depend on each other in any way.
    """

    numbers: np.ndarray  # (n,), of the groups

    @classmethod
    def from_groups(
        cls, values: np.ndarray, means: np.ndarray, scales: np.ndarray, blocks: GroupBlocks, /
    ) -> PermutedGroups:
        """Exchange the residuals (m, g) of values, in units of the scales (m, g), by groups."""
        residuals = ((values - means) / scales)[blocks.sources]
        copies = means[blocks.rows][:, None, :] + scales[blocks.rows][:, None, :] * residuals
        return cls._place(values, copies, blocks)

    @classmethod
    def from_levels(
        cls,
        values: np.ndarray,
        levels: np.ndarray,
        shares: np.ndarray,
        blocks: GroupBlocks,
        rng: np.random.RandomState,
        /,
    ) -> PermutedGroups:
        """Exchange the ranks of levels (m,) with probabilities (m, v) by groups.

        A rank is uniform between the cumulative probabilities that enclose a level: the randomized
        quantile residual of Dunn and Smyth (1996). Rows of a group draw the same number for it.
        """
        known = values[np.unique(levels, return_index=True)[1]]
        ends = np.cumsum(shares, axis=1)
        own = shares[np.arange(len(levels)), levels]
        drawn = np.zeros(len(levels))
        drawn[blocks.rows] = rng.random_sample(int(blocks.numbers.max()) + 1)[blocks.numbers]
        ranks = ends[np.arange(len(levels)), levels] - own * (1.0 - drawn)
        steps = ends[blocks.rows][:, None, :-1]
        found = np.sum(ranks[blocks.sources][:, :, None] >= steps, axis=2)
        return cls._place(values, known[found], blocks)

    @classmethod
    def _place(cls, values: np.ndarray, copies: np.ndarray, blocks: GroupBlocks) -> PermutedGroups:
        copies[np.arange(len(copies)), blocks.own] = values[blocks.rows]  # to the last bit
        return cls(blocks.rows, copies, blocks.own, blocks.numbers)

    def sums(self, table: np.ndarray, count: int, rng: np.random.RandomState, /) -> np.ndarray:
        """Permute the groups of every block, and sum a table: (count,)."""
        return super().sums(group_sums(table, self.numbers), count, rng)


@dataclass(frozen=True, eq=False)
class DrawnLevels(Redrawn):
    """Rows with each of v levels, which have probabilities (n, v)."""

    probabilities: np.ndarray

    @classmethod
    def from_probabilities(
        cls, values: np.ndarray, levels: np.ndarray, shares: np.ndarray, rows: np.ndarray, /
    ) -> DrawnLevels:
        """Redraw levels (m,) of values (m, g) by their probabilities (m, v)."""
        known = values[np.unique(levels, return_index=True)[1]]
        each = np.broadcast_to(known, (len(rows), *known.shape))
        return cls(rows, each, levels[rows], shares[rows])

    def middle(self, table: np.ndarray, /) -> np.ndarray:
        """Return the average of a table over the levels."""
        return np.einsum("nv,nv...->n...", self.probabilities, table)

    def expectation(self, table: np.ndarray, /) -> np.ndarray:
        """Return the expectation of a table over the levels."""
        return self.middle(table)

    def sums(self, table: np.ndarray, count: int, rng: np.random.RandomState, /) -> np.ndarray:
        """Draw a level for every row, and sum a table: (count,)."""
        ends = np.cumsum(self.probabilities, axis=1)[:, :-1]
        total = np.zeros(count)
        for row, steps in zip(table, ends, strict=True):
            total += row[np.searchsorted(steps, rng.random_sample(count), side="right")]
        return total


# ------------------------------------------------------------------------- residual scales

# How large residuals are, given other columns, so that those of two rows may be exchanged.


_FEWEST = 50  # rows of which it is asked
_SCALE_FOLDS = 10
_PENALTY = 0.05  # of squared coefficients, beside the mean deviance
_SCALE_STEPS = 300
_WIDEST = 10.0  # times the mean size, and as far below
_NEAR = 0.2  # of squared distances from the middle: rows nearer than that are alike


def estimate_residual_scales(
    others: np.ndarray, residuals: np.ndarray, seed: int, row_groups: RowGroups = None, /
) -> np.ndarray:
    r"""Estimate scales (n, g) of residuals (n, g), NaN where unknown, given others (n, q).

    The mean of :math:`|r|` is the exponential of a linear function of the others, of their absolute
    values, and of how far out a row is, estimated by quasi-likelihood. Each row's is predicted by a
    fit that has not seen it, nor its group; all are 1 where this says no more of the sizes than
    their mean.
    """
    found = [_estimate_scales(others, column, seed, row_groups) for column in residuals.T]
    return np.stack(found, axis=1)


def _estimate_scales(
    others: np.ndarray, residuals: np.ndarray, seed: int, row_groups: RowGroups
) -> np.ndarray:
    """Return the scales (n,) of one column, or ones if data are too few."""
    found = np.ones(len(residuals))
    there = np.flatnonzero(~np.isnan(residuals))
    size = np.abs(residuals[there])
    if others.shape[1] == 0 or len(there) < _FEWEST or size.mean() <= 0:
        return found
    if row_groups is not None and np.ptp(row_groups[there]) == 0:
        return found
    size = size / size.mean()
    model = make_pipeline(StandardScaler(), PoissonRegressor(alpha=_PENALTY, max_iter=_SCALE_STEPS))
    folds: Any = KFold(_SCALE_FOLDS, shuffle=True, random_state=seed)
    if row_groups is not None:
        folds = _group_folds(row_groups[there], _SCALE_FOLDS, seed)
    with collect_warnings():
        means = cross_val_predict(model, _scale_features(others[there]), size, cv=folds)
    means = np.clip(means, 1.0 / _WIDEST, _WIDEST)
    # Scales that are noise would make residuals of other rows larger than a row's own
    if mean_poisson_deviance(size, means) < mean_poisson_deviance(size, np.ones(len(size))):
        found[there] = means
    return found


def _scale_features(others: np.ndarray) -> np.ndarray:
    """Return the features of scales: columns (n, q), their sizes, and the distance to the mean."""
    Z = StandardScaler().set_output(transform="default").fit_transform(others)
    far = LedoitWolf().fit(Z).mahalanobis(Z) / Z.shape[1]
    return np.column_stack([Z, np.abs(Z), np.log(_NEAR + far)])


_TINY = 1e-300
_CUBES = 3e7  # of rows of the regressions of one group, that a second is enough for
_LEADING, _FEW_COPIES = 20, 10  # groups that a time limit is for, and residuals of a row then


def conditional_importance(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    groups: Any = None,
    n_permutations: int = 1999,
    n_copies: int = 20,
    max_rows: int = 1000,
    imputer: Imputer | None = None,
    max_time: float | None = None,
    sample_weight: Any = None,
    row_groups: Any = None,
    random_state: Any = 0,
    progress: bool | None = None,
) -> ConditionalImportance:
    r"""Measure the loss of a fitted model without the information of some columns alone.

    Column j is what the others say of it, and the rest:
    :math:`x_j = \hat m(x_{-j}) + s(x_{-j})\, r`. The residuals r are permuted among the rows, and
    the importance is the mean rise of the loss,

    .. math:: \frac1n \sum_i \big[\mathrm{mean}_k\,
              \ell\big(y_i, f(x_{i,-j},\, \hat m(x_{i,-j}) + s(x_{i,-j})\, r_k)\big)
              - \ell(y_i, f(x_i))\big],

    in units of the loss of saying the same of every row: what is lost of R² in a regression, of D²
    where the fit has another `loss`, of the explained log loss of classes. If y depends on column j
    through the others only, and r does not depend on them, the rows as they are and the redrawn
    ones are exchangeable, and
    :math:`p = (1 + \#\{T_b \le T\}) / (1 + B)` with sums T of the rows and :math:`T_b` of
    permuted ones is uniform, or larger, whatever the model is. The sums are of squared errors, of
    classes those of probabilities, after the predictions have been given what the other columns
    say of their errors: so it does not take a perfect :math:`\hat m` where the model makes too
    little of the others.

    Parameters
    ----------
    model : Model or scikit-learn estimator
        A fitted regressor or classifier.
    X : array or frame of shape (n_samples, n_features), optional
        Rows that the model has not seen. Without X and y, the held-out rows of a blend, each scored
        by the models that have not seen it.
    y : str, or array or series of shape (n_samples,) or (n_samples, n_targets), optional
        Targets of the rows, or the name of their column.
    groups : dict, sequence of lists, or "columns", optional
        Groups of columns that are redrawn together: ``{"size": ["height", "width"]}``. By default
        those of `correlated_groups`, whose Spearman correlation is at least 0.9. "columns" redraws
        each column by itself. For groups of rows see `row_groups`.
    n_permutations : int, default=1999
        Number B of permutations: no p-value is below 1 / (B + 1). They cost almost nothing, as the
        model makes no further predictions.
    n_copies : int, default=20
        Number of residuals for each row: permutations are within random blocks of so many rows.
    max_rows : int, default=1000
        Largest number of rows; more are sampled.
    imputer : Imputer, optional
        Model that predicts columns from others. By default kernel ridge regression. Columns of at
        most ten values are drawn from their predicted probabilities.
    max_time : float, optional
        Approximate time limit in seconds, by fewer rows and copies. The most important groups come
        first, and groups without time are skipped. The first group is always done.
    sample_weight : array of shape (n_samples,), optional
        Weights of the losses, at least 0.
    row_groups : array of shape (n_samples,), or str, optional
        Groups of dependent rows, such as visits of a patient, or the name of their column in X.
        Residuals are permuted by whole groups, and errors are those of groups. By default the
        column of the fit; for the held-out rows of a blend, the groups of the fit.
    random_state : int, RandomState or None, default=0
        Seed of rows, blocks and permutations.
    progress : bool, optional
        Whether to show the progress; by default on a terminal and in a notebook.

    Returns
    -------
    ConditionalImportance
        Importances with standard errors and p-values, one a group; with `summary`, `frame`,
        `plot`, and adjusted p-values. Ctrl-C returns the complete groups, with a
        ConvergenceWarning; `unfinished` names the others.

    Raises
    ------
    TypeError, ValueError
        If the model is not fitted, does not match the rows, or has no held-out rows; if there are
        fewer than four rows; or if groups have unknown features.

    Notes
    -----
    Predicts n · `n_copies` rows and fits two regressions for each group: O(n³) for n ≤ 1000 rows,
    some three seconds of one core for a quick blend. P-values are as good as the imputer: they are
    not uniform where it misses a part of the column that the others do say. Those of folds are
    merged by twice their median: it holds whatever their dependence, and is conservative: the
    models of two folds have seen each other's rows.

    References
    ----------
    .. [1] Chamma, Engemann and Thirion, "Statistically valid variable importance assessment
       through conditional permutations", NeurIPS 2023.
    .. [2] Candès, Fan, Janson and Lv, "Panning for gold", JRSS B 80, 2018, Section 4.
    .. [3] Meinshausen, Meier and Bühlmann, "p-values for high-dimensional regression", JASA 104,
       2009, of merged p-values.

    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl import KernelRidgeRegressor
    >>> from gpukfl.inference import conditional_importance
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 3))
    >>> y = X[:, 0] + 0.3 * rng.standard_normal(300)
    >>> model = KernelRidgeRegressor(random_state=0).fit(X[:200], y[:200])
    >>> found = conditional_importance(model, X[200:], y[200:])
    >>> found.selected_at(0.05)
    ['x0']
    """
    for name, number in (("n_permutations", n_permutations), ("max_rows", max_rows)):
        check_number(name, number, kind=numbers.Integral, low=1)
    check_number("n_copies", n_copies, kind=numbers.Integral, low=2)
    check_kind("imputer", imputer, (Imputer, type(None)))
    check_kind("progress", progress, (bool, type(None)))
    check_number("max_time", max_time, low=0, low_allowed=False, also=(None,))
    limit, row_groups = TimeLimit(max_time), find_row_groups(model, X, row_groups)
    asked = make_evaluation_data(model, X, y, sample_weight, row_groups)
    if asked.judge.spread <= 0:
        msg = "expected different targets in the held-out rows, got a constant"
        raise ValueError(msg)
    features = read_groups(groups, asked.names, asked.sources, asked.rows)
    if max_time is not None:
        features = _most_important_first(features, known_importances(model, len(asked.names)))
    rng, n_held_out = check_random_state(random_state), len(asked)
    each = _CUBES / min(len(features), _LEADING)
    some = limit.affordable(each, int(max_rows), least=100, power=3)
    n_copies = n_copies if max_time is None else min(n_copies, _FEW_COPIES)
    asked = asked.subsample(some, rng)
    blocks = [_split_blocks(part.rows, int(n_copies), rng, asked.groups) for part in asked.parts]
    copies = _Copies(asked, blocks, imputer or Imputer())

    first, *_ = features.values()

    def test(group: Sequence[int]) -> tuple[float, float, float, float]:
        within = NO_LIMIT if group is first else limit
        return _test_group(asked, copies.redraw(group, rng, within), int(n_permutations), rng)

    with show_progress(progress):
        rows = map_with_progress("conditional importance", list(features.values()), test, limit)
    importances, errors, p_values, explained = np.array(rows).T
    names, done = tuple(features), list(features.values())[: len(rows)]
    return ConditionalImportance(
        groups=names[: len(rows)],
        features=tuple(tuple(asked.names[k] for k in group) for group in done),
        importances=importances,
        standard_errors=errors,
        p_values=p_values,
        explained=explained,
        n_rows=len(asked),
        n_held_out=n_held_out,
        n_folds=len(asked.parts),
        n_permutations=int(n_permutations),
        unit=asked.score_name,
        unfinished=names[len(rows) :],
        n_row_groups=0 if asked.groups is None else len(np.unique(asked.groups)),
    )


def _most_important_first(
    groups: dict[str, list[int]], importances: np.ndarray | None
) -> dict[str, list[int]]:
    """Return groups of features in the order of a model's importances, where it has any."""
    if importances is None:
        return groups
    return dict(sorted(groups.items(), key=lambda one: -importances[one[1]].sum()))


def _test_group(
    asked: EvaluationData, group: _Group, count: int, rng: np.random.RandomState
) -> tuple[float, float, float, float]:
    """Return importance, standard error, p-value, and the share explained by other columns."""
    gains, p_values, begin = [], [], 0
    rows = np.concatenate([one.rows for one in group.redrawn])
    row_groups = None if asked.groups is None else asked.groups[rows]
    for one, predicted in zip(group.redrawn, group.predicted, strict=True):
        losses = _redrawn_losses(asked.judge, one, predicted)
        gains.append(one.expectation(losses) - one.actual(losses))
        left = group.left[begin : begin + len(one.rows)]
        corrected = _redrawn_losses(asked.squares, one, predicted + left[:, None, :])
        p_values.append(one.p_value(corrected, count, rng))
        begin += len(one.rows)
    gain, unit = np.concatenate(gains), asked.judge.spread / len(asked)
    p = p_values[0] if len(p_values) == 1 else min(1.0, 2.0 * float(np.median(p_values)))
    error = float(gain.std()) / np.sqrt(len(gain))
    if row_groups is not None:
        error = deviation_of_sum(gain, row_groups) / len(gain)
    return float(gain.mean()) / unit, error / unit, p, group.explained


def _redrawn_losses(judge: HeldOutLoss, redrawn: Redrawn, predicted: np.ndarray) -> np.ndarray:
    """Return the losses (n, v) of predictions (n, v, t)."""
    n, count, t = predicted.shape
    rows = np.repeat(redrawn.rows, count)
    return judge.losses(predicted.reshape(n * count, t), rows).reshape(n, count)


def _split_blocks(
    rows: np.ndarray, size: int, rng: np.random.RandomState, row_groups: RowGroups
) -> np.ndarray | GroupBlocks:
    """Divide rows, or their groups, into blocks (b, s) of equal size; drop a few of them."""
    if row_groups is None:
        return _equal_blocks(rng.permutation(rows), size)
    codes, count = number_groups(row_groups[rows])
    groups = [rows[codes == k] for k in range(count)]
    return GroupBlocks.pair_rows(groups, _equal_blocks(rng.permutation(count), size))


def _equal_blocks(order: np.ndarray, size: int) -> np.ndarray:
    count = max(1, len(order) // size)
    whole = len(order) // count
    return order[: count * whole].reshape(count, whole)


@dataclass(frozen=True, eq=False)
class _Group:
    """Rows with redrawn values in the columns of a group, and their predictions.

    `left` (n, t) is what the other columns say of the errors of the mean predictions over these
    values. No redrawing changes it, and without it a model that makes too little of the other
    columns would make a p-value depend on how well they predict the group.
    """

    redrawn: Sequence[Redrawn]
    predicted: Sequence[np.ndarray]  # (n, v, t), of each part
    left: np.ndarray
    explained: float


@dataclass(frozen=True)
class _Copies:
    """Rows with redrawn values in some columns, and their losses."""

    asked: EvaluationData
    blocks: Sequence[np.ndarray | GroupBlocks]  # of each part: of rows (b, s), or of groups
    imputer: Imputer

    def redraw(
        self, features: Sequence[int], rng: np.random.RandomState, limit: TimeLimit
    ) -> _Group:
        """Redraw the columns of some features; raise TimeIsOverError where there is no time."""
        columns, others = self.asked.column_numbers(features), self.asked.others(features)
        values, seed = self.asked.rows[:, columns], int(rng.randint(2**31 - 1))
        levels, related = self.imputer.levels(values), self.asked.groups
        redrawn: list[Redrawn]
        if levels is None:
            means = self.imputer.means(others, values, seed, related)
            scales = estimate_residual_scales(others, values - means, seed, related)
            redrawn = [
                PermutedGroups.from_groups(values, means, scales, one)
                if isinstance(one, GroupBlocks)
                else Permuted.from_residuals(values, means, scales, one)
                for one in self.blocks
            ]
            explained = _explained_variance(values, means)
        else:
            shares = self.imputer.probabilities(others, levels, seed, related)
            redrawn = [
                PermutedGroups.from_levels(values, levels, shares, one, rng)
                if isinstance(one, GroupBlocks)
                else DrawnLevels.from_probabilities(values, levels, shares, one.ravel())
                for one in self.blocks
            ]
            explained = _explained_log_loss(levels, shares)
        predicted = []
        for part, one in zip(self.asked.parts, redrawn, strict=True):
            limit.check()
            predicted.append(self._predictions(part, columns, one))
        limit.check()
        rows = np.concatenate([one.rows for one in redrawn])
        mean = np.concatenate([one.middle(F) for one, F in zip(redrawn, predicted, strict=True)])
        own = None if related is None else related[rows]
        left = self.imputer.means(others[rows], self.asked.judge.truth[rows] - mean, seed, own)
        return _Group(redrawn, predicted, left, explained)

    def _predictions(self, part: Part, columns: np.ndarray, redrawn: Redrawn) -> np.ndarray:
        """Return predictions (n, v, t) of rows at each redrawn value."""
        n, count = redrawn.values.shape[:2]
        changed = np.repeat(self.asked.rows[redrawn.rows], count, axis=0)
        changed[:, columns] = redrawn.values.reshape(n * count, -1)
        levels = self.asked.levels
        for j in columns[levels[columns] > 0]:  # the nearest of those that there are
            changed[:, j] = np.clip(np.round(changed[:, j]), 0, levels[j])
        return part.predict(changed).reshape(n, count, -1)


def _explained_variance(values: np.ndarray, means: np.ndarray) -> float:
    """Return the mean share of the columns' variance that the others explain."""
    with np.errstate(invalid="ignore", divide="ignore"):
        left = np.nanvar(values - means, axis=0) / np.nanvar(values, axis=0)
    return float(1.0 - np.mean(np.nan_to_num(left, nan=0.0)))


def _explained_log_loss(levels: np.ndarray, shares: np.ndarray) -> float:
    """Return the share of the log loss of levels that the others explain."""
    counts = np.bincount(levels) / len(levels)
    least = -float(np.log(counts[levels]).sum())
    given = np.maximum(shares[np.arange(len(levels)), levels], _TINY)
    return 1.0 + float(np.log(given).sum()) / least if least > 0 else 1.0
