"""The results of all inference on a fitted model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sklearn.exceptions import ConvergenceWarning

from gpukfl._accel.limits import one_blas_thread
from gpukfl.core._checks import check_kind, check_number
from gpukfl.core._warnings import warn
from gpukfl.estimators._progress import show_progress
from gpukfl.inference._bands import bands
from gpukfl.inference._conditional import conditional_importance
from gpukfl.inference._evaluation import InferenceData
from gpukfl.inference._interactions import interactions
from gpukfl.inference._kernels import has_directions
from gpukfl.inference._losses import loss_of_fit, predicts_means
from gpukfl.inference._results import Bands, Result, Subspace
from gpukfl.inference._row_groups import UNRELATED, find_row_groups
from gpukfl.inference._stepwise import TimeLimit
from gpukfl.inference._subspace import subspace
from gpukfl.inference._test_results import ConditionalImportance, Interactions
from gpukfl.inspection import Description, Shown, text_card
from gpukfl.tables._training import Dataset, drop_missing_targets, split_target

if TYPE_CHECKING:
    import pandas as pd


Part = Callable[[float | None], Any]  # of a time limit
# Of the time that is left, beside those of the parts that follow
_SHARES = {"bands": 4.0, "subspace": 3.0, "importance": 3.0, "interactions": 2.0}


@dataclass(frozen=True, eq=False)
class Inference(Shown):
    """Conclusions about a fitted model, with errors.

    Attributes
    ----------
    name, target : str
        Name of the model, and of its target.
    n_samples : int
        Number of rows.
    bands : Bands or None
        Partial dependence; None if the inference was stopped before this part.
    subspace : Subspace or None
        The learned directions; None if the model learns no directions.
    importance : ConditionalImportance or None
        Effects of features beyond all other features; None if the model has seen the rows.
    interactions : Interactions or None
        Interactions of pairs of features; None if there is one feature. There are no p-values if
        the model has seen the rows, or predicts no mean.
    unfinished : tuple of str
        Names of the parts without results, because the inference was stopped early.
    is_interrupted : bool
        Whether the user stopped the inference, and not `max_time`.
    """

    name: str
    target: str
    n_samples: int
    bands: Bands | None = None
    subspace: Subspace | None = None
    importance: ConditionalImportance | None = None
    interactions: Interactions | None = None
    unfinished: tuple[str, ...] = ()
    is_interrupted: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether no part is missing because of an interruption or `max_time`."""
        cut = [one for one in self.parts.values() if getattr(one, "unfinished", ())]
        return not (self.unfinished or cut)

    @property
    def parts(self) -> dict[str, Result]:
        """The parts by name."""
        known = (self.importance, self.interactions, self.bands, self.subspace)
        return {part.name: part for part in known if part is not None}

    def summary(self) -> str:
        """Return a plain-text summary, with a paragraph on the conclusions."""
        head = f"Inference for {self.target}: {self.name}, {self.n_samples} rows"
        return "\n\n".join([head, self.in_numbers(), self.in_words()])

    def _repr_html_(self) -> str:
        """Return words and numbers in HTML, as notebooks show them."""
        title, _, _ = self.summary().partition("\n")
        return text_card(title, self.in_words(), self.in_numbers())

    def in_numbers(self) -> str:
        """Return the summaries of all parts."""
        return "\n\n".join(part.summary() for part in self.parts.values())

    def in_words(self) -> str:
        """Return the conclusions that the results allow, and their limits, in words."""
        said = [part.in_words() for part in self.parts.values()]
        if not self.is_complete:
            left = f", before {', '.join(self.unfinished)}" if self.unfinished else ""
            why = "was interrupted" if self.is_interrupted else "reached max_time"
            said.insert(0, f"The inference {why}{left}: the complete parts follow.")
        return " ".join(said)

    def frames(self) -> dict[str, pd.DataFrame]:
        """Return a frame of each part, by name."""
        return {name: part.frame() for name, part in self.parts.items()}

    def describe(self) -> Description:
        """Return a description whose pictures `plot` and `report` draw."""
        return Description(
            name=f"Inference of {self.name}",
            target=self.target,
            n_samples=self.n_samples,
            note=self.in_words(),
            panels=tuple(self.parts.values()),
        )


