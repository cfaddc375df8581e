"""Section 3.1 of Ruan et al. (kernel feature selection): the objective near 0 with both kernels."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np
from common import criterion, parser, pictures, save_picture, say, write_json
from selection_main_effects import COLOURS, KERNELS, RIDGE

from gpukfl.methods import DenseSelection
from gpukfl.solvers import ProjectedGradient, project_on_capped_orthant

QUADRUPLES, DRAWS = 100, 20
# Positive, so that rounding of derivatives that are 0 does not decide where a descent goes
SPARSITY = 0.01
RADIUS = 10.0
ASIDE = 0.02  # of both weights, where one more descent begins
STEP = 1e-6  # of the one-sided difference quotients
ROUNDING = 1e-14  # of the sum of the terms' absolute values
SIGNS = np.array([(1, 1), (1, -1), (-1, 1), (-1, -1)], dtype=float)
ALONG = np.concatenate([[0.0], np.geomspace(1e-6, 1.0, 61)])
GRID, HIGHEST = 41, 1.0


def draw_data(quadruples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw y = x1² + x2², centred, at normal points and their mirror images, all four."""
    points = np.random.default_rng(seed).standard_normal((quadruples, 2))
    X = np.concatenate([points * signs for signs in SIGNS])
    y = np.sum(X**2, axis=1) / 2.0
    return X, y - y.mean()


def at_zero(objective: DenseSelection) -> dict[str, Any]:
    """Right derivatives, the size of the terms that they add up, and difference quotients."""
    point = objective.evaluate(np.zeros(2))
    absolute = objective.gradient(replace(point, alpha=abs(point.alpha)))
    steps = STEP * np.eye(2)
    quotients = [(objective.evaluate(beta).value - point.value) / STEP for beta in steps]
    return {
        "value": point.value,
        "derivatives": objective.gradient(point),
        "absolute_terms": abs(absolute),
        "quotients": quotients,
    }


def descent(objective: DenseSelection, start: float) -> dict[str, Any]:
    """Projected gradients on J + γ |β|, every point of which is kept."""
    path = []

    def value(beta: np.ndarray) -> float:
        return objective.evaluate(beta).value + SPARSITY * float(beta.sum())

    def gradient(beta: np.ndarray) -> np.ndarray:
        path.append(beta)  # asked for at accepted points only
        return objective.gradient(objective.evaluate(beta)) + SPARSITY

    found = ProjectedGradient(max_iter=200).minimize(
        value, gradient, lambda beta: project_on_capped_orthant(beta, RADIUS), np.full(2, start)
    )
    return {"path": path, "end": found.x, "value": found.value, "status": found.status.name}


def landscape(objective: DenseSelection, count: int) -> dict[str, Any]:
    """J along β2, and on a grid of both weights."""
    axis = np.linspace(0.0, HIGHEST, count)
    surface = np.array([[objective.evaluate(np.array([a, b])).value for b in axis] for a in axis])
    lowest = np.unravel_index(surface.argmin(), surface.shape)
    return {
        "along": ALONG,
        "J_along": [objective.evaluate(np.array([0.0, b])).value for b in ALONG],
        "axis": axis,
        "J": surface,
        "lowest": {"beta": axis[list(lowest)], "value": surface[lowest]},
    }


def one_draw(quadruples: int, seed: int) -> dict[str, Any]:
    X, y = draw_data(quadruples, seed)
    rows = {}
    for name, kernel in KERNELS.items():
        objective = DenseSelection(kernel, X, y[:, None], RIDGE)
        rows[name] = {**at_zero(objective), "descent": descent(objective, 0.0)}
    return rows


def judge(draws: list[dict[str, Any]], first: dict[str, Any]) -> list[dict[str, Any]]:
    laplace, gaussian = ([row[name] for row in draws] for name in KERNELS)

    def largest(rows: list[dict[str, Any]], over: str) -> float:
        return max(float(np.max(np.abs(r["derivatives"]) / r[over])) for r in rows)

    zero = largest(gaussian, "absolute_terms")
    steepest = [max(r["derivatives"]) for r in laplace]
    gap = max(
        float(np.max(np.abs(np.divide(r["quotients"], r["derivatives"]) - 1.0))) for r in laplace
    )
    still = [bool(np.all(r["descent"]["end"] == 0)) for r in gaussian]
    moved = [bool(np.all(r["descent"]["end"] > 0)) for r in laplace]
    inside = {name: float(min(row["lowest"]["beta"])) for name, row in first.items()}
    return [
        criterion("q = 2: derivatives at 0 are 0 up to rounding", zero <= ROUNDING,
                  share_of_absolute_terms=zero),
        criterion("q = 1: derivatives at 0 are negative", max(steepest) < 0,
                  least_steep=max(steepest), steepest=min(min(r["derivatives"]) for r in laplace)),
        criterion(f"q = 1: difference quotients with step {STEP:g} agree within 1e-3", gap <= 1e-3,
                  relative=gap),
        criterion("q = 2: projected gradients from 0 stay there", all(still), draws=sum(still)),
        criterion("q = 1: projected gradients from 0 end with both weights positive", all(moved),
                  draws=sum(moved)),
        criterion("both kernels: the lowest point of the grid has both weights positive",
                  min(inside.values()) > 0, **inside),
    ]  # fmt: skip


