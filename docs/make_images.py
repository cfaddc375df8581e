"""Make the pictures of the README and the documentation: ``python docs/make_images.py [NAME ...]``.

All are of real fits to data that ship with scikit-learn, but that of the decision page, which is
drawn from what the benchmarks wrote.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.datasets import load_diabetes

import gpukfl
from gpukfl.inference import bands, conditional_importance
from gpukfl.inspection import (
    Directions,
    plot_curves,
    plot_directions,
    plot_importances,
    plot_leaderboard,
    plot_sparsity,
    plot_stumps,
)

HERE = Path(__file__).parent
RESULTS = HERE.parent / "benchmarks" / "results"
BLUE, ORANGE, GREEN, PALE = "#31688e", "#b5651d", "#3c8d5a", "#bbbbbb"
N_NOISE = 30
MEASURED = {  # by the data's description
    "age": "age",
    "sex": "sex",
    "bmi": "body mass index",
    "bp": "blood pressure",
    "s1": "cholesterol",
    "s2": "LDL",
    "s3": "HDL",
    "s4": "cholesterol / HDL",
    "s5": "log triglycerides",
    "s6": "blood sugar",
}
OURS = {  # as the benchmark calls them
    "portfolio": "gpukfl.fit",
    "BKerNN": "BKerNN",
    "HKRR": "HKRR",
    "KernelRidge": "kernel ridge",
    "Weighting": "RKHS weighting",
    "RegFeaL": "RegFeaL",
}


def diabetes() -> tuple[pd.DataFrame, pd.Series]:
    """Give 442 people, ten measurements each, and how far the disease had gone a year later."""
    return load_diabetes(return_X_y=True, as_frame=True)


def fitted(method: str, **options: Any) -> gpukfl.Model:
    """Fit one method to the diabetes data."""
    return gpukfl.fit(*diabetes(), method=method, backend="numpy", random_state=0, **options)


def pair(widths: tuple[float, float] = (1.0, 1.0)) -> tuple[Figure, Any]:
    """Give a figure with two panels side by side."""
    figure = Figure(figsize=(9.0, 3.4), layout="constrained")
    return figure, figure.subplots(1, 2, width_ratios=widths)


def bare(ax: Any, **labels: str) -> None:
    """Name the axes and take away the frame."""
    ax.set(**labels)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(lw=0.4, alpha=0.5)


def first_look() -> Figure:
    """Draw a blend: predictions with intervals, importances with errors, a curve with its band."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    X = X.rename(columns=MEASURED)
    X_train, X_test, y_train, y_test = X[:400], X[400:], y[:400], y[400:]  # as in the README
    model = gpukfl.fit(X_train, y_train, backend="numpy", random_state=0)
    figure = Figure(figsize=(11.0, 3.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.1, 0.9, 1.0))

    predicted, intervals = model.predict(X_test), model.predict_interval(X_test)
    low, high = intervals.to_numpy().T
    inside = (low <= y_test) & (y_test <= high)
    left.vlines(predicted, low, high, color=BLUE, alpha=0.35, lw=1.5)
    for rows, color, label in ((inside, BLUE, "inside"), (~inside, ORANGE, "outside")):
        left.plot(predicted[rows], y_test[rows], ".", color=color, label=label, zorder=3)
    left.legend(frameon=False, loc="upper left")
    share = f"{inside.mean():.0%}".replace("%", " %")
    title = f"{len(y_test)} new people: {share} in their 90 % interval"
    bare(left, title=title, xlabel="predicted progression", ylabel="true progression")

    found = conditional_importance(model).frame().head(6).iloc[::-1]
    middle.barh(found["group"], found["importance"], xerr=found["standard_error"], color=BLUE)
    bare(middle, title="Importance given the other columns", xlabel="R² lost, ± one standard error")

    band = bands(model, X_train, y_train, features=["body mass index"]).curves[0]
    right.fill_between(
        band.steps, band.center - band.width, band.center + band.width, color=BLUE, alpha=0.25, lw=0
    )
    right.plot(band.steps, band.center, color=BLUE, lw=2)
    labels = {"xlabel": "body mass index", "ylabel": "effect on progression"}
    bare(right, title="One curve, with its band", **labels)
    return figure


def learned() -> Figure:
    """Draw all that a model says of itself."""
    return fitted("bkernn").plot()[0].figure


def bkernn() -> Figure:
    """Draw how much each feature weighs, and the functions along the learned directions."""
    figure, (left, right) = pair((1.0, 1.4))
    model = fitted("bkernn")
    plot_importances(model, ax=left)
    plot_curves(model, ax=right)
    return figure


def hkrr() -> Figure:
    """Draw one learned direction, and the target and the prediction along it."""
    figure, (left, right) = pair()
    X, y = diabetes()
    model = fitted("hkrr", n_components=1)
    directions = model.estimator.describe().panel(Directions)
    left.barh(directions.features, directions.loadings[0], color=BLUE)
    left.invert_yaxis()
    bare(left, title="The learned direction", xlabel="loading")
    along = model.transform(X)[:, 0]
    order = np.argsort(along)
    right.plot(along, y, ".", color=PALE, ms=5, label="people")
    right.plot(along[order], model.predict(X)[order], color=BLUE, lw=2, label="prediction")
    right.legend(frameon=False)
    bare(right, title="The function along it", xlabel="direction", ylabel="progression")
    return figure


