"""Appendix D.2 of Huang et al. (HKRR): VarPro and AGD on functions of two variables."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import OURS, SECOND, criterion, parser, pictures, save_picture, say, write_json

from gpukfl.solvers import AlternatingGradient, TwoBlockDescent, VariableProjection

ITERATIONS, GRID, COARSE, HALF_WIDTH = 500, 61, 13, 3.0
# The paper states neither; with these it is reproduced, and other first steps are reported
FIRST_STEP, INNER_STEPS = 0.1, 1
OTHER_STEPS: tuple[tuple[float | str, int], ...] = tuple(
    (first, inner) for first in ("auto", 0.01, 0.1, 0.3, 1.0) for inner in (1, 5)
)

NEAR = 0.05  # distance within which the global minimum counts as reached
METHODS: dict[str, tuple[type, str]] = {
    "VarPro": (VariableProjection, SECOND),
    "AGD": (AlternatingGradient, OURS),
}


@dataclass(frozen=True)
class Toy:
    """f(x, y) = (x - g(y))² + cos(pi y) + (1 - y)² + 1; y plays B and x plays α."""

    g: Callable[[float], float]
    slope: Callable[[float], float]

    def at(self, x: Any, y: Any) -> Any:
        """Evaluate."""
        return (x - self.g(y)) ** 2 + np.cos(np.pi * y) + (1.0 - y) ** 2 + 1.0

    def value(self, B: np.ndarray, alpha: np.ndarray, /) -> float:
        """Evaluate."""
        return float(self.at(alpha, B)[0])

    def gradient_B(self, B: np.ndarray, alpha: np.ndarray, /) -> np.ndarray:  # noqa: N802
        """Differentiate with respect to y."""
        well = -np.pi * np.sin(np.pi * B) - 2.0 * (1.0 - B)
        return -2.0 * (alpha - self.g(B)) * self.slope(B) + well

    def gradient_alpha(self, B: np.ndarray, alpha: np.ndarray, /) -> np.ndarray:
        """Differentiate with respect to x."""
        return 2.0 * (alpha - self.g(B))

    def minimize_alpha(self, B: np.ndarray, /) -> np.ndarray:
        """Give the best x."""
        return self.g(B)

    def project(self, B: np.ndarray, /) -> np.ndarray:
        """Leave y as it is: there is no constraint."""
        return B


def sigmoid(y: Any) -> Any:
    """1 / (1 + e^-y)."""
    return 1.0 / (1.0 + np.exp(-y))


TOYS = {
    "square": Toy(lambda y: y * y, lambda y: 2.0 * y),
    "sigmoid": Toy(sigmoid, lambda y: sigmoid(y) * (1.0 - sigmoid(y))),
}
# (x0, y0): of Figures 3 and 1(c), and of Figure 5
STARTS = {"square": ((-1.5, -1.5), (-1.5, -0.1)), "sigmoid": ((5.0, -1.75),)}


def descend(
    toy: Toy,
    method: str,
    x: float,
    y: float,
    *,
    step_size: float | str = FIRST_STEP,
    inner_steps: int = INNER_STEPS,
    iterations: int = ITERATIONS,
) -> TwoBlockDescent:
    """AGD starts at (x, y); VarPro at the best x for y, as Algorithm 3 does."""
    inner = {"inner_steps": inner_steps} if method == "AGD" else {}
    solver = METHODS[method][0](max_iter=iterations, tol=0.0, step_size=step_size, **inner)
    alpha = np.array([x]) if method == "AGD" else None
    return solver.minimize(toy, np.array([y]), alpha)


def reaches(toy: Toy, found: TwoBlockDescent) -> bool:
    """Whether a descent ends at the global minimum, (g(1), 1)."""
    return bool(np.hypot(found.alpha[0] - toy.g(1.0), found.B[0] - 1.0) < NEAR)


def trajectory(toy: Toy, method: str, x: float, y: float) -> dict[str, Any]:
    """Path and losses of one descent."""
    begin = x if method == "AGD" else float(toy.g(y))
    found = descend(toy, method, x, y)
    path = [(x, y), (begin, y)]
    for k in range(1, len(found.history) + 1):
        part = descend(toy, method, x, y, iterations=k)
        path.append((float(part.alpha[0]), float(part.B[0])))
    return {
        "path": path,
        "loss": [float(toy.at(begin, y)), *found.history.objective],
        "end": path[-1],
        "global": reaches(toy, found),
        "iterations": len(found.history),
    }


def convergence_map(toy: Toy, count: int, **steps: Any) -> dict[str, Any]:
    """Which method reaches the global minimum from the points of a grid of (y, x)."""
    axis = np.linspace(-HALF_WIDTH, HALF_WIDTH, count)
    # VarPro forgets x
    column = np.array([reaches(toy, descend(toy, "VarPro", 0.0, y, **steps)) for y in axis])
    grid = [[reaches(toy, descend(toy, "AGD", x, y, **steps)) for x in axis] for y in axis]
    reached = {"VarPro": np.repeat(column[:, None], count, axis=1), "AGD": np.array(grid)}
    return {
        "axis": axis,
        "share": {method: float(hit.mean()) for method, hit in reached.items()},
        "only_VarPro": float((reached["VarPro"] & ~reached["AGD"]).mean()),
        "only_AGD": float((reached["AGD"] & ~reached["VarPro"]).mean()),
        "code": (reached["VarPro"] + 2 * reached["AGD"]).astype(int),
    }


def other_steps(toy: Toy, starts: tuple[tuple[float, float], ...]) -> list[dict[str, Any]]:
    """Shares of starts, and the first start's ends, with other first and inner steps."""
    rows = []
    for first, inner in OTHER_STEPS:
        steps = {"step_size": first, "inner_steps": inner}
        x, y = starts[0]
        ends = {m: reaches(toy, descend(toy, m, x, y, **steps)) for m in METHODS}
        share = convergence_map(toy, COARSE, **steps)["share"]
        rows.append({"first_step": first, "inner_steps": inner, "share": share, "global": ends})
    return rows


