"""How well scores tell true variables from false ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpukfl._array import is_array, to_host
from gpukfl.inspection._figures import Size, axes_of
from gpukfl.inspection._style import legend, plain


def plot_roc(
    scores: Any,
    truth: Any,
    /,
    *,
    label: str | None = None,
    ax: Any = None,
    figsize: Size = None,
) -> Any:
    """Draw how well scores tell true variables from false ones, where the truth is known.

    Parameters
    ----------
    scores : array (p,)
        The larger, the rather a variable is true: for example ``scores_``.
    truth : array of bool (p,)
        Which variables are true: some, but not all.
    label : str, optional
        Name of the curve, beside the area under it.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure of pyplot.
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
    ValueError
        If all variables are true, or none.
    """
    from sklearn.metrics import roc_auc_score, roc_curve

    scores, truth = (to_host(a) if is_array(a) else np.asarray(a) for a in (scores, truth))
    truth = truth.astype(bool)
    if truth.all() or not truth.any():
        msg = f"expected some true and some false variables, got {int(truth.sum())} of {len(truth)}"
        raise ValueError(msg)
    ax = axes_of(ax, figsize)
    false_rate, true_rate, _ = roc_curve(truth, scores)
    area = f"area {roc_auc_score(truth, scores):.3f}"
    ax.plot(false_rate, true_rate, lw=1.6, label=f"{label}, {area}" if label else area)
    ax.set(
        title="True variables found", xlabel="false-positive rate", ylabel="share of true variables"
    )
    legend(ax, loc="lower right")
    plain(ax)
    return ax
