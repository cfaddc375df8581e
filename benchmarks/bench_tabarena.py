"""Sets of TabArena by its three folds: `gpukfl.fit`, boosters and AutoGluon with their defaults.

Root mean squared errors, and for classes one minus the area under the ROC curve, beside figures
that were published of TabFM, a foundation model with downloaded weights. The folds are
scikit-learn's, shuffled by the seed 0, and not OpenML's own: ratios to published figures are good
to two or three hundredths. AutoGluon takes part where it is installed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from bench_tables import PORTFOLIO, QUICK, Table, fitted, for_boosters, one_row, simulated
from common import OURS, SECOND, THIRD, parser, pictures, save_picture, say, write_json
from peers import peers, versions
from samples import DATA
from sklearn.metrics import roc_auc_score, root_mean_squared_error
from sklearn.model_selection import KFold, StratifiedKFold
from threadpoolctl import threadpool_limits

BOOSTERS = ("CatBoost", "LightGBM")
AUTOGLUON, FOLDS = "AutoGluon, medium", 3

# Means over TabArena's own splits of the ensemble that google-research/tabfm published
TABFM = {"airfoil": 0.937, "fish_toxicity": 0.8539, "houses": 0.1815, "credit_g": 0.1972}


# ---------------------------------------------------------------------- sets


def sets(args: argparse.Namespace) -> Iterator[Table]:
    """Read the sets of the folders: a name, rows, the target, and whether it has classes."""
    if args.smoke:
        yield simulated()
        return
    folder = args.data or DATA
    houses = pd.read_csv(folder / "tables" / "california_housing.csv")
    houses = houses.drop(columns="ocean_proximity")
    houses["median_house_value"] = np.log(houses["median_house_value"])
    arena, tables = folder / "tabarena", folder / "tables"
    found: tuple[Table, ...] = (
        ("airfoil", pd.read_csv(arena / "airfoil.csv"), "y", False),
        ("fish_toxicity", pd.read_csv(arena / "fish_toxicity.csv", sep=";"), "LC50", False),
        ("credit_g", pd.read_csv(tables / "german_credit.csv"), "credit_risk", True),
        ("houses", houses, "median_house_value", False),
    )
    yield from (one for one in found if args.sets is None or one[0] in args.sets)


def folds(table: Table) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Yield rows to fit and rows to test."""
    _, frame, target, classes = table
    kind = StratifiedKFold if classes else KFold
    for inside, outside in kind(FOLDS, shuffle=True, random_state=0).split(frame, frame[target]):
        yield frame.iloc[inside], frame.iloc[outside]


# ---------------------------------------------------------------------- models


class AutoGluon:
    """AutoGluon's medium preset behind scikit-learn's methods."""

    def __init__(self, threads: int, folder: str) -> None:
        self.threads, self.folder = threads, folder

    def fit(self, frame: pd.DataFrame, target: str) -> AutoGluon:
        """Fit to a table with its target."""
        from autogluon.tabular import TabularPredictor

        path = tempfile.mkdtemp(dir=self.folder)
        self.predictor_ = TabularPredictor(target, path=path, verbosity=0)
        self.predictor_.fit(frame, presets="medium_quality", num_cpus=self.threads)
        return self

    def predict(self, frame: pd.DataFrame) -> np.ndarray:
        """Predict the target."""
        return self.predictor_.predict(frame).to_numpy()

    def predict_proba(self, frame: pd.DataFrame) -> np.ndarray:
        """Predict a column of probabilities for each class, in the order of the classes."""
        return self.predictor_.predict_proba(frame).sort_index(axis="columns").to_numpy()


def measured(
    name: str,
    args: argparse.Namespace,
    table: Table,
    fold: int,
    parts: tuple[pd.DataFrame, pd.DataFrame],
    folder: str,
) -> dict[str, Any]:
    """Fit one model to the rows of a fold, and measure its error on the others."""
    title, frame, target, classes = table
    inside, outside = parts
    begun, cpu = time.perf_counter(), time.process_time()
    with threadpool_limits(args.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == AUTOGLUON:
            model: Any = AutoGluon(args.threads, folder).fit(inside, target)
            rows = outside.drop(columns=target)
        else:
            whole = for_boosters(frame.drop(columns=target))
            model, rows = fitted(name, args, (inside, outside), target, classes, whole)
        seconds = {
            "seconds": time.perf_counter() - begun,
            "processor_seconds": time.process_time() - cpu,
        }
        row = {
            "set": title,
            "model": name,
            "fold": fold,
            "n": len(inside),
            **seconds,
            "error": error(model, rows, outside[target], classes),
            "one_row_ms": one_row(model, rows),
        }
    say(f"{title:15s} {name:20s} {fold} {row['error']:.4f} {row['processor_seconds']:.1f} s")
    return row


def error(model: Any, rows: pd.DataFrame, y: Any, classes: bool) -> float:
    """Root mean squared error, or one minus the area under the ROC curve."""
    if classes:
        return 1.0 - float(roc_auc_score(y, model.predict_proba(rows)[:, 1]))
    return float(root_mean_squared_error(y, np.ravel(model.predict(rows))))


# ---------------------------------------------------------------------- results


def draw(args: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """Draw errors as multiples of those of `gpukfl.fit`, a row of points for each set."""
    plt = pictures()
    means = pd.DataFrame(rows).pivot_table(index="set", columns="model", values="error", sort=False)
    figure, ax = plt.subplots(figsize=(7.2, 0.5 * len(means) + 1.6))
    published = {} if args.smoke else TABFM
    means["TabFM, published"] = [published.get(name, np.nan) for name in means.index]
    shapes = dict(zip([*means], "osxD^v", strict=False))
    for model, marker in shapes.items():
        times = means[model] / means[PORTFOLIO]
        color = OURS if model in (PORTFOLIO, QUICK) else THIRD if "TabFM" in model else SECOND
        ax.plot(times, range(len(means)), marker, color=color, ms=7, label=model)
    ax.set_yticks(range(len(means)), [name.replace("_", " ") for name in means.index])
    ax.invert_yaxis()
    ax.set(xlabel="error as a multiple of that of gpukfl.fit: smaller is better")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    save_picture(args, "bench_tabarena", figure)


def main() -> None:
    line = parser(__doc__.splitlines()[0])
    line.add_argument("--sets", nargs="+", help="some of the sets (default: all)")
    line.add_argument("--threads", type=int, default=1, help="of every model (default: 1)")
    args = line.parse_args()
    names = [PORTFOLIO, QUICK, *(name for name in BOOSTERS if name in peers(args.threads))]
    if find_spec("autogluon") is None:
        say(f"{AUTOGLUON}: not installed, left out")
    elif not args.smoke:
        names.append(AUTOGLUON)
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            measured(name, args, table, fold, parts, folder)
            for table in sets(args)
            for fold, parts in enumerate(folds(table))
            for name in names
        ]
    settings = f"{FOLDS}-fold cross-validation, shuffled by the seed 0; defaults of every model"
    found = {"settings": settings, "threads": args.threads, "peers": _versions(), "rows": rows}
    write_json(args, "bench_tabarena", {**found, "published": {"TabFM": TABFM}})
    draw(args, rows)


def _versions() -> dict[str, str]:
    if find_spec("autogluon") is None:
        return versions()
    from autogluon.tabular import __version__

    return {**versions(), "autogluon": __version__}


if __name__ == "__main__":
    main()