# ---------------------------------------------------------------------- picture


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    rows = result["first"]
    plt = pictures()
    figure, axes = plt.subplots(2, 2, figsize=(9.4, 8.0))
    for name, colour in COLOURS.items():
        label = f"{name}, q = {KERNELS[name].power}"
        at, J = np.asarray(rows[name]["along"]), np.asarray(rows[name]["J_along"])
        near = at <= 0.1
        axes[0, 0].plot(at[near], J[near], "-", color=colour, label=label)
        falls = np.flatnonzero(J[0] - J > 1e-6 * J[0])  # the file keeps 8 digits
        axes[0, 1].plot(at[falls], J[0] - J[falls], "-", color=colour, label=label)
    axes[0, 0].set(xlabel="β2", ylabel="J(0, β2)", title="near 0: a slope, or flat")
    axes[0, 1].set(xscale="log", yscale="log", xlabel="β2", ylabel="J(0, 0) - J(0, β2)")
    axes[0, 1].set_title("what J falls by: as β2, or as β2²")
    for ax in axes[0]:
        ax.legend()
    for ax, name in zip(axes[1], KERNELS, strict=True):
        _draw_surface(ax, name, rows[name])
    save_picture(args, "selection_landscape", figure)


def _draw_surface(ax: Any, name: str, row: dict[str, Any]) -> None:
    """Contours of what the descents lower, denser towards its lowest value."""
    axis = np.asarray(row["axis"])
    surface = np.asarray(row["J"]) + SPARSITY * (axis[:, None] + axis[None, :])
    lowest = np.unravel_index(surface.argmin(), surface.shape)
    levels = surface.min() + np.geomspace(1e-3, 1.0, 18) * np.ptp(surface)
    ax.contour(axis, axis, surface.T, levels=levels, colors="#bbbbbb", linewidths=0.7)
    path, end = np.asarray(row["descent"]["path"]), row["descent"]["end"]
    label = "from 0" if np.any(end) else "from 0: stays there"
    ax.plot(path[:, 0], path[:, 1], "-o", color=COLOURS[name], label=label, clip_on=False,
            markersize=9 if len(path) == 1 else 4, zorder=3)  # fmt: skip
    if not np.any(end):
        path = np.asarray(row["aside"]["path"])
        ax.plot(path[:, 0], path[:, 1], "--o", color="black", markersize=3.5,
                label=f"from {ASIDE:g} each")  # fmt: skip
    ax.plot(axis[lowest[0]], axis[lowest[1]], "*", color="black", markersize=13, zorder=2,
            label="lowest of the grid")  # fmt: skip
    ax.set(xlabel="β1", ylabel="β2", title=f"{name}: projected gradients on J + {SPARSITY:g} |β|")
    ax.grid(visible=False)
    ax.legend(loc="upper right", frameon=True, framealpha=1.0)


def main() -> None:
    args = parser(__doc__).parse_args()
    quadruples, count, draws = (10, 5, 2) if args.smoke else (QUADRUPLES, GRID, DRAWS)
    found = [one_draw(quadruples, seed) for seed in range(draws)]
    X, y = draw_data(quadruples, 0)
    first = {}
    for name, kernel in KERNELS.items():
        objective = DenseSelection(kernel, X, y[:, None], RIDGE)
        aside = descent(objective, ASIDE)
        first[name] = {**found[0][name], **landscape(objective, count), "aside": aside}
        say(f"{name}: derivatives at 0 {first[name]['derivatives']}, from 0 to "
            f"{first[name]['descent']['end']}, from {ASIDE:g} each to {aside['end']}")  # fmt: skip
    result = {
        "settings": f"y = (x1² + x2²) / 2, without noise, centred, {quadruples} normal points and "
        f"their mirror images in both axes, so n = {4 * quadruples} and y has no covariance with "
        f"x1 or x2; λ = {RIDGE:g}; derivatives from the right, in {draws} draws; projected "
        f"gradients on J + {SPARSITY:g} |β|₁; grid of {count} by {count} weights up to {HIGHEST:g} "
        "for the first draw",
        "first": first,
        "draws": found,
        "criteria": [] if args.smoke else judge(found, first),
    }
    draw(args, write_json(args, "selection_landscape", result))


if __name__ == "__main__":
    main()