def infer(
    model: Any,
    X: Any,
    y: Any,
    *,
    features: Sequence[int | str] | None = None,
    coverage: float = 0.95,
    held_out: bool = False,
    unseen: tuple[Any, Any] | None = None,
    max_time: float | None = None,
    sample_weight: Any = None,
    row_groups: Any = None,
    random_state: Any = 0,
    progress: bool | None = None,
) -> Inference:
    """Compute bands of curves, tests of columns, and errors, for a fitted model.

    Parameters
    ----------
    model : gpukfl.Model, or fitted regressor or classifier
        A model of this library or of scikit-learn.
    X : array or frame of shape (n, d)
        Rows, at least 40.
    y : array of shape (n,) or (n, t), or str
        Targets of the rows, or the name of the target column in X.
    features : sequence of int or str, optional
        Features with curves; by default the six most important.
    coverage : float
        Coverage of the bands.
    held_out : bool
        Whether X and y are test rows, which the model has not seen, and not its training set.
    unseen : tuple of X and y, optional
        Rows and targets that the model has not seen, if X and y are its training set. Importances
        and interactions are tested on them. Bands and directions use X and y, with `sample_weight`
        and `row_groups`.
    max_time : float, optional
        Approximate time limit in seconds. Each part gets a share of the time left, with fewer rows
        and shorter fits. Parts without time are skipped.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
    row_groups : array of shape (n,), or str, optional
        Groups of dependent rows, or the name of their column in X. Each group is in one fold, and
        errors and p-values are those of groups. By default the column of the fit.
    random_state : int, RandomState or None
        Seed of all random numbers, which are drawn on the host.
    progress : bool, optional
        Whether to show the progress; by default on a terminal and in a notebook.

    Returns
    -------
    Inference
        A frozen result with `summary`, `frames`, `plot` and `report`. Ctrl-C returns the complete
        parts, with a ConvergenceWarning; `unfinished` names the others.

    Raises
    ------
    TypeError, ValueError
        If the model or the rows are not as described.

    Notes
    -----
    `bands` and `subspace` need seven fits of the model, to half and to four fifths of the rows.
    `interactions`, and with `held_out` or `unseen` also `conditional_importance`, add to this.
    """
    options: dict[str, Any] = {"sample_weight": sample_weight, "random_state": random_state}
    check_kind("progress", progress, (bool, type(None)))
    check_number("max_time", max_time, low=0, low_allowed=False, also=(None,))
    limit = TimeLimit(max_time)
    if held_out and unseen is not None:
        msg = "expected held_out or unseen, got both"
        raise ValueError(msg)
    known = find_row_groups(model, X, row_groups)  # which warns once, for all parts
    related = {**options, "row_groups": UNRELATED if known is None else known}
    new = {"X": X, "y": y, **related} if held_out else None
    if unseen is not None:
        new = _unseen_rows(model, unseen, options)
    subject = InferenceData.from_model(model, X, y, sample_weight, known)
    named = split_target(X, y)[2]
    of_curves = {"features": features, "coverage": coverage, "held_out": held_out, **related}
    asked: dict[str, Part] = {
        "bands": lambda limit: bands(model, X, y, max_time=limit, **of_curves)
    }
    if has_directions(subject.estimator):
        asked["subspace"] = lambda limit: subspace(model, X, y, max_time=limit, **related)
    if new is not None:
        asked["importance"] = lambda limit: conditional_importance(model, max_time=limit, **new)
    if len(subject.names) > 1:
        is_tested = predicts_means(loss_of_fit(subject.estimator))
        of_pairs = new if new is not None and is_tested else _without_targets(X, y, options)
        asked["interactions"] = lambda limit: interactions(model, max_time=limit, **of_pairs)
    with show_progress(progress), one_blas_thread():
        parts, unfinished, is_interrupted = _run_parts(asked, limit)
    return Inference(
        name=type(subject.estimator).__name__,
        target=named or str(getattr(model, "target_name", "y")),
        n_samples=len(subject),
        unfinished=unfinished,
        is_interrupted=is_interrupted,
        **parts,
    )


def _unseen_rows(model: Any, unseen: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return rows that the model has not seen, with their targets and options."""
    if not isinstance(unseen, (tuple, list)) or len(unseen) != 2:
        msg = f"expected unseen to be a pair (X, y), got {type(unseen).__name__}"
        raise TypeError(msg)
    known = find_row_groups(model, unseen[0], None)
    related = {"sample_weight": None, "row_groups": UNRELATED if known is None else known}
    return {**options, "X": unseen[0], "y": unseen[1], **related}


def _without_targets(X: Any, y: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return rows whose interactions are asked for without a target, so without p-values."""
    rows, truth, _ = split_target(X, y)
    data = drop_missing_targets(Dataset(rows, truth, options["sample_weight"]), named=True)
    return {**options, "X": data.X, "sample_weight": data.sample_weight}


def _run_parts(
    asked: dict[str, Part], limit: TimeLimit
) -> tuple[dict[str, Any], tuple[str, ...], bool]:
    """Return the finished parts, the names of those left out, and whether it was interrupted.

    Raises KeyboardInterrupt where there is none.
    """
    parts: dict[str, Any] = {}
    is_interrupted = False
    try:
        for k, (name, work) in enumerate(asked.items()):
            if parts and limit.is_over:
                break
            weights = [_SHARES[one] for one in [*asked][k:]]
            own = TimeLimit(limit.share(weights[0] / sum(weights)))
            parts[name] = work(own.seconds)
            is_interrupted = bool(_unfinished(parts[name])) and not own.is_over
            if is_interrupted:  # which has warned of it
                break
    except KeyboardInterrupt:
        if not parts:
            raise
        is_interrupted = True
    unfinished = tuple(name for name in asked if name not in parts)
    if unfinished and not _unfinished(parts[[*parts][-1]]):
        reached = "the time limit was reached (max_time, --inference-time)"
        why = "interrupted" if is_interrupted else reached
        warn(f"inference: {why} before {', '.join(unfinished)}", ConvergenceWarning)
    return parts, unfinished, is_interrupted


def _unfinished(part: Any) -> Any:
    return getattr(part, "unfinished", ())
