"""How sure learned directions are: angles between fits, their number, and pictures."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.linalg import subspace_angles
from scipy.stats import t as student
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import check_random_state

from gpukfl.core._array import to_host
from gpukfl.core._checks import check_kind, check_number
from gpukfl.estimators import KernelRidgeRegressor
from gpukfl.estimators._progress import show_progress
from gpukfl.inference._evaluation import InferenceData
from gpukfl.inference._kernels import Map, complete_directions, has_directions, make_scaler
from gpukfl.inference._stepwise import map_all_or_nothing
from gpukfl.inspection import Description, Panel, Told, direction_name, plot_panel
from gpukfl.inspection._figures import Size
from gpukfl.inspection._style import BLUE, ORANGE, add_legend, style_axes, use_integer_ticks

if TYPE_CHECKING:
    import pandas as pd


# ------------------------------------------------------------------------ subspace results

# What `subspace` gives.


_LEVEL = 0.05  # of the words


@dataclass(frozen=True, eq=False)
class Subspace(Told):
    """Learned directions, how far fits agree on them, and how many rows left out speak for.

    Attributes
    ----------
    directions : array, shape (m, d)
        Leading directions of the model, of scaled features: its `components_`, then those in which
        it varies most of all that are orthogonal to these.
    features : tuple of str
        Names.
    angles : array, shape (k, pairs)
        Largest principal angles, in degrees, between the first 1, ..., k directions of two fits,
        for every pair.
    row_losses : array, shape (n, q + 1)
        Squared error of each row that was left out, by the first 0, ..., q directions, in
        variances of the target.
    weights : array, shape (n,)
        Of the rows.
    n_folds : int
        Fits.
    n_learned : int
        Directions that the model says it has.
    remarks : tuple of str
        What is to be known of it.
    """

    directions: np.ndarray
    features: tuple[str, ...]
    angles: np.ndarray
    row_losses: np.ndarray
    weights: np.ndarray
    n_folds: int
    n_learned: int
    remarks: tuple[str, ...] = ()

    @property
    def losses(self) -> np.ndarray:
        """Mean losses (q + 1,) of rows that were left out."""
        return np.average(self.row_losses, axis=0, weights=self.weights)

    @property
    def standard_errors(self) -> np.ndarray:
        """Of the losses (q + 1,), as if fits shared no rows."""
        return self._errors(self.row_losses)

    @property
    def gains(self) -> np.ndarray:
        """What the 1st, ..., q-th direction lowers the loss by: (q,)."""
        return -np.diff(self.losses)

    @property
    def gain_errors(self) -> np.ndarray:
        """Their standard errors, enlarged for fits that share rows."""
        return self._enlargement * self._errors(np.diff(self.row_losses, axis=1))

    @property
    def p_values(self) -> np.ndarray:
        """Of the hypothesis that the 1st, ..., q-th direction does not lower the loss: (q,)."""
        errors = self.gain_errors
        ratio = np.divide(self.gains, errors, out=np.zeros_like(errors), where=errors > 0)
        return np.where(errors > 0, student.sf(ratio, max(self._effective - 1.0, 1.0)), 1.0)

    @property
    def n_directions(self) -> int:
        """Fewest directions whose loss is within a standard error of the lowest.

        That is the error of the lowest loss, or of the difference, enlarged as those of gains,
        where this is larger: the lowest loss says nothing of single rows that fewer directions
        miss by far.
        """
        losses, best = self.losses, int(np.argmin(self.losses))
        apart = self._enlargement * self._errors(self.row_losses - self.row_losses[:, [best]])
        within = losses <= losses[best] + np.maximum(self.standard_errors[best], apart)
        return int(np.flatnonzero(within)[0])

    @property
    def is_cut_off(self) -> bool:
        """Whether the last direction that was tried matters, and features leave room for more."""
        tried = len(self.gains)
        matters = self.p_values[-1] <= _LEVEL or self.n_directions == tried
        return bool(matters and tried < self.directions.shape[1])

    @property
    def _enlargement(self) -> float:
        """What errors of differences are multiplied by, for fits that share rows."""
        return math.sqrt(1.0 + self.n_folds / (self.n_folds - 1.0))

    @property
    def _effective(self) -> float:
        return float(self.weights.sum() ** 2 / (self.weights @ self.weights))

    def _errors(self, losses: np.ndarray) -> np.ndarray:
        away = losses - np.average(losses, axis=0, weights=self.weights)
        variance = np.average(away**2, axis=0, weights=self.weights)
        return np.sqrt(variance / max(self._effective - 1.0, 1.0))

    def summary(self) -> str:
        """Return in plain text how many directions the rows support, and how sure each is."""
        found = f"Directions: {self.n_directions} by rows left out, the model has {self.n_learned}"
        head = f"  {'first':>5}{'loss':>9}{'±':>8}{'p of the last':>15}{'angle between fits':>20}"
        rows = [found, head]
        for k, (loss, error) in enumerate(zip(self.losses, self.standard_errors, strict=True)):
            p = f"{self.p_values[k - 1]:.3g}" if k else ""
            known = 0 < k <= len(self.angles)
            angle = f"{np.median(self.angles[k - 1]):.1f}°" if known else ""
            rows.append(f"  {k:>5}{loss:>9.4f}{error:>8.4f}{p:>15}{angle:>20}")
        remarks = [*self.remarks, self._ended] if self.is_cut_off else self.remarks
        return "\n".join([*rows, *(f"  {remark}" for remark in remarks)])

    def in_words(self) -> str:
        """Return a paragraph on what may be concluded of the directions, and what not."""
        sure = int(np.cumprod(np.append(self.p_values <= _LEVEL, False)).sum())
        count = self.n_directions
        said = [
            f"Rows that were left out speak for {_directions_text(count)}: fewer lose "
            "more than a standard "
            "error."
        ]
        if sure:
            which = "it" if sure == 1 else "each of them beyond those before"
            said.append(
                f"{_directions_text(sure).capitalize()} passed the test that {which} matters."
            )
        else:
            said.append("Not even one passed the test that it matters.")
        if count and count <= len(self.angles):
            angle = float(np.median(self.angles[count - 1]))
            said.append(
                f"Fits to different folds give subspaces of so many directions that are {angle:.0f}"
                "° apart (median over pairs)."
            )
        if self.is_cut_off:
            said.append(f"{self._ended[0].upper()}{self._ended[1:]}.")
        said.append(
            "A direction is known up to its sign, and only the subspace that several span, not "
            "each of them. That one more was not found does not show that there is none."
        )
        return " ".join(said)

    @property
    def _ended(self) -> str:
        tried = _directions_text(len(self.gains))
        return f"the search ended at {tried}, of which the last matters: max_directions tries more"

    def frame(self) -> pd.DataFrame:
        """Return a frame with a row for each number of directions.

        Returns
        -------
        DataFrame
            Columns directions, loss, standard_error, gain, gain_error, p_value and angle, the
            median over pairs of fits in degrees; NaN where there is none.
        """
        import pandas as pd

        count = len(self.losses)
        angles = np.full(count, np.nan)
        angles[1 : len(self.angles) + 1] = np.median(self.angles, axis=1)[: count - 1]
        return pd.DataFrame(
            {
                "directions": np.arange(count),
                "loss": self.losses,
                "standard_error": self.standard_errors,
                "gain": np.append(np.nan, self.gains),
                "gain_error": np.append(np.nan, self.gain_errors),
                "p_value": np.append(np.nan, self.p_values),
                "angle": angles,
            }
        )

    def named(self) -> list[str]:
        """Names of the leading directions: of the feature, where one is mostly that."""
        return [
            direction_name(self.features, self.directions, k) for k in range(len(self.directions))
        ]

    def panel(self) -> Panel:
        """Return what draws the losses."""
        return SubspacePicture(self)

    def plot(self, *, ax: Any = None, figsize: Size = None) -> Any:
        """Draw the loss of rows left out, and the angles, against the number of directions.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw.
        figsize : tuple of float, optional
            Width and height in inches of a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            What was drawn on.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        d = Description(name="Subspace", panels=(self.panel(),))
        return plot_panel(d, SubspacePicture.name, ax=ax, figsize=figsize)


