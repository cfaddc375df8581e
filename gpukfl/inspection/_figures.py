"""Figures of pyplot: which panels they have, and where; and a function for each panel."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from gpukfl.core._array import is_array, to_host
from gpukfl.inspection._class_panels import Confusion, RocCurves
from gpukfl.inspection._description import Described, Description, get_description
from gpukfl.inspection._held_out import Predictions, Reliability, ResidualPlot
from gpukfl.inspection._panels import (
    Bound,
    Curves,
    Degrees,
    Directions,
    Eta,
    Importances,
    Objective,
    OutputsPanel,
    Panel,
    Path,
    Rounds,
    Sparsity,
    StumpCurves,
    take_place,
)
from gpukfl.inspection._style import add_legend, style_axes
from gpukfl.inspection._tuning import Leaderboard, Tuning

Size = tuple[float, float] | None
_WIDTH, _HEIGHT = 11.0, 3.75  # inches of all panels, and of a row of them
_ALONE = (6.4, 4.4)


def plot_model(of: Described | Description, /, *, ax: Any = None, figsize: Size = None) -> Any:
    """Draw all panels of a model.

    Parameters
    ----------
    of : estimator, Model or Description
        Fitted.
    ax : matplotlib.axes.Axes, optional
        Whose place the panels take; by default a new figure of pyplot.
    figsize : tuple of float, optional
        Width and height in inches of a new figure; by default as the panels need.

    Returns
    -------
    array of matplotlib.axes.Axes
        What was drawn on, in the order of the panels that have something to draw.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If there is nothing to draw, or `ax` was not made by ``plt.subplots``.
    """
    d = get_description(of)
    rows = _panel_rows(d)
    heights = [max(map(_height, row)) for row in rows]
    width = _WIDTH if max(map(len, rows)) > 1 or rows[0][0].shape != (1, 1) else _ALONE[0]
    figure = _whole_figure(ax, figsize, (width, _HEIGHT * sum(heights)))
    grid = figure.add_gridspec(len(rows), 2, height_ratios=heights)
    drawn: list[Any] = []
    for k, row in enumerate(rows):
        for side, panel in enumerate(row):
            cell = grid[k, side] if len(row) > 1 else grid[k, :]
            drawn += np.ravel(_draw(d, panel, figure.add_subplot(cell))).tolist()
    return np.array(drawn, dtype=object)


def _whole_figure(ax: Any, figsize: Size, size: tuple[float, float]) -> Any:
    """Return a new figure, or the part of a figure where an axes was."""
    if ax is not None:
        return take_place(get_axes(ax, figsize), "all panels, or the name of one")
    figure = import_pyplot().figure(figsize=figsize or size, layout="constrained")
    figure.get_layout_engine().set(h_pad=0.12, w_pad=0.08)
    return figure


def draw_detached_figure(d: Description, panel: Panel, /, *, size: tuple[float, float]) -> Any:
    """Draw a panel into a figure outside pyplot, which need not be closed."""
    import_pyplot()
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    _draw(d, panel, figure.add_subplot())
    return figure


def plot_panel(
    of: Described | Description, panel: str, /, *, ax: Any = None, figsize: Size = None
) -> Any:
    """Draw the panel with a name.

    Parameters
    ----------
    of : estimator, Model or Description
        Fitted.
    panel : str
        A panel's name, such as "importances".
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure of pyplot.
    figsize : tuple of float, optional
        Width and height in inches of a new figure.

    Returns
    -------
    matplotlib.axes.Axes or array of these
        What was drawn on.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If there is no such panel, or nothing of it to draw.
    """
    d = get_description(of)
    known = {one.name: one for one in (*d.panels, *([d.tuning] if d.tuning else []))}
    if panel not in known:
        names = ", ".join(name for name, one in known.items() if not one.empty) or "none"
        msg = f"expected the name of a panel of {d.name}, one of {names}, got {panel!r}"
        raise ValueError(msg)
    return draw_one(d, d.panel(type(known[panel])), ax, figsize)


def import_pyplot() -> Any:
    """Return matplotlib's pyplot; raise ImportError with advice if it is missing."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        msg = "pictures need matplotlib: `pip install 'gpukfl[plot]'`"
        raise ImportError(msg) from error
    return plt


def get_axes(ax: Any, figsize: Size, alone: tuple[float, float] = _ALONE) -> Any:
    """Return the given axes, or that of a new figure."""
    plt = import_pyplot()
    if ax is not None and figsize is not None:
        msg = "expected ax or figsize, got both: a figure that is there has its size"
        raise ValueError(msg)
    return plt.subplots(figsize=figsize or alone, layout="constrained")[1] if ax is None else ax


