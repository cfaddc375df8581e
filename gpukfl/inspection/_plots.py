"""Pictures of what was learned and of held-out rows, one function for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpukfl.core._array import is_array, to_host
from gpukfl.inspection._description import Described, Description, described
from gpukfl.inspection._figures import Size, draw_one, get_axes
from gpukfl.inspection._held_out import Predictions, Reliability, ResidualPlot
from gpukfl.inspection._panels import (
    Bound,
    Curves,
    Degrees,
    Directions,
    Eta,
    Importances,
    Objective,
    Path,
    Rounds,
    Sparsity,
    StumpCurves,
)
from gpukfl.inspection._style import add_legend, style_axes
from gpukfl.inspection._tuning import Tuning

# ----------------------------------------------------------------------------------- plots

# Pictures of what was learned, one function for each.


def plot_importances(
    of: Described | Description, /, *, ax: Any = None, figsize: Size = None
) -> Any:
    """Draw how much the leading features matter.

    Where the hold-out score says that nothing was found that predicts, the picture says so.

    Parameters
    ----------
    of : estimator, Model or Description
        Fitted.
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
        If the model has no importances.
    """
    d = described(of)
    return draw_one(d, d.panel(Importances), ax, figsize)


def plot_directions(of: Described | Description, /, *, ax: Any = None, figsize: Size = None) -> Any:
    """Draw the loadings of the leading learned directions on the leading features.

    Parameters
    ----------
    of : estimator, Model or Description
        Fitted.
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
        If the model has learned no directions.
    """
    d = described(of)
    return draw_one(d, d.panel(Directions), ax, figsize)


def plot_curves(
    of: Described | Description,
    /,
    *,
    output: int | str | None = None,
    ax: Any = None,
    figsize: Size = None,
) -> Any:
    """Draw the function along each learned direction or selected variable, less its mean.

    Parameters
    ----------
    of : estimator, Model or Description
        Fitted.
    output : int or str, optional
        One class or target only, by its number or as the picture calls it. By default all up to
        six, in small pictures beside each other.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure of pyplot. Several outputs take its place.
    figsize : tuple of float, optional
        Width and height in inches of a new figure.

    Returns
    -------
    matplotlib.axes.Axes or array of these
        What was drawn on: an array where there are several outputs.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If the model has learned no functions, or has no such output.
    """
    d = described(of)
    curves = d.panel(Curves)
    return draw_one(d, curves if output is None else curves.of(output), ax, figsize)


def plot_stumps(
    of: Described | Description,
    /,
    *,
    output: int | str | None = None,
    ax: Any = None,
    figsize: Size = None,
) -> Any:
    """Draw the sum of each leading feature's decision stumps, and where their thresholds are.

    Parameters
    ----------
    of : estimator, Model or Description
        Fitted: an RKHS weighting with the instantiation `Stumps`.
    output : int or str, optional
        One class or target only, by its number or as the picture calls it.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure of pyplot. Several outputs take its place.
    figsize : tuple of float, optional
        Width and height in inches of a new figure.

    Returns
    -------
    matplotlib.axes.Axes or array of these
        What was drawn on: an array where there are several outputs.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If the model has no stumps, or no such output.
    """
    d = described(of)
    stumps = d.panel(StumpCurves)
    return draw_one(d, stumps if output is None else stumps.of(output), ax, figsize)


def plot_objective(of: Described | Description, /, *, ax: Any = None, figsize: Size = None) -> Any:
    """Draw the objective of the final fit, and the validation score where there is one.

    Parameters
    ----------
    of : estimator, Model or Description
        Fitted.
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
        If the fit took fewer than two steps.
    """
    d = described(of)
    return draw_one(d, d.panel(Objective), ax, figsize)


def plot_tuning(of: Described | Description, /, *, ax: Any = None, figsize: Size = None) -> Any:
    """Draw the scores on held-out rows by the setting that was tuned.

    Parameters
    ----------
    of : estimator, Model or Description
        Fitted.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure of pyplot.
    figsize : tuple of float, optional
        Width and height in inches of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        What was drawn on. A ring is around the chosen setting; crosses differ from it in more.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If nothing was tuned.
    """
    d = described(of)
    return draw_one(d, d.panel(Tuning), ax, figsize)


def plot_rounds(of: Described | Description, /, *, ax: Any = None, figsize: Size = None) -> Any:
    """Draw the scores of the leading variables, and the threshold of each round.

    Parameters
    ----------
    of : estimator, Model or Description
        Fitted: a kernel feature selection.
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
        If the model has no rounds, or no variable has a score.
    """
    d = described(of)
    return draw_one(d, d.panel(Rounds), ax, figsize)


def plot_path(of: Described | Description, /, *, ax: Any = None, figsize: Size = None) -> Any:
    """Draw the weights along the path over γ, and the hold-out score.

    Parameters
    ----------
    of : estimator, Model or Description
        Fitted: a kernel feature selection with ``sparsity="tune"``.
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
        If the model has no path.
    """
    d = described(of)
    return draw_one(d, d.panel(Path), ax, figsize)


def plot_sparsity(of: Described | Description, /, *, ax: Any = None, figsize: Size = None) -> Any:
    """Draw how few parameters carry the model, and what pruning cost.

    Parameters
    ----------
    of : estimator, Model or Description
        Fitted: an RKHS weighting.
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
        If the model has no parameters.
    """
    d = described(of)
    return draw_one(d, d.panel(Sparsity), ax, figsize)


def plot_bound(of: Described | Description, /, *, ax: Any = None, figsize: Size = None) -> Any:
    """Draw the generalisation bound (71) beside the truth as held-out folds show it.

    Parameters
    ----------
    of : estimator, Model or Description
        Fitted: an RKHS weighting of two classes.
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
        If the model has no bound.
    """
    d = described(of)
    return draw_one(d, d.panel(Bound), ax, figsize)


def plot_eta(of: Described | Description, /, *, ax: Any = None, figsize: Size = None) -> Any:
    """Draw the share of each direction in every iteration, and the threshold 1/d.

    Parameters
    ----------
    of : estimator, Model or Description
        Fitted: a RegFeaL.
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
        If the model has no such shares.
    """
    d = described(of)
    return draw_one(d, d.panel(Eta), ax, figsize)


def plot_degrees(of: Described | Description, /, *, ax: Any = None, figsize: Size = None) -> Any:
    """Draw how many tuples have each total degree, and where their coefficients are.

    Parameters
    ----------
    of : estimator, Model or Description
        Fitted: a RegFeaL.
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
        If the model has no Hermite features.
    """
    d = described(of)
    return draw_one(d, d.panel(Degrees), ax, figsize)


# ------------------------------------------------------------------------------------- roc

# How well scores tell true variables from false ones.


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
    ax = get_axes(ax, figsize)
    false_rate, true_rate, _ = roc_curve(truth, scores)
    area = f"area {roc_auc_score(truth, scores):.3f}"
    ax.plot(false_rate, true_rate, lw=1.6, label=f"{label}, {area}" if label else area)
    ax.set(
        title="True variables found", xlabel="false-positive rate", ylabel="share of true variables"
    )
    add_legend(ax, loc="lower right")
    style_axes(ax)
    return ax


# -------------------------------------------------------------------------- held out plots

# Pictures of rows that their models have not seen, one function for each.


def plot_predictions(
    of: Described | Description,
    /,
    *,
    output: int | str | None = None,
    ax: Any = None,
    figsize: Size = None,
) -> Any:
    """Draw predictions against what is true, with intervals, on rows that were held out.

    Parameters
    ----------
    of : estimator, Model or Description
        Fitted, with rows that were held out.
    output : int or str, optional
        One target only, by its number or its name. By default all up to six, in small pictures
        beside each other.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure of pyplot. Several targets take its place.
    figsize : tuple of float, optional
        Width and height in inches of a new figure.

    Returns
    -------
    matplotlib.axes.Axes or array of these
        What was drawn on: an array where there are several targets.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If the model kept no predictions for rows that were held out, or has no such target.
    """
    d = described(of)
    panel = d.panel(Predictions)
    return draw_one(d, panel if output is None else panel.of(output), ax, figsize)


def plot_residuals(
    of: Described | Description,
    /,
    *,
    output: int | str | None = None,
    ax: Any = None,
    figsize: Size = None,
) -> Any:
    """Draw residuals against predictions, on rows that were held out.

    Parameters
    ----------
    of : estimator, Model or Description
        Fitted, with rows that were held out.
    output : int or str, optional
        One target only, by its number or its name. By default all up to six, in small pictures
        beside each other.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure of pyplot. Several targets take its place.
    figsize : tuple of float, optional
        Width and height in inches of a new figure.

    Returns
    -------
    matplotlib.axes.Axes or array of these
        What was drawn on: an array where there are several targets.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If the model kept no predictions for rows that were held out, or has no such target.
    """
    d = described(of)
    panel = d.panel(ResidualPlot)
    return draw_one(d, panel if output is None else panel.of(output), ax, figsize)


def plot_reliability(
    of: Described | Description, /, *, ax: Any = None, figsize: Size = None
) -> Any:
    """Draw how often a class is true where its probability is said to be so.

    Parameters
    ----------
    of : estimator, Model or Description
        A fitted classifier, with rows that were held out.
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
        If the model kept no probabilities of rows that were held out.
    """
    d = described(of)
    return draw_one(d, d.panel(Reliability), ax, figsize)