@dataclass(frozen=True, eq=False)
class SubspacePicture(Panel):
    """Losses of rows left out, with standard errors, and angles between fits."""

    name: ClassVar[str] = "subspace"
    subspace: Subspace

    def draw(self, ax: Any, /) -> Any:
        """Draw both against the number of directions."""
        one = self.subspace
        count = np.arange(len(one.losses))
        ax.errorbar(count, one.losses, one.standard_errors, fmt="o-", ms=4, capsize=3, color=BLUE)
        ax.axvline(one.n_directions, color=BLUE, lw=0.8, ls=":", label="one-standard-error rule")
        ax.set(title="How many directions", xlabel="directions", ylabel="loss of rows left out")
        use_integer_ticks(ax.xaxis)
        style_axes(ax)
        add_legend(ax)
        if len(one.angles):
            twin = ax.twinx()
            numbers = np.arange(1, len(one.angles) + 1)
            low, middle, high = np.quantile(one.angles, [0.0, 0.5, 1.0], axis=1)
            reach = np.stack([middle - low, high - middle])
            twin.errorbar(numbers, middle, reach, fmt="s", ms=4, capsize=3, color=ORANGE)
            twin.set_ylabel("angle between fits, degrees", color=ORANGE)
            twin.set_ylim(0.0, 90.0)
            twin.spines[["top"]].set_visible(False)
        return ax


def _directions_text(count: int) -> str:
    return {0: "no direction", 1: "one direction"}.get(count, f"{count} directions")


# -------------------------------------------------------------------------------- subspace

