"""Stability of learned directions: angles between fits, and the number of directions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import combinations
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import subspace_angles
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import check_random_state

from gpukfl.core._array import to_host
from gpukfl.core._checks import check_kind, check_number
from gpukfl.estimators import KernelRidgeRegressor
from gpukfl.estimators._progress import show_progress
from gpukfl.inference._evaluation import InferenceData
from gpukfl.inference._kernels import Map, complete_directions, has_directions, make_scaler
from gpukfl.inference._losses import loss_of_fit
from gpukfl.inference._results import Subspace
from gpukfl.inference._row_groups import find_row_groups
from gpukfl.inference._stepwise import TimeLimit, map_all_or_nothing
from gpukfl.losses import Squared

if TYPE_CHECKING:
    pass


_MOST = 5  # directions that are tried
_FIT_SHARE = 0.7  # of the time, for fits
_SQUARES = 3e6  # of rows times columns, that a second is enough for
_CUBES = 5e6  # of rows of one of the other regressions


def subspace(
    model: Any,
    X: Any,
    y: Any,
    *,
    n_folds: int = 5,
    max_directions: int | None = None,
    max_time: float | None = None,
    sample_weight: Any = None,
    row_groups: Any = None,
    random_state: Any = 0,
    progress: bool | None = None,
) -> Subspace:
    r"""Measure the stability of learned directions, by fits without each fold.

    Parameters
    ----------
    model : gpukfl.Model or fitted estimator
        A BKerNN, HKRR, RegFeaL, selection or RKHS weighting. For a blend, its first member that
        learns a kernel is used.
    X : array or frame of shape (n, d)
        Rows, at least four a fold.
    y : array of shape (n,) or (n, t), or str
        Targets of the rows, or the name of the target column in X.
    n_folds : int
        Number of folds, and of fits, at least 2.
    max_directions : int, optional
        Largest number of directions to try, at least 1; by default one more than the model has, at
        most five.
    max_time : float, optional
        Approximate time limit in seconds, by shorter fits to fewer rows, which make the angles
        wider.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
    row_groups : array of shape (n,), or str, optional
        Groups of dependent rows, or the name of their column in X. Each group is in one fold, and
        there are at most as many folds as groups. Errors and tests are those of groups. By default
        the column of the fit.
    random_state : int, RandomState or None
        Seed of the folds, which are drawn on the host.
    progress : bool, optional
        Whether to show the progress; by default on a terminal and in a notebook.

    Returns
    -------
    Subspace
        A frozen result with `summary`, `frame` and `plot`.

    Raises
    ------
    TypeError, ValueError
        If the model learns no directions, or the rows are not as described.

    Notes
    -----
    Each fit gives its directions in order: its `components_`, then those orthogonal to them in
    which its function varies most. For k = 0, 1, ... kernel ridge regression on the first
    k of them, tuned on the rows of the fit, predicts the rows that it left out; loss is the
    squared error in units of the target's variance, or that of the fit in units of the best
    constant's. The number of directions is the smallest
    whose loss is at most one standard error above the lowest (Breiman and others, 1984): that of
    the lowest, or of their difference where this is larger, as where single rows are missed by far.
    Whether one more matters is tested by the differences of the losses of each row, against the
    hypothesis that it does not lower them: a one-sided t test. Standard errors of differences are
    :math:`\sqrt{1 + K / (K - 1)}` times the plain ones, for fits that share rows (Nadeau and
    Bengio, 2003). Costs K fits of the model and K (k + 1) of kernel ridge regression.

    References
    ----------
    .. [1] Nadeau and Bengio, "Inference for the generalization error", Machine Learning, 2003.
    .. [2] Björck and Golub, "Numerical methods for computing angles between linear subspaces",
       Mathematics of Computation, 1973.
    """
    check_number("n_folds", n_folds, kind=Integral, low=2)
    check_number("max_directions", max_directions, kind=Integral, low=1, also=(None,))
    check_kind("progress", progress, (bool, type(None)))
    check_number("max_time", max_time, low=0, low_allowed=False, also=(None,))
    limit = TimeLimit(max_time)
    subject = InferenceData.from_model(
        model, X, y, sample_weight, find_row_groups(model, X, row_groups)
    )
    if not has_directions(subject.estimator):
        kind = type(subject.estimator).__name__
        msg = f"expected a model with learned directions, got {kind}, which has none"
        raise ValueError(msg)
    if len(subject) < 4 * n_folds:
        msg = f"expected at least {4 * n_folds} rows for {n_folds} folds, got {len(subject)}"
        raise ValueError(msg)
    rng = check_random_state(random_state)
    some = limit.affordable(_SQUARES / subject.X.shape[1], len(subject), least=100, power=2)
    subject = subject.draw(some, rng)
    fold = subject.deal_groups(n_folds, rng)
    if fold is None:
        splitter = StratifiedKFold if subject.classes else KFold
        folds = list(splitter(n_folds, shuffle=True, random_state=rng).split(subject.X, subject.y))
    else:
        n_folds = int(fold.max()) + 1
        folds = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]
    own = complete_directions(subject.estimator)
    known = int(subject.estimator.n_effective_features_)
    most = min(known + 1, _MOST) if max_directions is None else max_directions
    most = min(most, subject.X.shape[1])
    losses = np.zeros((len(subject), most + 1))

    def fold_basis(k: int) -> np.ndarray:
        inside, outside = folds[k]
        fit = subject.refit(inside, limit.share(_FIT_SHARE / (n_folds - k)))
        basis = complete_directions(fit)
        step = -(-len(inside) // limit.affordable(_CUBES, len(inside), least=100, power=3))
        some = inside[::step]
        losses[outside] = _direction_losses(subject, make_scaler(fit), basis, most, some, outside)
        return basis

    with show_progress(progress):
        bases = map_all_or_nothing("directions", range(n_folds), fold_basis)
    angles = _principal_angles(bases, most)
    remarks = (subject.remark,) if subject.remark else ()
    return Subspace(
        *(own[:most], subject.names, angles, losses, subject.weights, n_folds, known, remarks),
        groups=subject.groups,
    )


def _direction_losses(
    subject: InferenceData,
    scale: Map,
    basis: np.ndarray,
    most: int,
    inside: np.ndarray,
    outside: np.ndarray,
) -> np.ndarray:
    """Return losses (m, k + 1) of held-out rows, by the first 0, 1, ..., k directions.

    They are those of the fit, squared errors by default, in units of that of a constant.
    """
    w, Y = subject.weights[inside], subject.Y[inside]
    asked = loss_of_fit(subject.estimator)
    loss, middle = asked or Squared(), np.average(Y, axis=0, weights=w)
    size = loss.scale(Y, w)
    middle = middle if asked is None else asked.constant(Y, w, size)
    at_middle = np.asarray(loss.losses(Y, np.broadcast_to(middle, Y.shape), size))
    spread = np.average(at_middle, axis=0, weights=w)
    spread = np.where(spread > 0, spread, 1.0)

    def judge(predicted: np.ndarray) -> np.ndarray:
        losses = np.asarray(loss.losses(subject.Y[outside], predicted, size))
        return np.mean(losses / spread, axis=1)

    found = [judge(np.broadcast_to(middle, (len(outside), len(middle))))]
    here, new = scale(subject.X[inside]) @ basis.T, scale(subject.X[outside]) @ basis.T
    for k in range(1, most + 1):
        if k > len(basis):
            found.append(found[-1])
            continue
        ridge = KernelRidgeRegressor(random_state=0, scaling=None, backend="numpy")
        ridge.set_params(loss=loss)
        with warnings.catch_warnings():  # of a ridge at the edge: losses judge it
            warnings.simplefilter("ignore", UserWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            ridge.fit(here[:, :k], Y, sample_weight=w)
        predicted = to_host(ridge.predict(new[:, :k])).reshape(len(outside), -1)
        found.append(judge(predicted))
    return np.stack(found, axis=1)


def _principal_angles(bases: Sequence[np.ndarray], most: int) -> np.ndarray:
    """Return the largest principal angle, in degrees, of each pair of fits' first k directions."""
    most = min([most, *map(len, bases)])
    pairs = list(combinations(bases, 2))
    found = np.zeros((most, len(pairs)))
    for k in range(1, most + 1):
        for j, (one, other) in enumerate(pairs):
            found[k - 1, j] = np.rad2deg(subspace_angles(one[:k].T, other[:k].T).max())
    return found
