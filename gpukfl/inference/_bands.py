"""Curves of what a model estimates, with bands that hold the whole curve."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from gpukfl._array import to_host
from gpukfl._checks import check_choice, check_kind, check_number, check_switch
from gpukfl._progress import shown
from gpukfl.inference._band_results import Band, Bands
from gpukfl.inference._curves import Curve, accumulated_effects, levels, partial_dependence, profile
from gpukfl.inference._directions import has_directions
from gpukfl.inference._estimates import Estimate
from gpukfl.inference._fold_bands import estimates_by_folds
from gpukfl.inference._kernel_bands import FEWEST, estimates_by_kernel
from gpukfl.inference._learned_kernels import scale_of, unlearned
from gpukfl.inference._shuffled import moved
from gpukfl.inference._stepwise import each_of
from gpukfl.inference._subject import Subject
from gpukfl.linalg import host_eigh
from gpukfl.tables._encoding import Category

KINDS = ("partial_dependence", "accumulated_effects", "profiles")
_FEATURES, _DIRECTIONS = 6, 3  # that are shown unless others are named
_ASKED = 7_500  # points of a curve at most, each of them with every row: what bands cost
_SHUFFLED = 300  # rows by which features are ordered
_DRAWS = 4_000  # of the largest deviation
_FEW = 100  # rows below which smoothers cannot bend as curves do
_BESIDE = "the centre of a band smooths less than what was fitted, whose own curve lies beside it"
_NOTHING = "the model says the same of every row; a kernel that has learned nothing was asked"
_STRAIGHT = "such bands hold straight lines, and miss curves more often than they state"


def bands(
    model: Any,
    X: Any,
    y: Any,
    *,
    kind: str = "partial_dependence",
    features: Sequence[int | str] | None = None,
    coverage: float = 0.95,
    held_out: bool = False,
    points: int = 25,
    max_rows: int = 2_000,
    sample_weight: Any = None,
    random_state: Any = 0,
    progress: bool | None = None,
) -> Bands:
    r"""Estimate curves of the regression function with simultaneous confidence bands.

    Parameters
    ----------
    model : gpukfl.Model, or fitted regressor or classifier
        Of this library, or of scikit-learn.
    X : array or frame of shape (n, d)
        Rows, at least 40.
    y : array of shape (n,) or (n, t), or str
        Their targets, or the name of the target's column in X.
    kind : {"partial_dependence", "accumulated_effects", "profiles"}
        Means over rows at values of a feature, its steps, less the mean of these, each step counted
        alike; sums of local differences, less their mean over the rows between the first and the
        last step, which ask the model for no combinations of features that the rows do not have (of
        categories, whose levels have no order, still means over rows); or the function along the
        learned directions, through the mean of the rows. Steps leave out 2 % of the rows at either
        end.
    features : sequence of int or str, optional
        Of which there are curves; by default the six most important. Of a table's category of few
        levels there is one, with a step for each level. For "profiles" the numbers of directions,
        by default the first three.
    coverage : float
        Probability, in (0, 1), with which a band holds its whole curve.
    held_out : bool
        Whether the model has not seen the rows. Then its kernel is used as it is, and nothing is
        fitted again.
    points : int
        On each curve at most, at least 3. The more, the fewer rows partial dependence is a mean
        over.
    max_rows : int
        Rows that are used at most, at least 40; of more a sample is drawn, and bands are wider
        than those of all rows.
    sample_weight : array of shape (n,), optional
        Weights; noise has variances that go with their inverses.
    random_state : int, RandomState or None
        Draws halves, the rows that curves are means over, and the largest deviation, on the host.
    progress : bool, optional
        Show a line that says how far it is; by default on a terminal, and in a notebook.

    Returns
    -------
    Bands
        A frozen result with `summary`, `frame` and `plot`. Ctrl-C while curves are made returns
        those that are done, with a ConvergenceWarning; the others are in its `unfinished`.

    Raises
    ------
    TypeError, ValueError
        If the model, the rows or an option is not as described.

    Notes
    -----
    What is estimated is the curve of the conditional mean of y (of classes, of their
    probabilities), not the model's own curve, which lies near. Partial dependence is a mean over
    the rows, each counted alike, of more than 7500 / `points` (300 by default) over a sample of so
    many, or of 40; accumulated effects are of all rows up to 3750. What is to be held is the curve
    of the population: how far the fitted function's mean over so many rows varies from draw to
    draw is in the bands, and makes them higher where features interact. Bands of fewer than 100
    rows hold straight lines, and miss curves more often than they state.

    A model that has learned a kernel (BKerNN, HKRR, kernel ridge regression, selection, RegFeaL)
    is split: each half of the rows is smoothed by the kernel of a fit to the other half, and the
    two curves are averaged. Given the kernels a curve is linear in y, with a variance in closed
    form. Against bias the lengthscale is half of the learned one, the ridge a tenth of what the
    restricted evidence says (a twentieth for kernels without a lengthscale), and each smoother
    fits its residuals once more; a linear trend, and the derivatives of the fit with respect to
    the learned directions, are not penalised, so that errors of the directions are in the
    variance. What a half may have left out is added by an additive kernel, as much of it as the
    evidence asks for, where it does so clearly. Then the largest deviation over the curve is
    simulated. Costs two fits to half of the rows, some ten times O(n³) for each target and half,
    and O(n p) kernel values for p points; n at most
    `max_rows`.

    Other models are fitted ten times, each time without a tenth of the rows, and the bands say
    how far these curves vary: such bands know nothing of the bias that all share.

    References
    ----------
    .. [1] Calonico, Cattaneo and Farrell, "On the Effect of Bias Estimation on Coverage Accuracy
       in Nonparametric Inference", JASA, 2018.
    .. [2] Chernozhukov and others, "Double/debiased machine learning for treatment and structural
       parameters", The Econometrics Journal, 2018.
    .. [3] Apley and Zhu, "Visualizing the effects of predictor variables in black box supervised
       learning models", JRSS B, 2020.
    """
    check_choice("kind", kind, KINDS)
    check_number("coverage", coverage, low=0, high=1, low_allowed=False)
    if coverage == 1:
        msg = "expected coverage below 1, got 1"
        raise ValueError(msg)
    check_switch("held_out", held_out)
    check_number("points", points, kind=Integral, low=3)
    check_number("max_rows", max_rows, kind=Integral, low=FEWEST)
    subject = Subject.of(model, X, y, sample_weight)
    if len(subject) < FEWEST:
        msg = f"expected at least {FEWEST} rows for bands, got {len(subject)}"
        raise ValueError(msg)
    check_kind("progress", progress, (bool, type(None)))
    with shown(progress):
        return bands_of(subject, kind, features, coverage, held_out, points, max_rows, random_state)


def bands_of(
    subject: Subject,
    kind: str,
    features: Sequence[int | str] | None,
    coverage: float,
    held_out: bool,
    points: int,
    max_rows: int,
    random_state: Any,
    /,
) -> Bands:
    """Give the bands of a model that is read already, by options that are checked."""
    rng = check_random_state(random_state)
    curves = curves_of(subject, kind, features, points, rng)
    estimates, said, remarks = _estimates(subject, curves, held_out, max_rows, rng)

    def banded(k: int) -> list[Band]:
        curve = curves[k]
        values, bands = subject.functions(curve.points), []
        own = curve.weights @ values
        for c, output in enumerate(subject.outputs):
            e = estimates[k][c]
            covariance = e.covariance + curve.spread(values[:, c])
            factor = largest_deviation(covariance, e.freedom, coverage, rng)
            width = factor * np.sqrt(np.diagonal(covariance))
            bands.append(
                Band(curve.name, output, curve.steps, e.values, width, own[:, c], curve.labels)
            )
        return bands

    # An interruption may have left fewer estimates than curves, and leaves fewer bands
    found = each_of("bands", range(len(estimates)), banded)
    unfinished = tuple(curve.name for curve in curves[len(found) :])
    remarks = [subject.remark, *remarks] if subject.remark else remarks
    asked = "member of the blend" if subject.remark else "model"
    every = tuple(itertools.chain.from_iterable(found))
    return Bands(every, kind, float(coverage), said, tuple(remarks), asked, unfinished)


def _estimates(
    subject: Subject, curves: list[Curve], held_out: bool, max_rows: int, rng: Any
) -> tuple[list[list[Estimate]], str, list[str]]:
    """Estimate curves in the way that a model allows: with what was done, and remarks on it."""
    constant = subject.kernel is None and not np.ptp(subject.functions(subject.X), axis=0).any()
    if subject.kernel is None and not constant:
        shared = "bias that all fits share is not in the bands"
        return estimates_by_folds(subject, curves, rng), "10 fits", [shared]
    sample = np.arange(len(subject))
    if len(sample) > max_rows:
        sample = np.sort(rng.choice(sample, max_rows, replace=False))
    remarks = [_NOTHING if constant else _BESIDE]
    if len(sample) < _FEW:
        remarks.append(f"{len(sample)} rows are fewer than {_FEW}: {_STRAIGHT}")
    kernel = subject.kernel if held_out else None
    if constant:
        kernel = unlearned(subject.X, subject.Y.shape[1])
    estimates = estimates_by_kernel(subject, curves, sample, kernel, rng)
    said = f"{'an additive' if constant else 'the learned'} kernel and {len(sample)} rows"
    return estimates, said, remarks


def largest_deviation(
    covariance: np.ndarray, freedom: float, coverage: float, rng: Any, /
) -> float:
    """Quantile of the largest deviation of a curve (g,), in standard errors, by simulation.

    Standard errors have so many degrees of freedom.
    """
    errors = np.sqrt(np.diagonal(covariance))
    sure = errors > 1e-9 * errors.max(initial=0.0)
    if not sure.any():
        return 0.0
    scaled = covariance[np.ix_(sure, sure)] / np.outer(errors[sure], errors[sure])
    values, vectors = host_eigh(scaled)
    roots = vectors * np.sqrt(np.clip(values, 0.0, None))
    draws = np.abs(roots @ rng.standard_normal((len(scaled), _DRAWS))).max(axis=0)
    return float(np.quantile(draws / np.sqrt(rng.chisquare(freedom, _DRAWS) / freedom), coverage))


# ---------------------------------------------------------------------- which curves


def curves_of(
    subject: Subject, kind: str, features: Sequence[int | str] | None, points: int, rng: Any
) -> list[Curve]:
    """Give the curves that are asked for."""
    if kind == "profiles":
        return _profiles(subject, features, points)
    make = partial_dependence if kind == "partial_dependence" else accumulated_effects
    each = points if kind == "partial_dependence" else 2  # points of a row
    X, count = subject.X, min(max(_ASKED // each, FEWEST), len(subject))
    background = X[np.sort(rng.choice(len(X), count, replace=False))]
    return [
        levels(X, one, background=background)
        if isinstance(one, Category)
        else make(X, one, subject.names[one], points=points, background=background)
        for one in _features(subject, features, rng)
    ]


def _features(
    subject: Subject, features: Sequence[int | str] | None, rng: Any
) -> list[int | Category]:
    """Give the features that curves are of, of which those of a category are one."""
    varying = np.ptp(subject.X, axis=0) > 0
    places = {k: one for one in subject.categories for k in one.columns}
    every = dict.fromkeys(places.get(k, k) for k in range(len(varying)))
    columns = {one: [*one.columns] if isinstance(one, Category) else [one] for one in every}
    if features is None:
        there = [one for one in every if varying[columns[one]].any()]
        scores = {one: _importance(subject, columns[one], rng) for one in there}
        return sorted(there, key=lambda one: -scores[one])[:_FEATURES]
    found = [_found(subject, places, one) for one in features]
    for one in found:
        if not varying[columns[one]].any():
            name = one.name if isinstance(one, Category) else subject.names[one]
            msg = f"expected features that vary, got {name!r}, which is constant"
            raise ValueError(msg)
    return list(dict.fromkeys(found))


def _importance(subject: Subject, columns: list[int], rng: Any) -> float:
    """Give what a model says of columns, or how far shuffling them moves what it predicts."""
    known = getattr(subject.estimator, "feature_importances_", None)
    if known is not None:
        return float(np.asarray(known, dtype=np.float64)[columns].sum())
    some = np.sort(rng.permutation(len(subject))[:_SHUFFLED])
    return moved(subject.functions, subject.X[some], columns, subject.weights[some], rng)


def _found(subject: Subject, places: dict[int, Category], feature: int | str) -> int | Category:
    d = len(subject.names)
    names = [*subject.names, *(one.name for one in subject.categories)]
    columns = [*range(d), *(one.columns[0] for one in subject.categories)]
    if isinstance(feature, str) and feature in names:
        feature = columns[names.index(feature)]
    if isinstance(feature, Integral) and 0 <= feature < d:
        return places.get(int(feature), int(feature))
    msg = f"expected features by name or number below {d}, got {feature!r}"
    raise ValueError(msg)


def _profiles(subject: Subject, ranks: Sequence[int | str] | None, points: int) -> list[Curve]:
    if not has_directions(subject.estimator):
        msg = (
            "expected a model with learned directions for profiles, got "
            f"{type(subject.estimator).__name__}"
        )
        raise ValueError(msg)
    directions = to_host(subject.estimator.components_).astype(np.float64)
    known = range(len(directions))
    chosen = list(known)[:_DIRECTIONS] if ranks is None else list(ranks)
    if any(rank not in known for rank in chosen):
        msg = f"expected numbers of directions below {len(directions)}, got {chosen}"
        raise ValueError(msg)
    scaled = scale_of(subject.estimator)(subject.X)
    return [
        profile(subject.X, scaled, directions, int(k), subject.names, points=points) for k in chosen
    ]
