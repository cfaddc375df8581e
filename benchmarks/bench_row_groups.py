"""P-values and intervals of rows in groups: groups of nearly equal rows, whose errors are shared.

P-values of what says nothing are not to be too small, and intervals are to hold the targets of new
groups as often as they state.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from common import criterion, parser, say, write_json
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression

import gpukfl
from gpukfl.inference import conditional_importance, interactions

GROUPS, SIZE, FEATURES = 20, 20, 4
NEAR = 0.01  # deviation of rows inside a group
OWN = 0.3  # deviation of the errors of single rows; that of the groups' is 1
LEVEL, COVERAGE, WITHIN = 0.05, 0.9, 0.03
NEW = 40  # groups by which intervals are judged


class Product(RegressorMixin, BaseEstimator):
    """A model that makes something of pairs that say nothing."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Product:  # noqa: ARG002
        """Learn nothing."""
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Predict by a function with two products."""
        return X[:, 0] + 0.5 * X[:, 0] * X[:, 1] + 0.5 * np.tanh(X[:, 1] * X[:, 2])


def draw(seed: int, n_groups: int, *, levels: bool = False) -> tuple[np.ndarray, ...]:
    """Draw rows, targets of which the first column says something, and groups."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), SIZE)
    X = rng.standard_normal((n_groups, FEATURES))[groups]
    X += NEAR * rng.standard_normal(X.shape)
    if levels:
        X[:, 1] = (rng.random(n_groups) < 0.5)[groups]
    shared = rng.standard_normal(n_groups)[groups]
    return X, X[:, 0] + shared + OWN * rng.standard_normal(len(X)), groups


def rate(p_values: list[float]) -> float:
    return float(np.mean(np.asarray(p_values) <= LEVEL))


def interaction_row(n_groups: int, draws: int) -> dict[str, Any]:
    """Return how often a pair that says nothing is found, by rows and by groups."""
    by_rows, by_groups = [], []
    for seed in range(draws):
        X, y, groups = draw(seed, n_groups)
        model, how = Product().fit(X, y), {"features": [0, 1], "n_permutations": 999}
        by_rows.append(float(interactions(model, X, y, **how).p_values[0]))
        found = interactions(model, X, y, row_groups=groups, **how)
        by_groups.append(float(found.p_values[0]))
    return row("interactions", n_groups, draws, by_rows, by_groups)


def importance_row(kind: str, n_groups: int, draws: int) -> dict[str, Any]:
    """Return how often a column that says nothing is found, by rows and by groups."""
    by_rows, by_groups = [], []
    for seed in range(draws):
        X, y, groups = draw(seed, n_groups, levels=kind == "levels")
        model, how = LinearRegression().fit(X, y), {"groups": {"x1": [1]}, "n_permutations": 999}
        X, y, groups = draw(10_000 + seed, n_groups, levels=kind == "levels")
        by_rows.append(float(conditional_importance(model, X, y, **how).p_values[0]))
        found = conditional_importance(model, X, y, row_groups=groups, **how)
        by_groups.append(float(found.p_values[0]))
    return row(f"importance of {kind}", n_groups, draws, by_rows, by_groups)


def row(
    what: str, n_groups: int, draws: int, by_rows: list[float], by_groups: list[float]
) -> dict[str, Any]:
    found = {"what": what, "groups": n_groups, "size": SIZE, "draws": draws}
    found |= {"by_rows": rate(by_rows), "by_groups": rate(by_groups)}
    shares = f"by rows {rate(by_rows):.3f}, by groups {rate(by_groups):.3f}"
    say(f"{what}, {n_groups} groups: found {shares}")
    return found


def coverage_row(n_groups: int, draws: int, members: Any) -> dict[str, Any]:
    """Return the share of targets of new groups that intervals hold."""
    held, begun = [], time.perf_counter()
    for seed in range(draws):
        X, y, groups = draw(20_000 + seed, n_groups)
        new, truth, _ = draw(30_000 + seed, NEW)
        model = gpukfl.fit(X, y, groups=groups, effort="quick", members=members, random_state=0)
        ends = model.predict_interval(new, coverage=COVERAGE)
        held.append(float(np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1]))))
    seconds = time.perf_counter() - begun
    say(f"coverage of new groups by {n_groups}: {np.mean(held):.3f} in {seconds:.0f} s")
    error = float(np.std(held) / np.sqrt(max(draws - 1, 1)))
    return {
        "groups": n_groups,
        "draws": draws,
        "coverage": float(np.mean(held)),
        "error": error,
    }


def judged(tests: list[dict[str, Any]], intervals: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for one in tests:
        chance = LEVEL + 2.0 * float(np.sqrt(LEVEL * (1.0 - LEVEL) / one["draws"]))
        text = f"{one['what']}, {one['groups']} groups: found at {LEVEL} no more often than that"
        found.append(criterion(text, one["by_groups"] <= chance, by_groups=one["by_groups"]))
    for one in intervals:
        text = f"{one['groups']} groups: {COVERAGE} of new groups' targets, ± {WITHIN}"
        near = abs(one["coverage"] - COVERAGE) <= WITHIN
        found.append(criterion(text, near, coverage=one["coverage"], error=one["error"]))
    return found


def measure(args: argparse.Namespace) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    if args.smoke:
        tests = [interaction_row(8, 2), importance_row("levels", 8, 1)]
        return tests, [coverage_row(30, 1, ["linear"])]
    tests = [interaction_row(n, args.draws) for n in (GROUPS, 3 * GROUPS)]
    for kind in ("numbers", "levels"):
        tests.append(importance_row(kind, GROUPS, args.importance_draws))
    return tests, [coverage_row(n, args.coverage_draws, None) for n in (40, 80)]


def main() -> None:
    line = parser(__doc__)
    line.add_argument("--draws", type=int, default=200, help="of pairs that say nothing")
    line.add_argument("--importance-draws", type=int, default=100)
    line.add_argument("--coverage-draws", type=int, default=20)
    args = line.parse_args()
    warnings.simplefilter("ignore")
    tests, intervals = measure(args)
    result = {
        "settings": f"groups of {SIZE} rows that differ by {NEAR}, {FEATURES} columns, errors of "
        f"groups of deviation 1 and of rows of {OWN}; intervals are judged by {NEW} new groups",
        "tests": tests,
        "intervals": intervals,
        "criteria": [] if args.smoke else judged(tests, intervals),
    }
    write_json(args, "bench_row_groups", result)


if __name__ == "__main__":
    main()
