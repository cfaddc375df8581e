"""What the portfolio reaches beside other libraries' models, on the same rows in the same run.

The parts: 17 small sets (`sets`), two UCI sets (`uci`), classes (`classes`) and prediction
intervals (`intervals`); each writes a result of its own.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from common import (
    OURS,
    SECOND,
    THIRD,
    parser,
    pictures,
    save_picture,
    say,
    write_json,
)
from draws import held_in_draws
from joblib import Parallel, delayed
from peers import conformal_quantiles, peers, versions
from portfolio_criteria import (
    COVERAGE,
    PORTFOLIO,
    RMSE,
    SINGLE,
    judge_classes,
    judge_intervals,
    judge_sets,
    judge_uci,
    scores_by_set,
)
from samples import (
    OPENML,
    classification_split,
    german_credit,
    openml_sample,
    standardized_split,
    uci_split,
)
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

import gpukfl

PARTS = ("sets", "uci", "classes", "intervals")
NEXT, OTHERS = 100, 600  # test rows of the small sets, of which the first are judged

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # X, y, and those held out
Make = Callable[[int, int, bool], Any]


# ---------------------------------------------------------------------- models


def ours(args: argparse.Namespace) -> dict[str, Make]:
    """Give the portfolio, as far as it is there, and our single methods."""
    found: dict[str, Make] = {}
    options = {"random_state": 0, "backend": args.backend}

    effort = "quick" if args.smoke else "normal"

    def portfolio(n: int, d: int, classes: bool) -> Any:  # noqa: ARG001
        kind = gpukfl.AutoClassifier if classes else gpukfl.AutoRegressor
        return kind(effort=effort, **options)

    if hasattr(gpukfl, "AutoRegressor"):
        found[PORTFOLIO] = portfolio
    else:
        say("gpukfl has no AutoRegressor: the portfolio is left out")
    classes = {
        "BKerNN": (gpukfl.BKerNNRegressor, gpukfl.BKerNNClassifier),
        "HKRR": (gpukfl.HKRRRegressor, gpukfl.HKRRClassifier),
        "KernelRidge": (gpukfl.KernelRidgeRegressor, gpukfl.KernelRidgeClassifier),
        "Weighting": (gpukfl.RKHSWeightingRegressor, gpukfl.RKHSWeightingClassifier),
        "RegFeaL": (gpukfl.RegFeaLRegressor, gpukfl.RegFeaLClassifier),
    }

    def single(kinds: tuple[type, type]) -> Make:
        return lambda n, d, classes: kinds[classes](**options)  # noqa: ARG005

    return found | {name: single(kinds) for name, kinds in classes.items()}


def chosen(args: argparse.Namespace) -> dict[str, Make]:
    """Give the models that were asked for: all unless some are named."""
    found = ours(args) | peers(args.threads)
    if args.models is None:
        return found
    unknown = set(args.models) - set(found)
    if unknown:
        msg = f"expected --models among {', '.join(found)}, got {', '.join(sorted(unknown))}"
        raise SystemExit(msg)
    return {name: found[name] for name in args.models}


def fitted(
    name: str, make: Make, args: argparse.Namespace, split: Split, classes: bool, **about: Any
) -> tuple[Any, dict[str, Any]] | None:
    """Fit a model; give it and a row of seconds, or nothing where it takes no such data."""
    X, y, _, _ = split
    model = make(*X.shape, classes)
    if model is None:
        return None
    begun, cpu = time.perf_counter(), time.process_time()
    with threadpool_limits(args.threads):
        model.fit(X, y)
    seconds = {
        "seconds": time.perf_counter() - begun,
        "processor_seconds": time.process_time() - cpu,
    }
    return model, {"model": name, **about, "n": len(y), "d": X.shape[1], **seconds}


def tell(row: dict[str, Any], *keys: str) -> None:
    shown = "  ".join(f"{key} {row[key]:.4g}" for key in (*keys, "processor_seconds"))
    say(f"{row['set']:24s} {row['model']:22s} {shown}")


# ---------------------------------------------------------------------- 17 sets, and UCI


def small_sets(args: argparse.Namespace, n_test: int = NEXT) -> Iterator[tuple[str, Split]]:
    """Give 400 rows of each to fit and the next ones to test, scaled by the former."""
    for name in ("medical_charges",) if args.smoke else tuple(OPENML):
        X, y, _ = openml_sample(args, name)
        yield name, standardized_split(X, y, n_test=n_test)


def uci_sets(args: argparse.Namespace) -> Iterator[tuple[str, int, Split]]:
    """Give splits 0 to 4 in their own units."""
    for name in list(RMSE)[: 1 if args.smoke else None]:
        for number in range(1 if args.smoke else args.splits):
            X, y, X_test, y_test, _ = uci_split(args, name, number)
            if args.smoke:
                X, y = X[:200], y[:200]
            yield name, number, (X, y, X_test, y_test)


def regression_row(
    name: str, make: Make, args: argparse.Namespace, split: Split, **about: Any
) -> dict[str, Any] | None:
    """Fit, and give R² and the root of the mean squared error on the test rows."""
    found = fitted(name, make, args, split, classes=False, **about)
    if found is None:
        return None
    model, row = found
    row["rmse"], row["r2"] = scored(np.ravel(model.predict(split[2])), split[3])
    tell(row, "r2", "rmse")
    return row


def scored(predicted: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Root of the mean squared error, and R²."""
    squared = float(np.mean((y - predicted) ** 2))
    return squared**0.5, 1.0 - squared / float(np.var(y))


