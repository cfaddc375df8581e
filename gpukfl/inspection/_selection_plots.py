"""Pictures of a selection of variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpukfl._array import is_array, to_host
from gpukfl.inspection._style import plain

_SHOWN = 15  # variables that fit in a picture
_CURVES = 8  # paths that can be told apart
_OUT = "#bbbbbb"  # of variables that are not selected
_LEVELS = ("#31688e", "#b5651d", "#3c8d5a", "#7a4f9e", "#a33b3b")  # of rounds, the last for later


def level_color(level: int, /) -> str:
    """Colour of the variables that a round found, grey for round 0."""
    return _LEVELS[min(level, len(_LEVELS)) - 1] if level else _OUT


def plot_rounds(ax: Any, model: Any, /) -> None:
    """Draw the scores of the leading variables, and the threshold of each round.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Where to draw.
    model : Model
        A fitted model of method "selection".
    """
    e = model.estimator
    scores, levels = to_host(e.scores_), to_host(e.levels_)
    order = np.lexsort((-scores, np.where(levels > 0, levels, len(e.rounds_) + 1)))
    order = order[scores[order] > 0][:_SHOWN][::-1]
    names = [model.feature_names[k] for k in order]
    colors = [level_color(int(levels[k])) for k in order]
    ax.scatter(scores[order], range(len(order)), c=colors, zorder=3)
    ax.set_yticks(range(len(order)), names)
    for one in e.rounds_:
        if one["sparsity"] > 0:
            ax.axvline(
                one["sparsity"],
                color=level_color(one["level"]),
                ls="--",
                lw=1.2,
                label=f"γ of round {one['level']}",
            )
    if len(order):
        ax.set_xscale("log")
    else:
        ax.text(0.5, 0.5, "no scores", ha="center", va="center", transform=ax.transAxes)
    ax.set(title="Scores where variables entered", xlabel="score (grey: not selected)")
    if any(one["sparsity"] > 0 for one in e.rounds_):
        ax.legend(fontsize=7, frameon=False, loc="lower right")
    plain(ax)


def plot_path(ax: Any, model: Any, /) -> None:
    """Draw the weights along the path over γ, and the hold-out score.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Where to draw.
    model : Model
        A fitted model of method "selection" with ``sparsity="tune"``.

    Raises
    ------
    ValueError
        If the model has no path.
    """
    path = model.estimator.path_
    if path is None:
        msg = "expected a model with a path, got path_ None: fit with sparsity='tune'"
        raise ValueError(msg)
    sparsity, beta = to_host(path["sparsity"]), to_host(path["beta"])
    leading = np.argsort(-beta.max(axis=0), kind="stable")[:_CURVES]
    rest = np.setdiff1d(np.flatnonzero(beta.any(axis=0)), leading)
    ax.plot(sparsity, beta[:, rest], color=_OUT, lw=0.8)
    for k in leading[beta[:, leading].any(axis=0)]:
        ax.plot(sparsity, beta[:, k], "o-", ms=3, label=model.feature_names[k])
    twin = ax.twinx()
    twin.plot(sparsity, path["score"], "k--", lw=1.2)
    twin.set_ylabel("hold-out R² (dashed)")
    ax.axvline(model.estimator.sparsity_, color="#555555", lw=0.8)
    ax.set(title="Path over γ", xlabel="γ", ylabel="weight β", xscale="log")
    ax.legend(fontsize=7, frameon=False)
    plain(ax)


def plot_roc(ax: Any, scores: Any, truth: Any, /, *, label: str | None = None) -> float:
    """Draw how well scores tell true variables from false ones, where the truth is known.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Where to draw.
    scores : array (p,)
        The larger, the rather a variable is true: for example ``scores_``.
    truth : array of bool (p,)
        Which variables are true: some, but not all.
    label : str, optional
        Name of the curve.

    Returns
    -------
    float
        Area under the curve.

    Raises
    ------
    ValueError
        If all variables are true, or none.
    """
    from sklearn.metrics import roc_auc_score, roc_curve

    scores, truth = (to_host(a) if is_array(a) else np.asarray(a) for a in (scores, truth))
    truth = truth.astype(bool)
    if truth.all() or not truth.any():
        msg = f"expected some true and some false variables, got {int(truth.sum())} of {len(truth)}"
        raise ValueError(msg)
    false_rate, true_rate, _ = roc_curve(truth, scores)
    area = float(roc_auc_score(truth, scores))
    name = f"{label}, area {area:.3f}" if label else f"area {area:.3f}"
    ax.plot(false_rate, true_rate, lw=1.6, label=name)
    ax.set(
        title="True variables found", xlabel="false-positive rate", ylabel="share of true variables"
    )
    ax.legend(fontsize=7, frameon=False, loc="lower right")
    plain(ax)
    return area
