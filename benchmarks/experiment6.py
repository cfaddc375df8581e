"""Experiment 6 of Follain and Bach: R² on 17 real data sets of 400 rows, one split each."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
from common import (
    OURS,
    PUBLISHED,
    SECOND,
    THIRD,
    criterion,
    parser,
    pictures,
    published,
    published_steps,
    save_picture,
    say,
    stopped_by_count,
    write_json,
)
from relu_network import SETTINGS, fit_relu_networks, torch_is_there
from samples import OPENML, largest_norm, openml_sample, standardized_split
from sklearn.metrics import r2_score

from gpukfl import BKerNNRegressor, BrownianKernelRidge
from gpukfl.solvers import ProximalGradient

PAIRS = {
    "concave_feature": "BKerNN Concave_Feature",
    "concave_variable": "BKerNN Concave_Variable",
    "brownian_ridge": "BKRR",
}
JUDGED = (*PAIRS, "concave_feature_auto_step")
ALLOWED = 0.02  # below the published R², for one data set
NETWORK, NETWORK_COLOUR = "relu_network", "#8a5fb0"
NEEDED = 0.710  # mean over the 17 data sets, concave feature


def models(X: np.ndarray, y: np.ndarray, backend: str) -> dict[str, Any]:
    """Build the published settings, the same with our step rule, and our defaults."""
    n, d = X.shape
    ridge = largest_norm(X) / n
    paper = {
        "n_particles": 2 * d,
        "ridge": ridge,
        "random_state": 0,
        "scaling": None,
        "backend": backend,
        **published_steps(y, step_size=50, max_iter=40),
    }
    automatic = ProximalGradient("auto", 40, 0.0)
    return {
        "concave_feature": BKerNNRegressor(penalty="concave_feature", **paper),
        "concave_variable": BKerNNRegressor(penalty="concave_variable", **paper),
        "brownian_ridge": BrownianKernelRidge(ridge=ridge, scaling=None, backend=backend),
        "concave_feature_auto_step": BKerNNRegressor(
            penalty="concave_feature", **{**paper, "optimizer": automatic}
        ),
        "library_defaults": BKerNNRegressor(random_state=0, backend=backend),
    }


def run_one(args: argparse.Namespace, name: str) -> dict[str, Any]:
    """R², seconds and iterations of every model on one data set."""
    X, y, source = openml_sample(args, name)
    X, y, X_test, y_test = standardized_split(X, y)
    row: dict[str, Any] = {"n": len(y), "d": X.shape[1], "source": source, "ours": {}}
    for key, model in models(X, y, args.backend).items():
        begun = time.perf_counter()
        with stopped_by_count():
            model.fit(X, y)
        row["ours"][key] = {
            "r2": model.score(X_test, y_test),
            "seconds": time.perf_counter() - begun,
            "iterations": getattr(model, "n_iter_", None),
        }
    if args.networks:
        begun = time.perf_counter()
        (network,) = fit_relu_networks(
            X[None], y[None], [2 * X.shape[1]], step_size=0.01, n_steps=2500
        )
        row["ours"][NETWORK] = {
            "r2": float(r2_score(y_test, network.predict(X_test))),
            "seconds": time.perf_counter() - begun,
            "iterations": 2500,
        }
    say(f"{name:24s} " + "  ".join(f"{k} {v['r2']:.4f}" for k, v in row["ours"].items()))
    return row


def add_published(rows: dict[str, Any], reference: dict[str, Any] | None) -> None:
    """Put the published R² beside ours, and the recomputed one with α of the final W."""
    if reference is None:
        return
    order = reference["method_order"]
    for name, row in rows.items():
        known = dict(zip(order, reference["datasets"][name]["r2"], strict=False))
        resolved = reference["variant_alpha_resolved"]["r2"][name]
        row["published"] = {key: known[theirs] for key, theirs in PAIRS.items()}
        row["published"][NETWORK] = known["ReLUNN"]
        row["resolved"] = {key: resolved.get(theirs) for key, theirs in PAIRS.items()}
        row["difference"] = {key: row["ours"][key]["r2"] - row["published"][key] for key in PAIRS}


def means(rows: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Mean R² over the data sets, by source and model."""
    found: dict[str, dict[str, float]] = {}
    first = next(iter(rows.values()))
    for source in ("ours", "published", "resolved"):
        for key in first.get(source, {}):
            cells = [row[source][key] for row in rows.values()]
            values = [cell["r2"] if source == "ours" else cell for cell in cells]
            if None not in values:
                found.setdefault(source, {})[key] = float(np.mean(values))
    say("means: " + json.dumps(found))
    return found


