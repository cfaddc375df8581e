"""Pictures of a fitted model."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpukfl._array import to_host
from gpukfl.inspection._regfeal_plots import plot_degrees, plot_eta
from gpukfl.inspection._selection_plots import level_color, plot_rounds
from gpukfl.inspection._style import plain
from gpukfl.inspection._weighting_plots import plot_bound, plot_sparsity, plot_stumps, plot_tuning

_BARS = 15  # features that fit in a picture
_CURVES = 6  # shape functions that can be told apart
_DIRECTIONS = 5


def plot_model(model: Any, /) -> Any:
    """Draw what `model` learned.

    Parameters
    ----------
    model : Model
        A fitted model.

    Returns
    -------
    matplotlib.figure.Figure
        The estimator's panels: importances, what was learned, and how.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError as error:
        msg = "pictures need matplotlib: `pip install 'gpukfl[plot]'`"
        raise ImportError(msg) from error
    layout = ConstrainedLayoutEngine(h_pad=0.12, w_pad=0.08)
    panels = model.estimator._panels
    rows = (len(panels) + 1) // 2
    figure = Figure(figsize=(11, 3.75 * rows), layout=layout)  # of its own: no global state
    for ax, panel in zip(figure.subplots(rows, 2).flat, panels, strict=True):
        _PANELS[panel](ax, model)
    return figure


def plot_importances(ax: Any, model: Any, /) -> None:
    """Draw the leading features' importances."""
    leading = model.most_important(_BARS)[::-1]
    names = [name for name, _ in leading]
    levels = getattr(model.estimator, "levels_", np.ones(len(model.feature_names), dtype=int))
    levels = to_host(levels)
    colors = [level_color(int(levels[model.feature_names.index(name)])) for name in names]
    ax.barh(names, [value for _, value in leading], color=colors)
    if levels.max(initial=0) > 1:
        for level in range(1, int(levels.max()) + 1):
            ax.plot([], [], "s", color=level_color(level), label=f"found in round {level}")
        ax.legend(fontsize=7, frameon=False, loc="lower right")
    ax.set(title="Feature importances", xlabel=f"share of the {model.estimator._map_norms}")
    plain(ax)


def plot_directions(ax: Any, model: Any, /) -> None:
    """Draw the loadings of the leading learned directions on the leading features."""
    components = to_host(model.estimator.components_)[:_DIRECTIONS]
    names = [name for name, _ in model.most_important(_BARS)]
    columns = [model.feature_names.index(name) for name in names]
    ax.set(title="Learned directions")
    if not len(components):
        ax.text(0.5, 0.5, "none: the map is 0", ha="center", va="center", transform=ax.transAxes)
        ax.set_axis_off()
        return
    loadings = components[:, columns].T
    image = ax.imshow(loadings, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
    ax.set_yticks(range(len(names)), names)
    ax.set_xticks(range(len(components)), [f"{k + 1}" for k in range(len(components))])
    ax.set_xlabel("direction, most important first")
    ax.figure.colorbar(image, ax=ax, label="loading")


def plot_shapes(ax: Any, model: Any, /) -> None:
    """Draw the shape functions that vary most, each centred on its own mean."""
    shapes = model.estimator.shape_functions_
    knots, values = to_host(shapes.knots), to_host(shapes.values)
    target = int(np.argmax(np.ptp(values, axis=1).sum(axis=0)))
    curves = values[:, :, target] / len(knots)
    spans = np.ptp(curves, axis=1)
    order = np.argsort(-spans, kind="stable")[:_CURVES]
    W = to_host(model.estimator.W_)
    for rank, j in enumerate(order):
        main = int(np.argmax(np.abs(W[:, j])))
        # g(w'x) is the same function of -w mirrored: drawn so that the main loading is positive
        side = 1.0 if W[main, j] >= 0 else -1.0
        shade = 0.15 + 0.75 * rank / max(len(order) - 1, 1)
        label = f"particle {j + 1}, mostly {model.feature_names[main]}"
        curve = curves[j] - curves[j].mean()
        ax.plot(side * knots[j], curve, color=_viridis(shade), lw=1.6, label=label)
    ax.set(
        title="Shape functions that vary most",
        xlabel=r"projection $w_j^\top x$",
        ylabel=f"contribution to {_target_label(model, target)}",
    )
    ax.legend(fontsize=7, frameon=False)
    plain(ax)


def plot_profiles(ax: Any, model: Any, /) -> None:
    """Draw the prediction along each leading direction, centred on its own mean."""
    steps, values = model.estimator.profiles(_DIRECTIONS)
    target = int(np.argmax(np.ptp(values, axis=1).sum(axis=0))) if len(values) else 0
    for rank, (t, curve) in enumerate(zip(steps, values[:, :, target], strict=True)):
        shade = 0.15 + 0.75 * rank / max(len(steps) - 1, 1)
        label = _direction_name(model, rank)
        ax.plot(t, curve - curve.mean(), color=_viridis(shade), lw=1.6, label=label)
    ax.set(
        title="Prediction along the learned directions",
        xlabel="coordinate along the direction, in standard deviations",
        ylabel=f"{_target_label(model, target)}, less its mean",
    )
    if len(steps):
        ax.legend(fontsize=7, frameon=False)
    plain(ax)


def plot_objective(ax: Any, model: Any, /) -> None:
    """Draw the objective, and the validation score where there is one."""
    history = model.estimator.history_
    steps = np.arange(1, len(history) + 1)
    ax.plot(steps, history.objective, "o-", ms=3, color="#31688e", label="objective")
    ax.set(title="Optimisation of the final fit", xlabel="step", ylabel="objective")
    ax.xaxis.get_major_locator().set_params(integer=True)
    if history.validation_score:
        twin = ax.twinx()
        twin.plot(steps, history.validation_score, "s--", ms=3, color="#b5651d")
        twin.set_ylabel("validation R²", color="#b5651d")
    if not len(history):
        ax.text(0.5, 0.5, "no steps", ha="center", va="center", transform=ax.transAxes)
    plain(ax)


def _direction_name(model: Any, rank: int) -> str:
    """Name of a direction: of the feature, where it is one."""
    loadings = np.abs(to_host(model.estimator.components_)[rank])
    main = int(np.argmax(loadings))
    alone = loadings.sum() == loadings[main]
    return model.feature_names[main] if alone else f"direction {rank + 1}"


def _target_label(model: Any, target: int) -> str:
    classes = getattr(model.estimator, "classes_", None)
    if classes is None:
        return model.target_name
    return f"class {classes[-1] if len(classes) == 2 else classes[target]}"


def _viridis(share: float) -> Any:
    from matplotlib import colormaps

    return colormaps["viridis"](share)


_PANELS = {
    "degrees": plot_degrees,
    "eta": plot_eta,
    "bound": plot_bound,
    "directions": plot_directions,
    "importances": plot_importances,
    "objective": plot_objective,
    "profiles": plot_profiles,
    "rounds": plot_rounds,
    "shapes": plot_shapes,
    "sparsity": plot_sparsity,
    "stumps": plot_stumps,
    "tuning": plot_tuning,
}
