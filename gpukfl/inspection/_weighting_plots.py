"""Pictures of an RKHS weighting."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpukfl._array import to_host
from gpukfl.inspection._style import plain

_CURVES = 6  # features whose stumps can be told apart
_REACH = 3.0  # standard deviations of a feature that are drawn
_DELTA = 0.05
_COLORS = ("#31688e", "#b5651d", "#3c8d5a", "#7a4f9e", "#a33b3b", "#777777")


def plot_stumps(ax: Any, model: Any, /) -> None:
    """Draw the sum of each leading feature's decision stumps, and where their thresholds are.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Where to draw.
    model : Model
        A fitted model of method "rkhs_weighting" with the instantiation `Stumps`.
    """
    e = model.estimator.to_host()
    first = int(e.bias)
    n_columns = e.n_features_in_ + first
    order = np.argsort(-model.feature_importances_, kind="stable")[:_CURVES]
    coef = e.coef_[:, int(np.argmax(np.abs(e.coef_).sum(axis=0)))] if len(e.coef_) else e.coef_
    steps = np.linspace(-_REACH, _REACH, 301)
    for rank, feature in enumerate(order):
        own = e.parameters_[:, 0] == feature + first
        if not own.any():
            continue
        X = np.zeros((len(steps), n_columns), dtype=e.coef_.dtype)
        X[:, feature + first] = steps
        features = e.instantiation_.features(e.parameters_[own], n_columns)
        factors = np.exp(features.log_constants - e.log_scale_)
        curve = features.shapes(X) @ (factors * coef[own])
        color = _COLORS[rank % len(_COLORS)]
        ax.plot(steps, curve, color=color, lw=1.6, label=model.feature_names[feature])
        thresholds = e.parameters_[own, 1]
        height = 0.025 * (rank + 1)
        ax.plot(
            thresholds,
            np.full(len(thresholds), height),
            "|",
            color=color,
            ms=5,
            transform=ax.get_xaxis_transform(),
        )
    low, high = ax.get_ylim()  # room for the ticks and the names
    ax.set_ylim(low - 0.25 * (high - low), high + 0.35 * (high - low))
    ax.set_xlim(-_REACH, _REACH)
    ax.set(
        title="Decision stumps, summed (ticks: thresholds)",
        xlabel="feature, in standard deviations" if e.standardize else "feature",
        ylabel="contribution to f",
    )
    if ax.get_lines():
        ax.legend(fontsize=7, frameon=False, ncol=2, loc="upper center")
    else:
        ax.text(0.5, 0.5, "no stumps are left", ha="center", va="center", transform=ax.transAxes)
    plain(ax)


def plot_sparsity(ax: Any, model: Any, /) -> None:
    """Draw how few parameters carry the model, and what pruning cost.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Where to draw.
    model : Model
        A fitted model of method "rkhs_weighting".
    """
    e = model.estimator
    sizes = np.sort(np.abs(to_host(e.coef_)).sum(axis=1))[::-1]
    shares = np.cumsum(sizes) / sizes.sum() if sizes.sum() > 0 else np.zeros(len(sizes))
    ax.plot(np.arange(1, len(sizes) + 1), shares, color=_COLORS[0], lw=1.8)
    ax.axvline(e.n_parameters, color="#999999", ls=":", lw=1.2)
    ax.text(e.n_parameters, 0.02, "drawn ", ha="right", va="bottom", fontsize=8, color="#777777")
    ax.axvline(max(e.n_parameters_, 1), color=_COLORS[0], ls="--", lw=1.2)
    ax.set(
        title=f"Sparsity: {e.n_parameters_} of {e.n_parameters} parameters",
        xlabel="parameters, largest coefficients first",
        ylabel="share of the sum of absolute coefficients",
        ylim=(0.0, 1.02),
    )
    if e.pruning_:
        twin = ax.twinx()
        kept = [step["n_parameters"] for step in e.pruning_]
        worse = [step["degradation"] for step in e.pruning_]
        twin.plot(kept, worse, "s", ms=4, color=_COLORS[1])
        twin.axhline(e.prune_tolerance, color=_COLORS[1], ls=":", lw=1.2)
        twin.set_ylabel(f"degradation when pruned, by “{e.prune}”", color=_COLORS[1])
        twin.set_yscale("symlog", linthresh=e.prune_tolerance)
        twin.spines[["top"]].set_visible(False)
    plain(ax)


def plot_tuning(ax: Any, model: Any, /) -> None:
    """Draw the score of held-out folds by ridge, and of the other instantiations.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Where to draw.
    model : Model
        A fitted model of method "rkhs_weighting".
    """
    chosen = next((trial for trial in model.tuning if trial["chosen"]), None)
    ax.set(
        title="Choice of λ by held-out folds", xlabel="ridge λ", ylabel="score on held-out folds"
    )
    if chosen is None:
        ax.text(0.5, 0.5, "λ was given", ha="center", va="center", transform=ax.transAxes)
        ax.set_axis_off()
        return
    own, others = _chosen_and_others(model.tuning, chosen)
    for kind, color in (("GaussianSign", _COLORS[4]), ("Stumps", _COLORS[2])):
        of_kind = [trial for trial in others if trial["instantiation"].startswith(kind)]
        ax.plot(
            [trial["ridge"] for trial in of_kind],
            [trial["score"] for trial in of_kind],
            "x",
            color=color,
            label=f"{kind}, others",
        ) if of_kind else None
    name = chosen["instantiation"].split(" ")[0]
    ax.plot(
        [trial["ridge"] for trial in own],
        [trial["score"] for trial in own],
        "o-",
        ms=4,
        color=_COLORS[0],
        label=f"{name} as chosen",
    )
    ax.plot(chosen["ridge"], chosen["score"], "o", ms=10, mfc="none", mew=1.6, color=_COLORS[1])
    ax.set_xscale("log")
    scores = [trial["score"] for trial in [*own, *others]]
    top = max(scores)
    ax.set_ylim(max(min(scores), top - 1.0) - 0.02, top + 0.02)
    ax.legend(fontsize=7, frameon=False)
    plain(ax)


def _chosen_and_others(
    trials: list[dict[str, Any]], chosen: dict[str, Any]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Split off the trials that differ from the chosen one in the ridge only, by their ridges."""
    setting = ("instantiation", "n_parameters", "n_samples")
    alike = [all(trial[key] == chosen[key] for key in setting) for trial in trials]
    own = [trial for trial, same in zip(trials, alike, strict=True) if same]
    others = [trial for trial, same in zip(trials, alike, strict=True) if not same]
    return sorted(own, key=lambda trial: trial["ridge"]), others