def judge(toys: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for name, row in toys.items():
        share = row["map"]["share"]
        text = f"{name}: the attraction basin of the global minimum is larger for AGD"
        found.append(criterion(text, share["AGD"] > share["VarPro"], **share))
        first = row["starts"][0]
        ends = {method: first[method]["global"] for method in METHODS}
        text = f"{name}: from {tuple(first['start'])} AGD reaches the global minimum, VarPro not"
        found.append(criterion(text, ends["AGD"] and not ends["VarPro"], **ends))
    near = toys["square"]["starts"][1]
    text = f"square: from {tuple(near['start'])} both reach a minimum, VarPro in fewer iterations"
    count = {method: near[method]["iterations"] for method in METHODS}
    found.append(criterion(text, count["VarPro"] < count["AGD"], **count))
    return found


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    toys = result["toys"]
    plt = pictures()
    from matplotlib.colors import ListedColormap

    figure, axes = plt.subplots(2, 3, figsize=(10.5, 6.6))
    colours = ListedColormap(["#d9d9d9", "#e8b08c", "#9bbde0", "#b9a3cf"])
    for (name, row), (path, loss, basin) in zip(toys.items(), axes, strict=True):
        _draw_path(path, name, row)
        for method, (_, colour) in METHODS.items():
            for k, start in enumerate(row["starts"]):
                style, label = ("-", method) if k == 0 else ("--", None)
                loss.plot(start[method]["loss"], style, color=colour, label=label)
        loss.set(xscale="symlog", xlabel="iterations", ylabel="loss")
        loss.legend()
        extent = (-HALF_WIDTH, HALF_WIDTH, -HALF_WIDTH, HALF_WIDTH)
        code = np.asarray(row["map"]["code"]).T  # rows are x
        basin.imshow(code, origin="lower", extent=extent, cmap=colours, vmin=-0.5, vmax=3.5)
        basin.plot(1.0, TOYS[name].g(1.0), "*", color="white", markersize=13)
        share = row["map"]["share"]
        basin.set_title(f"{name}: VarPro {share['VarPro']:.0%}, AGD {share['AGD']:.0%} of starts")
        basin.set(xlabel="y", ylabel="x")
        basin.grid(visible=False)
    for label, colour in zip(("neither", "only VarPro", "only AGD", "both"), colours.colors,
                             strict=True):  # fmt: skip
        axes[0, 2].plot([], [], "s", color=colour, label=label)
    figure.legend(*axes[0, 2].get_legend_handles_labels(), loc="outside lower right", ncol=4)
    save_picture(args, "hkrr_toy", figure)


def _draw_path(ax: Any, name: str, row: dict[str, Any]) -> None:
    y, x = np.meshgrid(np.linspace(-3, 3, 200), np.linspace(-3, 5.5, 200))
    levels = np.geomspace(0.05, 60, 14)
    ax.contour(y, x, TOYS[name].at(x, y), levels=levels, colors="#bbbbbb", linewidths=0.6)
    for method, (_, colour) in METHODS.items():
        for k, start in enumerate(row["starts"]):
            at = np.asarray(start[method]["path"])
            ax.plot(at[:, 1], at[:, 0], "-o" if k == 0 else "--o", color=colour, markersize=2.5)
    ax.plot(1.0, TOYS[name].g(1.0), "*", color="black", markersize=11)
    ax.set_title(f"{name}: paths from " + " and ".join(str(s["start"]) for s in row["starts"]))
    ax.set(xlabel="y", ylabel="x")
    ax.grid(visible=False)


def main() -> None:
    args = parser(__doc__).parse_args()
    toys: dict[str, Any] = {}
    for name, toy in TOYS.items():
        starts = [
            {"start": (x, y)} | {method: trajectory(toy, method, x, y) for method in METHODS}
            for x, y in STARTS[name]
        ]
        toys[name] = {"starts": starts, "map": convergence_map(toy, 5 if args.smoke else GRID)}
        toys[name]["other_steps"] = [] if args.smoke else other_steps(toy, STARTS[name])
        say(f"{name}: shares of starts that reach the minimum {toys[name]['map']['share']}")
    result = {
        "settings": "f(x, y) = (x - g(y))² + cos(pi y) + (1 - y)² + 1 with g(y) = y² or the "
        f"sigmoid, y as B and x as α; at most {ITERATIONS} iterations, first step "
        f"{FIRST_STEP}, {INNER_STEPS} step in x for each in y; "
        f"map of {GRID} by {GRID} starts on [-{HALF_WIDTH:g}, {HALF_WIDTH:g}]²",
        "codes": "0: neither, 1: only VarPro, 2: only AGD, 3: both reach the global minimum",
        "toys": toys,
        "criteria": [] if args.smoke else judge(toys),
    }
    draw(args, write_json(args, "hkrr_toy", result))


if __name__ == "__main__":
    main()