def selection() -> Figure:
    """Draw weights of ten variables among shuffled copies that say nothing."""
    X, y = diabetes()
    d, rng = X.shape[1], np.random.default_rng(0)
    noise = {f"shuffled {k}": rng.permutation(X.iloc[:, k % d].to_numpy()) for k in range(N_NOISE)}
    found = gpukfl.fit(X.assign(**noise), y, method="selection", backend="numpy", random_state=0)
    weights = found.estimator.feature_importances_
    figure = Figure(figsize=(9.0, 3.0), layout="constrained")
    ax = figure.subplots()
    ax.axvspan(d - 0.5, len(weights) - 0.5, color=ORANGE, alpha=0.12, lw=0)
    ax.bar(np.arange(len(weights)), weights, color=[BLUE] * d + [ORANGE] * N_NOISE)
    ax.set_xticks(np.arange(d), X.columns, rotation=45)
    text = f"{N_NOISE} shuffled columns:\n{np.count_nonzero(weights[d:])} have a weight"
    ax.annotate(text, (d + N_NOISE / 2, weights.max() / 2), ha="center")
    ax.margins(x=0)
    bare(ax, title="Weights of the variables", ylabel="importance")
    return figure


def rkhs_weighting() -> Figure:
    """Draw what the stumps of each feature do together, and how few parameters carry the model."""
    figure, (left, right) = pair()
    model = fitted("rkhs_weighting", instantiation="stumps")
    plot_stumps(model, ax=left)
    plot_sparsity(model, ax=right)
    return figure


def regfeal() -> Figure:
    """Draw loadings of the directions, and the people in the plane of the leading two."""
    figure, (left, right) = pair()
    X, y = diabetes()
    model = fitted("regfeal")
    plot_directions(model, ax=left)
    plane = model.transform(X)
    shown = right.scatter(plane[:, 0], plane[:, 1], c=y, s=10, linewidths=0, cmap="viridis")
    figure.colorbar(shown, ax=right, label="progression")
    bare(right, title="People in the learned plane", xlabel="direction 1", ylabel="direction 2")
    return figure


def kernel_ridge() -> Figure:
    """Draw three kernels on one variable."""
    X, y = diabetes()
    bmi = X[["bmi"]].to_numpy()
    grid = np.linspace(bmi.min(), bmi.max(), 400)[:, None]
    figure = Figure(figsize=(9.0, 3.4), layout="constrained")
    ax = figure.subplots()
    ax.plot(bmi[:, 0], y, ".", color=PALE, ms=5, label="people")
    kernels = {"gaussian": (BLUE, "-"), "laplace": (ORANGE, "--"), "brownian": (GREEN, ":")}
    for name, (color, style) in kernels.items():
        found = gpukfl.KernelRidgeRegressor(name, backend="numpy", random_state=0).fit(bmi, y)
        ax.plot(grid[:, 0], found.predict(grid), style, color=color, lw=2, label=name)
    ax.legend(frameon=False, ncols=4)
    bare(ax, xlabel="body mass index, standardised by the data's authors", ylabel="progression")
    return figure


def portfolio() -> Figure:
    """Draw what each member came to on held-out rows, and its weight in the blend."""
    X, y = diabetes()
    model = gpukfl.fit(X, y, backend="numpy", random_state=0)
    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    plot_leaderboard(model, ax=figure.subplots())
    return figure


def explained() -> Figure:
    """Draw what columns add to the predictions for all people, and for one of them."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    X = X.rename(columns=MEASURED)
    model = gpukfl.fit(X, y, effort="quick", backend="numpy", random_state=0)
    found = model.explain(X[:200])
    figure = Figure(figsize=(11.0, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    found.plot_summary(ax=left)
    found.plot_row(int(np.argmax(found.prediction)), ax=right)
    return figure


def which_method() -> Figure:
    """Draw mean accuracy over the benchmark's sets against the time of a fit."""
    rows = pd.DataFrame(json.loads((RESULTS / "bench_portfolio_sets.json").read_text())["rows"])
    means = rows.groupby("model", sort=False)[["r2", "processor_seconds"]].mean()
    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    ax = figure.subplots()
    for name, (r2, seconds) in means.iterrows():
        own = name in OURS
        ax.plot(seconds, r2, "o" if own else "s", color=BLUE if own else ORANGE, ms=7)
        above = name not in ("BKerNN", "Weighting")  # others stand beside them
        ax.annotate(
            OURS.get(name, name),
            (seconds, r2),
            (6, 4 if above else -11),
            textcoords="offset points",
            fontsize=9,
        )
    ax.set_xscale("log")
    ax.margins(x=0.12, y=0.1)
    bare(
        ax,
        title=f"Means over {rows['set'].nunique()} sets of 400 rows: gpukfl (circles) and others",
        xlabel="processor seconds of a fit with default settings",
        ylabel="mean test R²",
    )
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {
    make.__name__: make
    for make in (
        first_look,
        learned,
        bkernn,
        hkrr,
        selection,
        rkhs_weighting,
        regfeal,
        kernel_ridge,
        portfolio,
        explained,
        which_method,
    )
}


def main() -> None:
    """Write the pictures, or those that are named, into ``images``."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("names", nargs="*", help=f"of {', '.join(PICTURES)}; default: all")
    for name in line.parse_args().names or PICTURES:
        path = HERE / "images" / f"{name}.png"
        PICTURES[name]().savefig(path, dpi=110)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
