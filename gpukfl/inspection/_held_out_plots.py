"""Pictures of rows that their models have not seen, one function for each."""

from __future__ import annotations

from typing import Any

from gpukfl.inspection._description import Described, Description, described
from gpukfl.inspection._figures import Size, draw_one
from gpukfl.inspection._held_out import Predictions, Reliability, ResidualPlot


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
