"""Pictures of what was learned, by pyplot."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpukfl._array import is_array, to_host
from gpukfl.inspection._curves import Curves, Stumps
from gpukfl.inspection._description import Described, Description, described
from gpukfl.inspection._panels import Directions, Importances, Objective, Panel
from gpukfl.inspection._parameters import Bound, Sparsity
from gpukfl.inspection._rounds import Path, Rounds
from gpukfl.inspection._shares import Degrees, Eta
from gpukfl.inspection._style import legend, plain
from gpukfl.inspection._tuning import Tuning

Size = tuple[float, float] | None
_WIDTH, _HEIGHT = 11.0, 3.75  # inches of all panels, and of a row of them
_ALONE = (6.4, 4.4)


def plot_model(of: Described | Description, /, *, figsize: Size = None) -> Any:
    """Draw everything that was learned, a panel each.

    Parameters
    ----------
    of : estimator, Model or Description
        Fitted.
    figsize : tuple of float, optional
        Width and height in inches; by default as the panels need.

    Returns
    -------
    matplotlib.figure.Figure
        Of pyplot, with the panels that have something to draw.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If there is nothing to draw.
    """
    d = described(of)
    rows = _rows_of(d)
    figure = _pyplot().figure(figsize=figsize or _size_of(rows), layout="constrained")
    _draw_rows(d, rows, figure)
    return figure


def draw_apart(d: Description, /) -> Any:
    """Draw everything into a figure that pyplot knows nothing of, which nobody has to close."""
    _pyplot()
    from matplotlib.figure import Figure

    rows = _rows_of(d)
    figure = Figure(figsize=_size_of(rows), layout="constrained")
    _draw_rows(d, rows, figure)
    return figure


def plot_panel(
    of: Described | Description, panel: str, /, *, ax: Any = None, figsize: Size = None
) -> Any:
    """Draw the panel of a name, of any class.

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
    d = described(of)
    known = {one.name: one for one in (*d.panels, *([d.tuning] if d.tuning else []))}
    if panel not in known:
        names = ", ".join(name for name, one in known.items() if not one.empty) or "none"
        msg = f"expected the name of a panel of {d.name}, one of {names}, got {panel!r}"
        raise ValueError(msg)
    return _draw_one(d, d.panel(type(known[panel])), ax, figsize)


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
    return _draw_one(d, d.panel(Importances), ax, figsize)


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
    return _draw_one(d, d.panel(Directions), ax, figsize)


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
    return _draw_one(d, curves if output is None else curves.of(output), ax, figsize)


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
    stumps = d.panel(Stumps)
    return _draw_one(d, stumps if output is None else stumps.of(output), ax, figsize)


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
    return _draw_one(d, d.panel(Objective), ax, figsize)


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
    return _draw_one(d, d.panel(Tuning), ax, figsize)


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
    return _draw_one(d, d.panel(Rounds), ax, figsize)


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
    return _draw_one(d, d.panel(Path), ax, figsize)


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
    return _draw_one(d, d.panel(Sparsity), ax, figsize)


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
    return _draw_one(d, d.panel(Bound), ax, figsize)


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
    return _draw_one(d, d.panel(Eta), ax, figsize)


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
    return _draw_one(d, d.panel(Degrees), ax, figsize)


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
    ax = _axes(ax, figsize)
    false_rate, true_rate, _ = roc_curve(truth, scores)
    area = f"area {roc_auc_score(truth, scores):.3f}"
    ax.plot(false_rate, true_rate, lw=1.6, label=f"{label}, {area}" if label else area)
    ax.set(
        title="True variables found", xlabel="false-positive rate", ylabel="share of true variables"
    )
    legend(ax, loc="lower right")
    plain(ax)
    return ax


# ---------------------------------------------------------------------- where panels go


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        msg = "pictures need matplotlib: `pip install 'gpukfl[plot]'`"
        raise ImportError(msg) from error
    return plt


def _axes(ax: Any, figsize: Size, alone: tuple[float, float] = _ALONE) -> Any:
    plt = _pyplot()
    if ax is not None and figsize is not None:
        msg = "expected ax or figsize, got both: a figure that is there has its size"
        raise ValueError(msg)
    return plt.subplots(figsize=figsize or alone, layout="constrained")[1] if ax is None else ax


def _draw_one(d: Description, panel: Panel, ax: Any, figsize: Size) -> Any:
    alone = _ALONE if panel.shape == (1, 1) else (_WIDTH, _HEIGHT * _height(panel))
    return _draw(d, panel, _axes(ax, figsize, alone))


def _draw(d: Description, panel: Panel, ax: Any) -> Any:
    if isinstance(panel, Importances):
        return panel.draw(ax, caveat=d.caveat)
    return panel.draw(ax)


def _rows_of(d: Description) -> list[list[Panel]]:
    """Panels in rows of two; one of several pictures, or one that is left, has its own row."""
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


def _size_of(rows: list[list[Panel]]) -> tuple[float, float]:
    width = _WIDTH if max(map(len, rows)) > 1 or rows[0][0].shape != (1, 1) else _ALONE[0]
    return width, _HEIGHT * sum(_heights(rows))


def _heights(rows: list[list[Panel]]) -> list[float]:
    return [max(_height(panel) for panel in row) for row in rows]


def _height(panel: Panel) -> float:
    """Rows that a panel is as high as; several pictures have a title and names outside."""
    rows = panel.shape[0]
    return float(rows) if panel.shape == (1, 1) else 0.7 * rows + 0.5


def _draw_rows(d: Description, rows: list[list[Panel]], figure: Any) -> None:
    figure.get_layout_engine().set(h_pad=0.12, w_pad=0.08)
    grid = figure.add_gridspec(len(rows), 2, height_ratios=_heights(rows))
    for k, row in enumerate(rows):
        for side, panel in enumerate(row):
            cell = grid[k, side] if len(row) > 1 else grid[k, :]
            _draw(d, panel, figure.add_subplot(cell))
