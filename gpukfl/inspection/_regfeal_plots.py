"""Pictures of regularised feature learning."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpukfl.inspection._style import plain

_SHOWN = 8  # directions that can be told apart


def plot_eta(ax: Any, model: Any, /) -> None:
    """Draw the share of each direction in every iteration, and the threshold 1/d.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Where to draw.
    model : Model
        A fitted model of method "regfeal".
    """
    from matplotlib import colormaps

    e = model.estimator.to_host()
    r = e.sparsity_exponent
    shares = e.eta_path_ ** (r / (2.0 - r))
    shares = shares / shares.sum(axis=1, keepdims=True)
    variables = e.selection == "variables"
    order = np.argsort(-shares[-1], kind="stable")
    for rank, k in enumerate(order[::-1]):
        place = len(order) - 1 - rank
        shown = place < _SHOWN
        name = model.feature_names[k] if variables else f"direction {place + 1}"
        color = colormaps["viridis"](0.1 + 0.8 * place / max(min(_SHOWN, len(order)) - 1, 1))
        ax.plot(
            np.arange(len(shares)),
            shares[:, k],
            "o-",
            ms=3,
            color=color if shown else "#cccccc",
            label=name if shown else None,
        )
    ax.axhline(1.0 / shares.shape[1], color="#999999", ls=":", lw=1.2)
    ax.set(
        title="Importances over the iterations (dotted: 1/d)",
        xlabel="updates of the directions",
        ylabel=r"$\eta^{r/(2-r)}$",
        ylim=(0.0, None),
    )
    ax.xaxis.get_major_locator().set_params(integer=True)
    handles, names = ax.get_legend_handles_labels()
    ax.legend(handles[::-1], names[::-1], fontsize=7, frameon=False, ncol=2, loc="best")
    plain(ax)


def plot_degrees(ax: Any, model: Any, /) -> None:
    """Draw how many tuples have each total degree, and where their coefficients are.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Where to draw.
    model : Model
        A fitted model of method "regfeal".
    """
    e = model.estimator.to_host()
    degrees = e.multi_indices_.sum(axis=1)
    counts = np.bincount(degrees)
    squares = np.bincount(degrees, weights=(e.coef_**2).sum(axis=1).astype(np.float64))
    total = squares.sum() if squares.sum() > 0 else 1.0
    ax.bar(np.arange(len(counts)), counts / counts.sum(), color="#c9d6e2", label="of the tuples")
    ax.plot(
        np.arange(len(counts)),
        squares / total,
        "o-",
        ms=4,
        color="#31688e",
        label="of the variance",
    )
    ax.set(title="Degrees of the Hermite features", xlabel="total degree", ylabel="share")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(fontsize=8, frameon=False)
    plain(ax)