# How sure learned directions are: angles between fits, their number, and what one more adds.


_MOST = 5  # directions that are tried


def subspace(
    model: Any,
    X: Any,
    y: Any,
    *,
    n_folds: int = 5,
    max_directions: int | None = None,
    sample_weight: Any = None,
    random_state: Any = 0,
    progress: bool | None = None,
) -> Subspace:
    r"""Measure how sure learned directions are, by fits that leave out folds of the rows.

    Parameters
    ----------
    model : gpukfl.Model or fitted estimator
        Of BKerNN, HKRR, RegFeaL, selection or RKHS weightings; of a blend its leading member that
        has learned a kernel is asked.
    X : array or frame of shape (n, d)
        Rows, at least four a fold.
    y : array of shape (n,) or (n, t), or str
        Their targets, or the name of the target's column in X.
    n_folds : int
        As many fits, at least 2.
    max_directions : int, optional
        Directions that are tried, at least 1; by default one more than the model has, at most
        five.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
    random_state : int, RandomState or None
        Draws the folds, on the host.
    progress : bool, optional
        Show a line that says how far it is; by default on a terminal, and in a notebook.

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
    squared error in units of the target's variance. The number of directions is the smallest
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
    subject = InferenceData.of(model, X, y, sample_weight)
    with show_progress(progress):
        return compute_subspace(subject, n_folds, max_directions, random_state)


def compute_subspace(
    subject: InferenceData, n_folds: int, max_directions: int | None, random_state: Any, /
) -> Subspace:
    """Do what `subspace` does for a model that is read, by options that are checked."""
    _check(subject, n_folds)
    rng = check_random_state(random_state)
    kind = StratifiedKFold if subject.classes else KFold
    folds = list(kind(n_folds, shuffle=True, random_state=rng).split(subject.X, subject.y))
    own = complete_directions(subject.estimator)
    known = int(subject.estimator.n_effective_features_)
    most = min(known + 1, _MOST) if max_directions is None else max_directions
    most = min(most, subject.X.shape[1])
    losses = np.zeros((len(subject), most + 1))

    def basis_of(fold: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        inside, outside = fold
        fit = subject.refit(inside)
        basis = complete_directions(fit)
        losses[outside] = _direction_losses(subject, make_scaler(fit), basis, most, inside, outside)
        return basis

    bases = map_all_or_nothing("directions", folds, basis_of)
    angles = _principal_angles(bases, most)
    remarks = (subject.remark,) if subject.remark else ()
    return Subspace(
        own[:most], subject.names, angles, losses, subject.weights, n_folds, known, remarks
    )


def _check(subject: InferenceData, n_folds: int) -> None:
    """Raise ValueError without directions, or with too few rows."""
    if not has_directions(subject.estimator):
        msg = (
            "expected a model with learned directions, got "
            f"{type(subject.estimator).__name__}, which has learned none"
        )
        raise ValueError(msg)
    if len(subject) < 4 * n_folds:
        msg = f"expected at least {4 * n_folds} rows for {n_folds} folds, got {len(subject)}"
        raise ValueError(msg)


def _direction_losses(
    subject: InferenceData,
    scale: Map,
    basis: np.ndarray,
    most: int,
    inside: np.ndarray,
    outside: np.ndarray,
) -> np.ndarray:
    """Squared errors (m, k + 1) of rows left out, by the first 0, 1, ..., k directions."""
    w, Y = subject.weights[inside], subject.Y[inside]
    middle = np.average(Y, axis=0, weights=w)
    spread = np.average((Y - middle) ** 2, axis=0, weights=w)
    spread = np.where(spread > 0, spread, 1.0)
    there = subject.Y[outside]
    found = [np.mean((there - middle) ** 2 / spread, axis=1)]
    here, new = scale(subject.X[inside]) @ basis.T, scale(subject.X[outside]) @ basis.T
    for k in range(1, most + 1):
        if k > len(basis):
            found.append(found[-1])
            continue
        ridge = KernelRidgeRegressor(random_state=0, scaling=None, backend="numpy")
        with warnings.catch_warnings():  # of a ridge at the edge: losses judge it
            warnings.simplefilter("ignore", UserWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            ridge.fit(here[:, :k], Y, sample_weight=w)
        predicted = to_host(ridge.predict(new[:, :k])).reshape(len(outside), -1)
        found.append(np.mean((there - predicted) ** 2 / spread, axis=1))
    return np.stack(found, axis=1)


def _principal_angles(bases: Sequence[np.ndarray], most: int) -> np.ndarray:
    """Largest principal angle, in degrees, of the first k directions of each pair of fits."""
    most = min([most, *map(len, bases)])
    pairs = list(combinations(bases, 2))
    found = np.zeros((most, len(pairs)))
    for k in range(1, most + 1):
        for j, (one, other) in enumerate(pairs):
            found[k - 1, j] = np.rad2deg(subspace_angles(one[:k].T, other[:k].T).max())
    return found