def plot_bound(ax: Any, model: Any, /) -> None:
    """Draw the generalisation bound (71) beside the truth as held-out folds show it.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Where to draw.
    model : Model
        A fitted model of method "rkhs_weighting" for two classes.
    """
    e = model.estimator
    known = e.validation_
    bars = {
        "share of wrong labels, held out": known["error"],
        "risk, held out": known["risk"],
        "risk, training": known["training_risk"],
    }
    for radius, name in (("norm", "bound, B = norm"), ("doubling", "bound, any B")):
        gap = e._gap(known["n_samples"], _DELTA, radius, 1.0)
        bars[f"{name}, δ = {_DELTA}"] = known["training_risk"] + known["unit"] * gap
    names, values = list(bars)[::-1], list(bars.values())[::-1]
    colors = [_COLORS[1]] * 2 + [_COLORS[5]] + [_COLORS[0]] * 2
    floor = 0.5 * min((value for value in values if value > 0), default=1.0)
    ax.barh(names, np.maximum(values, floor), left=0.0, color=colors)
    for row, value in enumerate(values):
        ax.text(max(value, floor), row, f" {value:.3g}", va="center", fontsize=8)
    ax.set_xscale("log")
    ax.set_xlim(0.5 * floor, 8.0 * max(*values, 1.0))
    ax.axvline(1.0, color="#999999", ls=":", lw=1.2)
    ax.set(title="Bound (71) against the truth", xlabel="risk (1: says nothing about labels)")
    plain(ax)
