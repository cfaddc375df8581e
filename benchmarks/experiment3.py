"""Experiment 3 of Follain and Bach: five penalties on data with and without structure."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from common import (
    OURS,
    PUBLISHED,
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
from samples import largest_norm, uniform
from scipy.stats import ortho_group

from gpukfl import BKerNNRegressor

N, N_TEST, D, M = 214, 1024, 20, 20
SEEDS = tuple(range(1, 21))
# Active directions, noise, and whether they are rotated
DATA_SETS = {
    "no structure": (D, 1.0, False),
    "few variables": (5, 0.5, False),
    "few features": (5, 0.5, True),
}
# Our penalty, its strength in the published code, and its name there
PENALTIES = {
    "basic": (1.0, "Basic"),
    "variable": (1.0, "Variable"),
    "concave_variable": (1.0, "Concave_Variable"),
    "feature": (1.0 / np.sqrt(M), "Feature"),
    "concave_feature": (1.0, "Concave_Feature"),
}


def draw_data(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Y = sum_a sin((XP)_a) + noise, in the published order of draws."""
    k, noise, rotated = DATA_SETS[kind]
    np.random.seed(seed)
    P = ortho_group.rvs(D)[:, :k] if rotated else np.eye(D)[:, :k]
    X, X_test = uniform(N, D), uniform(N_TEST, D)
    y = np.sin(X @ P).sum(axis=1) + np.random.normal(0.0, noise, N)
    y_test = np.sin(X_test @ P).sum(axis=1) + np.random.normal(0.0, noise, N_TEST)
    return X, y, X_test, y_test


def score(data: tuple[np.ndarray, ...], penalty: str, strength: float, backend: str) -> float:
    """Test R² at the published settings."""
    X, y, X_test, y_test = data
    model = BKerNNRegressor(
        M,
        penalty=penalty,
        ridge=2.0 * largest_norm(X) / len(y),
        random_state=0,
        scaling=None,
        backend=backend,
        **published_steps(y, step_size=500, max_iter=25, penalty_strength=strength),
    )
    with stopped_by_count():
        return model.fit(X, y).score(X_test, y_test)


def run_one(args: argparse.Namespace, kind: str, seeds: tuple[int, ...]) -> dict[str, Any]:
    """Test R² of every penalty over the repetitions."""
    found: dict[str, list[float]] = {penalty: [] for penalty in PENALTIES}
    for seed in seeds:
        data = draw_data(kind, seed)
        for penalty, (strength, _) in PENALTIES.items():
            found[penalty].append(score(data, penalty, float(strength), args.backend))
    return {
        penalty: {
            "mean": float(np.mean(values)),
            "std_ddof1": float(np.std(values, ddof=1)),
            "scores": values,
        }
        for penalty, values in found.items()
    }


def add_published(rows: dict[str, Any], reference: dict[str, Any], count: int) -> None:
    """Put the published means beside ours, of the same repetitions."""
    resolved = reference["variant_alpha_resolved"]["mean_r2"]
    for kind, row in rows.items():
        for penalty, (_, theirs) in PENALTIES.items():
            known = reference["datasets"][kind][theirs]
            cell = row[penalty]
            cell["published_mean"] = float(np.mean(known["scores"][:count]))
            cell["published_std_ddof1"] = known["std_ddof1"]
            cell["difference"] = cell["mean"] - cell["published_mean"]
            cell["largest_difference_of_a_repetition"] = float(
                np.abs(np.subtract(cell["scores"], known["scores"][:count])).max()
            )
            cell["resolved_mean"] = resolved[kind][theirs] if count == len(SEEDS) else None


def judge(rows: dict[str, Any]) -> list[dict[str, Any]]:
    """Each mean within the published spread, or above; and the same best penalty."""
    cells = {(kind, penalty): rows[kind][penalty] for kind in rows for penalty in PENALTIES}
    gaps = {at: cell["difference"] for at, cell in cells.items()}
    worst = min(gaps, key=gaps.__getitem__)
    passed = all(gap >= -cells[at]["published_std_ddof1"] for at, gap in gaps.items())
    found = [
        criterion(
            "every mean R2 within one published std of the published mean, or above",
            passed,
            worst=" / ".join(worst),
            worst_difference=gaps[worst],
        )
    ]
    known = [
        abs(cell["mean"] - cell["resolved_mean"])
        for cell in cells.values()
        if cell["resolved_mean"] is not None
    ]
    if known:
        text = "every mean R2 within 0.001 of the authors' procedure with α of the final W"
        found.append(criterion(text, max(known) <= 1e-3, largest_difference=max(known)))
    for kind, row in rows.items():
        ours = max(PENALTIES, key=lambda p: row[p]["mean"])
        theirs = max(PENALTIES, key=lambda p: row[p]["published_mean"])
        text = f"{kind}: the best penalty is the published one"
        found.append(criterion(text, ours == theirs, ours=ours, published=theirs))
    return found


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    rows = result["rows"]
    plt = pictures()
    figure, axes = plt.subplots(1, len(rows), figsize=(9.2, 3.4), sharey=True)
    place = np.arange(len(PENALTIES))
    for ax, (kind, row) in zip(np.atleast_1d(axes), rows.items(), strict=True):
        ours = [row[p]["mean"] for p in PENALTIES]
        spread = [row[p]["std_ddof1"] for p in PENALTIES]
        ax.errorbar(
            ours,
            place + 0.12,
            xerr=spread,
            fmt="o",
            color=OURS,
            capsize=3,
            label="gpukfl, mean ± standard deviation",
        )
        if "published_mean" in row["basic"]:
            known = [row[p]["published_mean"] for p in PENALTIES]
            spread = [row[p]["published_std_ddof1"] for p in PENALTIES]
            ax.errorbar(
                known, place - 0.12, xerr=spread, fmt="x", color=PUBLISHED, capsize=3,
                label="published",
            )  # fmt: skip
        ax.set_title(kind)
        ax.set_xlabel("test R²")
    first = np.atleast_1d(axes)[0]
    first.set_yticks(place, [p.replace("_", " ") for p in PENALTIES])
    first.set_ylabel("penalty")
    first.invert_yaxis()
    figure.legend(*first.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    save_picture(args, "experiment3", figure)


def main() -> None:
    args = parser(__doc__).parse_args()
    seeds = SEEDS[:2] if args.smoke else SEEDS
    reference = published(args, "experiment3")
    rows = {}
    for kind in DATA_SETS:
        rows[kind] = run_one(args, kind, seeds)
        say(f"{kind:14s} " + "  ".join(f"{p} {c['mean']:.5f}" for p, c in rows[kind].items()))
    criteria = []
    if reference is not None:
        add_published(rows, reference, len(seeds))
        criteria = judge(rows)
    result = {
        "settings": "n = 214, d = 20, m = 20, ridge = 2 max||x||/n, first step 500, "
        "25 iterations; penalty_strength 1/sqrt(m) for the feature penalty, else 1",
        "columns": {
            "published_mean": "predicted with α of the previous W",
            "resolved_mean": "the authors' procedure recomputed with α of the final W, as here",
        },
        "seeds": seeds,
        "rows": rows,
        "criteria": criteria,
    }
    draw(args, write_json(args, "experiment3", result))


if __name__ == "__main__":
    main()