def judge(rows: dict[str, Any]) -> list[dict[str, Any]]:
    """Judge the stated criteria, for the published settings and for our own step.

    Our defaults also have another number of particles and stop by a tolerance: their mean is told
    but not judged.
    """
    complete = len(rows) == len(OPENML)
    found = []
    for key in JUDGED:
        theirs = key if key in PAIRS else "concave_feature"
        mean = float(np.mean([row["ours"][key]["r2"] for row in rows.values()]))
        if theirs == "concave_feature":
            text = f"{key}: mean R2 over the 17 sets at least {NEEDED}"
            found.append(criterion(text, mean >= NEEDED if complete else None, mean=mean))
        if all("published" in row for row in rows.values()):
            gaps = {n: r["ours"][key]["r2"] - r["published"][theirs] for n, r in rows.items()}
            worst = min(gaps, key=gaps.__getitem__)
            text = f"{key}: every set within {ALLOWED} of the published R2 ({theirs}), or above"
            found.append(
                criterion(
                    text,
                    gaps[worst] >= -ALLOWED,
                    mean=mean,
                    published_mean=float(np.mean([r["published"][theirs] for r in rows.values()])),
                    worst=worst,
                    worst_difference=gaps[worst],
                    sets_above=sum(gap >= 0 for gap in gaps.values()),
                )
            )
    return found


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    """One line a data set: ours and published."""
    rows = result["rows"]
    plt = pictures()
    names = sorted(rows, key=lambda name: rows[name]["ours"]["concave_feature"]["r2"])
    shown = [
        ("concave_feature", "BKerNN, concave feature", OURS, "o"),
        ("concave_variable", "BKerNN, concave variable", SECOND, "s"),
        ("brownian_ridge", "Brownian kernel ridge", THIRD, "^"),
    ]
    if all(NETWORK in row["ours"] for row in rows.values()):
        shown.append((NETWORK, "ReLU network", NETWORK_COLOUR, "D"))
    figure, axes = plt.subplots(1, 1, figsize=(7.2, 0.34 * len(names) + 1.7))
    for offset, (key, label, colour, marker) in zip(
        (0.24, 0.08, -0.08, -0.24), shown, strict=False
    ):
        height = np.arange(len(names)) + offset
        ours = [rows[name]["ours"][key]["r2"] for name in names]
        where = "torch" if key == NETWORK else "gpukfl"
        axes.plot(ours, height, marker, color=colour, label=f"{label}, {where}")
        if all("published" in row for row in rows.values()):
            theirs = [rows[name]["published"][key] for name in names]
            axes.plot(theirs, height, "|", color=PUBLISHED, markersize=10, markeredgewidth=1.6)
    axes.plot([], [], "|", color=PUBLISHED, markersize=10, markeredgewidth=1.6, label="published")
    axes.set_yticks(np.arange(len(names)), names)
    axes.set_xlabel("test R² (400 rows to train, 100 to test)")
    figure.legend(loc="outside upper center", ncols=2)
    save_picture(args, "experiment6", figure)


def main() -> None:
    args = parser(__doc__).parse_args()
    args.networks = torch_is_there()
    names = ("medical_charges", "abalone") if args.smoke else tuple(OPENML)
    rows = {name: run_one(args, name) for name in names}
    add_published(rows, published(args, "experiment6"))
    result = {
        "settings": "m = 2d, ridge = max||x||/n, first step 50, 40 iterations, random_state 0. "
        f"{SETTINGS}; 2d units, 2,500 steps of 0.01",
        "columns": {
            "published": "predicted with α of the previous W",
            "resolved": "the authors' procedure recomputed with α of the final W, as here",
            "concave_feature_auto_step": "the same with step_size='auto'",
            "library_defaults": "BKerNNRegressor(random_state=0)",
        },
        "rows": rows,
        "means": means(rows),
        "criteria": judge(rows),
    }
    draw(args, write_json(args, "experiment6", result))


if __name__ == "__main__":
    main()