def set_row(
    name: str, make: Make, args: argparse.Namespace, split: Split, part: str
) -> tuple[dict[str, Any], np.ndarray]:
    """Fit, and score the next rows, and then all that are there: of few, one may decide."""
    found = fitted(name, make, args, split, classes=False, set=part)
    assert found is not None
    model, row = found
    predicted, y = np.ravel(model.predict(split[2])), split[3]
    row["rmse"], row["r2"] = scored(predicted[:NEXT], y[:NEXT])
    row["rmse_of_all"], row["r2_of_all"] = scored(predicted, y)
    tell(row, "r2", "r2_of_all")
    return row, predicted


def run_sets(args: argparse.Namespace) -> None:
    models = chosen(args)
    rows, truth, predicted = [], {}, {}
    for name, split in small_sets(args, OTHERS):
        found = {model: set_row(model, make, args, split, name) for model, make in models.items()}
        rows += [row for row, _ in found.values()]
        truth[name] = split[3]
        predicted[name] = {model: values for model, (_, values) in found.items()}
    settings = (
        f"first 400 rows to fit, next {NEXT} to test, scaled; defaults; R² of the test rows, and "
        f"of all {OTHERS} other rows"
    )
    more = {"held_in_draws": held_in_draws(truth, predicted, NEXT)}
    draw(args, record(args, "sets", settings, rows, judge_sets(rows), **more))


def run_uci(args: argparse.Namespace) -> None:
    models = chosen(args)
    found = Parallel(n_jobs=args.processes)(
        delayed(regression_row)(model, make, args, split, set=name, number=number)
        for name, number, split in uci_sets(args)
        for model, make in models.items()
    )
    rows = [row for row in found if row]
    settings = "the usual splits, 90 % to fit, in their own units; defaults; RMSE of the test rows"
    record(args, "uci", settings, rows, judge_uci(rows))


# ---------------------------------------------------------------------- classes


def class_sets(args: argparse.Namespace) -> Iterator[tuple[str, Split]]:
    """Give the authors' split of adults, and five folds of the others."""
    if not args.smoke:
        X, y, X_test, y_test, _ = classification_split(args, "adults")
        yield "adults", (X, (y > 0).astype(int), X_test, (y_test > 0).astype(int))
    tables = {
        "digits": lambda: load_digits(return_X_y=True),
        "breast cancer": lambda: load_breast_cancer(return_X_y=True),
        "german credit": lambda: german_credit(args),
    }
    for name in ("breast cancer",) if args.smoke else tables:
        X, y = tables[name]()
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        for train, test in list(folds.split(X, y))[: 1 if args.smoke else 5]:
            some = train[:100] if args.smoke else train
            yield name, (X[some], y[some], X[test], y[test])


def class_row(
    name: str, make: Make, args: argparse.Namespace, split: Split, part: str
) -> dict[str, Any] | None:
    """Fit, and give accuracy and log loss on the test rows."""
    if name == "Gaussian process" and len(np.unique(split[1])) > 2:
        return None  # one for each class takes hours
    found = fitted(name, make, args, split, classes=True, set=part)
    if found is None:
        return None
    model, row = found
    shares = np.asarray(model.predict_proba(split[2]), dtype=np.float64)
    truth = np.searchsorted(np.unique(split[1]), split[3])
    row["accuracy"] = float(np.mean(np.argmax(shares, axis=1) == truth))
    chosen_ = np.clip(shares[np.arange(len(truth)), truth], 1e-15, 1.0)
    row["log_loss"] = float(-np.mean(np.log(chosen_)))
    tell(row, "accuracy", "log_loss")
    return row


