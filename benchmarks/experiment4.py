"""Experiment 4 of Follain and Bach: functions of one variable, against a ReLU network."""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from common import (
    OURS,
    PUBLISHED,
    SECOND,
    criterion,
    parser,
    pictures,
    published_steps,
    save_picture,
    say,
    stopped_by_count,
    write_json,
)
from relu_network import SETTINGS, fit_relu_networks, torch_is_there
from samples import uniform
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV

from gpukfl import BKerNNRegressor

N, N_TEST, NOISE = 128, 1024, 0.2
PARTICLES, WIDTHS = (1, 5), (1, 5, 32)
RIDGES = (0.005, 0.01, 0.02, 0.05)
STEPS = 400_000  # of the network
FUNCTIONS = {
    "sine": lambda x: np.sin(2.0 * np.pi * x),
    "square wave": lambda x: np.sign(np.sin(2.0 * np.pi * x)),
    "triangle wave": lambda x: 4.0 * np.abs(x + 0.75 - np.floor(x + 0.75) - 0.5) - 1.0,
}
GOOD, SAME = 0.9, 0.02  # test R² of a function that is captured; a difference that is minimal
SHOWN = 4  # every so many test points are kept for the picture


def draw_data(kind: str) -> tuple[np.ndarray, ...]:
    """Noisy samples of one function, and its values on a grid."""
    np.random.seed(1)
    X = uniform(N, 1)
    y = FUNCTIONS[kind](X[:, 0]) + np.random.normal(0.0, NOISE, N)
    grid = np.linspace(-1.0, 1.0, N_TEST)
    return X, y, grid[:, None], FUNCTIONS[kind](grid)


def run_bkernn(data: tuple[np.ndarray, ...], m: int, backend: str) -> dict[str, Any]:
    """Choose the ridge by five folds, and fit."""
    X, y, grid, truth = data
    begun = time.process_time()
    model = BKerNNRegressor(
        m,
        penalty="basic",
        random_state=0,
        scaling=None,
        backend=backend,
        **published_steps(y, step_size=0.005, max_iter=300),
    )
    search = GridSearchCV(model, {"ridge": RIDGES}, cv=5, scoring="neg_mean_squared_error")
    with stopped_by_count():
        search.fit(X, y)
    fitted = search.predict(grid)
    return {
        "ridge": search.best_params_["ridge"],
        "seconds": time.process_time() - begun,
        **outcome(fitted, truth),
    }


def run_networks(
    data: dict[str, tuple[np.ndarray, ...]], n_steps: int
) -> dict[str, dict[int, dict[str, Any]]]:
    """Train all networks at once: of every function one of each width."""
    begun = time.process_time()
    cells = [(kind, m) for kind in data for m in WIDTHS]
    X, y = (np.stack([data[kind][part] for kind, _ in cells]) for part in (0, 1))
    networks = fit_relu_networks(X, y, [m for _, m in cells], step_size=0.005, n_steps=n_steps)
    say(f"{len(cells)} ReLU networks: {time.process_time() - begun:.0f} s of processor time")
    found: dict[str, dict[int, dict[str, Any]]] = {kind: {} for kind in data}
    for (kind, m), network in zip(cells, networks, strict=True):
        grid, truth = data[kind][2:]
        found[kind][m] = outcome(network.predict(grid), truth)
    return found


def outcome(fitted: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    """Test R² and error against the function without noise, and some of the curve."""
    return {
        "r2": float(r2_score(truth, fitted)),
        "mse": float(np.mean((truth - fitted) ** 2)),
        "curve": fitted[::SHOWN],
    }


def judge(rows: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Judge what the paper says of its Figure 3, which has no numbers."""
    one, five = ({kind: row["bkernn"][m]["r2"] for kind, row in rows.items()} for m in PARTICLES)
    found = [
        criterion(f"BKerNN with one particle: R2 above {GOOD}", min(one.values()) > GOOD, **one),
        criterion(
            f"BKerNN: five particles are within {SAME} of one",
            all(abs(five[kind] - one[kind]) <= SAME for kind in rows),
            **five,
        ),
    ]
    if any("relu_network" not in row for row in rows.values()):
        return found
    few, many = ({k: row["relu_network"][m]["r2"] for k, row in rows.items()} for m in (5, 32))
    text = "ReLU network with 5 units: below BKerNN with one particle"
    found.append(criterion(text, all(few[kind] < one[kind] for kind in rows), **few))
    text = f"ReLU network with 32 units: R2 above {GOOD}"
    found.append(criterion(text, min(many.values()) > GOOD, **many))
    return found


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    rows = result["rows"]
    plt = pictures()
    columns = [("bkernn", m, f"BKerNN, {m} particle" + "s" * (m > 1), OURS) for m in PARTICLES]
    columns += [
        ("relu_network", m, f"ReLU network, {m} unit" + "s" * (m > 1), SECOND) for m in WIDTHS
    ]
    figure, axes = plt.subplots(3, len(columns), figsize=(11.0, 6.2), sharex=True, sharey="row")
    for line, (kind, row) in zip(axes, rows.items(), strict=True):
        X, y, grid, truth = draw_data(kind)
        for ax, (method, m, title, colour) in zip(line, columns, strict=True):
            ax.plot(X[:, 0], y, "x", color="#bbbbbb", markersize=3)
            ax.plot(grid[:, 0], truth, "--", color=PUBLISHED, linewidth=1.0)
            if method in row:
                cell = row[method][str(m)]
                ax.plot(grid[::SHOWN, 0], cell["curve"], color=colour, linewidth=1.6)
                ax.set_title(f"{title}\nR² {cell['r2']:.3f}", fontsize=9)
        line[0].set_ylabel(f"{kind}, y")
    for ax in axes[-1]:
        ax.set_xlabel("x")
    save_picture(args, "experiment4", figure)


def main() -> None:
    line = parser(__doc__)
    line.add_argument("--steps", type=int, default=STEPS, help="of the ReLU network")
    args = line.parse_args()
    n_steps = 50 if args.smoke else args.steps
    data = {kind: draw_data(kind) for kind in FUNCTIONS}
    rows: dict[str, dict[str, Any]] = {}
    for kind, parts in data.items():
        rows[kind] = {"bkernn": {m: run_bkernn(parts, m, args.backend) for m in PARTICLES}}
        found = {m: round(cell["r2"], 4) for m, cell in rows[kind]["bkernn"].items()}
        say(f"{kind}: test R2 by m {found}")
    if torch_is_there():
        for kind, cells in run_networks(data, n_steps).items():
            rows[kind]["relu_network"] = cells
    result = {
        "settings": f"{N} samples with noise of {NOISE}, tested on {N_TEST} points without noise; "
        "basic penalty, ridge of four by 5 folds, first step 0.005, 300 iterations. "
        f"{SETTINGS}; {n_steps:,} steps of 0.005 (paper: {STEPS:,})",
        "rows": rows,
        "criteria": [] if args.smoke else judge(rows),
    }
    draw(args, write_json(args, "experiment4", result))


if __name__ == "__main__":
    main()