def draw_one(d: Description, panel: Panel, ax: Any, figsize: Size) -> Any:
    """Draw one panel into an axes, or into a new figure."""
    alone = _ALONE if panel.shape == (1, 1) else (_WIDTH, _HEIGHT * _height(panel))
    return _draw(d, panel, get_axes(ax, figsize, alone))


def _draw(d: Description, panel: Panel, ax: Any) -> Any:
    if isinstance(panel, Importances):
        return panel.draw(ax, caveat=d.caveat)
    return panel.draw(ax)


def _panel_rows(d: Description) -> list[list[Panel]]:
    """Return panels in rows of two; panels of several pictures have a row of their own."""
    rows: list[list[Panel]] = []
    for panel in [one for one in d.panels if not one.empty]:
        last = next((row for row in rows if len(row) == 1 and row[0].shape == (1, 1)), None)
        if panel.shape == (1, 1) and last is not None:
            last.append(panel)
        else:
            rows.append([panel])
    if not rows:
        msg = f"expected a model that has something to draw, got {d.name}, which has no pictures"
        raise ValueError(msg)
    return rows


def _height(panel: Panel) -> float:
    """Return the height of a panel in rows."""
    rows = panel.shape[0]
    return float(rows) if panel.shape == (1, 1) else 0.7 * rows + 0.5


# ---------------------------------------------------------------------------- one function a panel

# What `plot` of a model draws by the name of a panel, these draw by a name of their own.


Function = TypeVar("Function", bound=Callable[..., Any])
_SECTIONS = """

Parameters
----------
of : estimator, Model or Description
    Fitted{fitted}.
{output}ax : matplotlib.axes.Axes, optional
    Where to draw; by default a new figure of pyplot.{instead}
figsize : tuple of float, optional
    Width and height in inches of a new figure.

Returns
-------
matplotlib.axes.Axes{array}
    What was drawn on{several}.

Raises
------
ImportError
    If matplotlib is not installed.
ValueError
    If {lacking}.
"""
_ONE = {"output": "", "instead": "", "array": "", "several": ""}
_SEVERAL = {
    "output": """output : int or str, optional
    One class or target only, by its number or as the picture calls it. By default all up to
    six, in small pictures beside each other.
""",
    "instead": " Several outputs take its place.",
    "array": " or array of these",
    "several": ": an array where there are several outputs",
}


def _document(lacking: str, fitted: str = "") -> Callable[[Function], Function]:
    """Write the sections of a docstring that are the same for all panels."""

    def document(function: Function) -> Function:
        given = _SEVERAL if "output" in inspect.signature(function).parameters else _ONE
        sections = _SECTIONS.format(lacking=lacking, fitted=fitted, **given)
        function.__doc__ = inspect.cleandoc(function.__doc__ or "") + sections
        return function

    return document


def _plot(
    of: Described | Description,
    kind: type[Panel],
    ax: Any,
    figsize: Size,
    output: int | str | None = None,
) -> Any:
    d = get_description(of)
    panel = d.panel(kind)
    if output is not None:
        assert isinstance(panel, OutputsPanel)
        panel = panel.of(output)
    return draw_one(d, panel, ax, figsize)


@_document("the model has no importances")
def plot_importances(
    of: Described | Description, /, *, ax: Any = None, figsize: Size = None
) -> Any:
    """Draw how much the leading features matter.

    Where the hold-out score says that nothing was found that predicts, the picture says so.
    """
    return _plot(of, Importances, ax, figsize)


@_document("the model has learned no directions")
def plot_directions(of: Described | Description, /, *, ax: Any = None, figsize: Size = None) -> Any:
    """Draw the loadings of the leading learned directions on the leading features."""
    return _plot(of, Directions, ax, figsize)


@_document("the model has learned no functions, or has no such output")
def plot_curves(
    of: Described | Description,
    /,
    *,
    output: int | str | None = None,
    ax: Any = None,
    figsize: Size = None,
) -> Any:
    """Draw the function along each learned direction or selected variable, less its mean."""
    return _plot(of, Curves, ax, figsize, output)


@_document(
    "the model has no stumps, or no such output",
    ": an RKHS weighting with the instantiation `Stumps`",
)
def plot_stumps(
    of: Described | Description,
    /,
    *,
    output: int | str | None = None,
    ax: Any = None,
    figsize: Size = None,
) -> Any:
    """Draw the sum of each leading feature's decision stumps, and where their thresholds are."""
    return _plot(of, StumpCurves, ax, figsize, output)