def run_classes(args: argparse.Namespace) -> None:
    models = chosen(args)
    rows = [
        row
        for name, split in class_sets(args)
        for model, make in models.items()
        if (row := class_row(model, make, args, split, name))
    ]
    settings = (
        "adults: the authors' split; the others: five stratified folds, shuffled; categories one "
        "column each; defaults; accuracy and log loss of the test rows"
    )
    record(args, "classes", settings, rows, judge_classes(rows))


# ---------------------------------------------------------------------- intervals


def run_intervals(args: argparse.Namespace) -> None:
    """Coverage and width on the test rows of the 17 sets, in units of the targets' deviation."""
    rows = []
    models = chosen(args)
    for name, split in small_sets(args):
        ends: dict[str, np.ndarray] = {}
        if PORTFOLIO in models:
            model, _ = fitted(PORTFOLIO, models[PORTFOLIO], args, split, classes=False)
            ends[PORTFOLIO] = np.asarray(model.predict_interval(split[2], coverage=COVERAGE))
        if "LightGBM" in models:
            ends["LightGBM"] = conformal_quantiles(*split[:3], COVERAGE, args.threads)
        rows += [interval_row(model, name, found, split[3]) for model, found in ends.items()]
    settings = (
        f"coverage {COVERAGE}; the 17 sets as above; LightGBM's 0.05 and 0.95 quantiles, fitted "
        "to three quarters of the rows and conformalised on the others"
    )
    record(args, "intervals", settings, rows, judge_intervals(rows))


def interval_row(model: str, name: str, ends: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    inside = (ends[:, 0] <= y) & (y <= ends[:, 1])
    width = float(np.mean(ends[:, 1] - ends[:, 0]))
    say(f"{name:24s} {model:22s} coverage {inside.mean():.3f}  width {width:.3f}")
    return {"model": model, "set": name, "coverage": float(inside.mean()), "width": width}


# ---------------------------------------------------------------------- the record


def record(
    args: argparse.Namespace,
    part: str,
    settings: str,
    rows: list[dict[str, Any]],
    criteria: list[dict[str, Any]],
    **more: Any,
) -> dict[str, Any]:
    result = {
        "settings": settings,
        "threads": args.threads,
        "peers": versions(),
        "rows": rows,
        "criteria": criteria,
        **more,
    }
    return write_json(args, f"bench_portfolio_{part}", result)


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    """One line a set: the portfolio, our single methods, and the others."""
    plt = pictures()
    table = scores_by_set(result["rows"], "r2")
    names = sorted(table, key=lambda name: max(table[name].values()))
    models = dict.fromkeys(row["model"] for row in result["rows"])
    others = [model for model in models if model not in (PORTFOLIO, *SINGLE)]
    figure, axes = plt.subplots(figsize=(7.2, 0.34 * len(names) + 1.7))
    groups = (
        ("single methods of gpukfl", SINGLE, THIRD, "."),
        ("other libraries", others, SECOND, "|"),
        ("gpukfl.fit, a blend", (PORTFOLIO,), OURS, "o"),
    )
    for label, members, colour, marker in groups:
        found = [
            (k, row[m]) for k, n in enumerate(names) for m in members if m in (row := table[n])
        ]
        if found:
            height, values = zip(*found, strict=True)
            axes.plot(values, height, marker, color=colour, label=label)
    axes.set_yticks(np.arange(len(names)), names)
    axes.set_xlabel("test R² (400 rows to fit, 100 to test)")
    figure.legend(loc="outside upper center", ncols=3)
    save_picture(args, "bench_portfolio_sets", figure)


def main() -> None:
    line = parser(__doc__)
    line.add_argument("--part", nargs="+", default=list(PARTS), choices=PARTS)
    line.add_argument("--models", nargs="+", help="names of models (default: all)")
    line.add_argument("--threads", type=int, default=1, help="of every model (default: 1)")
    line.add_argument("--processes", type=int, default=1, help="that share the UCI sets' fits")
    line.add_argument("--splits", type=int, default=5, help="of the UCI sets (default: 5)")
    args = line.parse_args()
    warnings.simplefilter("ignore")
    runs = {
        "sets": run_sets,
        "uci": run_uci,
        "classes": run_classes,
        "intervals": run_intervals,
    }
    for part in args.part:
        runs[part](args)


if __name__ == "__main__":
    main()
