"""Figures of pyplot: which panels they have, and where."""

from __future__ import annotations

from typing import Any

from gpukfl.inspection._description import Described, Description, described
from gpukfl.inspection._panels import Importances, Panel

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
    rows = _panel_rows(d)
    figure = import_pyplot().figure(figsize=figsize or _figure_size(rows), layout="constrained")
    _draw_rows(d, rows, figure)
    return figure


def draw_unmanaged(d: Description, panel: Panel, /, *, size: tuple[float, float]) -> Any:
    """Draw a panel into a figure that pyplot knows nothing of, which nobody has to close."""
    import_pyplot()
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    _draw(d, panel, figure.add_subplot())
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
    return draw_one(d, d.panel(type(known[panel])), ax, figsize)


def import_pyplot() -> Any:
    """Return matplotlib's pyplot; ImportError says how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        msg = "pictures need matplotlib: `pip install 'gpukfl[plot]'`"
        raise ImportError(msg) from error
    return plt


def get_axes(ax: Any, figsize: Size, alone: tuple[float, float] = _ALONE) -> Any:
    """Return the axes that was given, or that of a new figure."""
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


def _figure_size(rows: list[list[Panel]]) -> tuple[float, float]:
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