@_document("the fit took fewer than two steps")
def plot_objective(of: Described | Description, /, *, ax: Any = None, figsize: Size = None) -> Any:
    """Draw the objective of the final fit, and the validation score where there is one."""
    return _plot(of, Objective, ax, figsize)


@_document("nothing was tuned")
def plot_tuning(of: Described | Description, /, *, ax: Any = None, figsize: Size = None) -> Any:
    """Draw the scores on held-out rows by the setting that was tuned.

    A ring is around the chosen setting; crosses differ from it in more.
    """
    return _plot(of, Tuning, ax, figsize)


@_document("the model has no members", ": a portfolio")
def plot_leaderboard(
    of: Described | Description, /, *, ax: Any = None, figsize: Size = None
) -> Any:
    """Draw the scores of the members of a blend."""
    return _plot(of, Leaderboard, ax, figsize)


@_document("the model has no rounds, or no variable has a score", ": a kernel feature selection")
def plot_rounds(of: Described | Description, /, *, ax: Any = None, figsize: Size = None) -> Any:
    """Draw the scores of the leading variables, and the threshold of each round."""
    return _plot(of, Rounds, ax, figsize)


@_document("the model has no path", ': a kernel feature selection with ``sparsity="tune"``')
def plot_path(of: Described | Description, /, *, ax: Any = None, figsize: Size = None) -> Any:
    """Draw the weights along the path over γ, and the hold-out score."""
    return _plot(of, Path, ax, figsize)


@_document("the model has no parameters", ": an RKHS weighting")
def plot_sparsity(of: Described | Description, /, *, ax: Any = None, figsize: Size = None) -> Any:
    """Draw the concentration of the coefficients, and the cost of pruning."""
    return _plot(of, Sparsity, ax, figsize)


@_document("the model has no bound", ": an RKHS weighting of two classes")
def plot_bound(of: Described | Description, /, *, ax: Any = None, figsize: Size = None) -> Any:
    """Draw the generalisation bound (71) beside the risk on held-out folds."""
    return _plot(of, Bound, ax, figsize)


@_document("the model has no such shares", ": a RegFeaL")
def plot_eta(of: Described | Description, /, *, ax: Any = None, figsize: Size = None) -> Any:
    """Draw the share of each direction in every iteration, and the threshold 1/d."""
    return _plot(of, Eta, ax, figsize)


@_document("the model has no Hermite features", ": a RegFeaL")
def plot_degrees(of: Described | Description, /, *, ax: Any = None, figsize: Size = None) -> Any:
    """Draw how many tuples have each total degree, and where their coefficients are."""
    return _plot(of, Degrees, ax, figsize)


@_document(
    "the model kept no predictions for rows that were held out, or has no such target",
    ", with rows that were held out",
)
def plot_predictions(
    of: Described | Description,
    /,
    *,
    output: int | str | None = None,
    ax: Any = None,
    figsize: Size = None,
) -> Any:
    """Draw predictions against targets on held-out rows, with intervals."""
    return _plot(of, Predictions, ax, figsize, output)


@_document(
    "the model kept no predictions for rows that were held out, or has no such target",
    ", with rows that were held out",
)
def plot_residuals(
    of: Described | Description,
    /,
    *,
    output: int | str | None = None,
    ax: Any = None,
    figsize: Size = None,
) -> Any:
    """Draw residuals against predictions on held-out rows."""
    return _plot(of, ResidualPlot, ax, figsize, output)


@_document(
    "the model kept no probabilities of rows that were held out",
    ": a classifier, with rows that were held out",
)
def plot_reliability(
    of: Described | Description, /, *, ax: Any = None, figsize: Size = None
) -> Any:
    """Draw observed shares of classes against predicted probabilities."""
    return _plot(of, Reliability, ax, figsize)


@_document(
    "no ROC curve is known, or all held-out rows are of one class",
    ": a classifier, with rows that were held out",
)
def plot_roc_curves(of: Described | Description, /, *, ax: Any = None, figsize: Size = None) -> Any:
    """Draw ROC curves of held-out rows: of the second of two classes, or one versus the rest."""
    return _plot(of, RocCurves, ax, figsize)


@_document(
    "no confusion matrix is known, or all held-out rows are of one class",
    ": a classifier, with rows that were held out",
)
def plot_confusion(of: Described | Description, /, *, ax: Any = None, figsize: Size = None) -> Any:
    """Draw what the held-out rows of each class are taken for."""
    return _plot(of, Confusion, ax, figsize)


def plot_roc(
    scores: Any,
    truth: Any,
    /,
    *,
    label: str | None = None,
    ax: Any = None,
    figsize: Size = None,
) -> Any:
    """Draw the ROC curve of scores for known true variables.

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
    return style_axes(ax)
