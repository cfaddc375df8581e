"""Models of a table with a column of every kind, fitted quickly: what is deployed of tables."""

import datetime
import functools
import warnings

import numpy as np
import pandas as pd
from brief import hkrr

import gpukfl

N = 90
ROUNDING = 1e-9  # of predictions: coefficients of `single` are 8e5 together
RNG = np.random.default_rng(4)
DAY = datetime.datetime(1969, 3, 4, 10)
COLUMNS = {
    "length": [None if k % 10 == 3 else 0.1 * k * k for k in range(N)],
    "width": RNG.normal(size=N),
    "rooms": [1 + k % 4 for k in range(N)],
    "colour": [["red", "blue", None, "red"][k % 4] for k in range(N)],
    "street": [f"street {k % 15}" for k in range(N)],
    "sold": [[True, False, None][k % 3] for k in range(N)],
    "built": [None if k % 9 == 2 else DAY + datetime.timedelta(hours=70 * k) for k in range(N)],
    "left": [f"2{k % 7}/0{1 + k % 9}/2021 1{k % 10}:30" for k in range(N)],
    "took": [datetime.timedelta(seconds=k) for k in range(N)],
    "price": [f"{k}.5 kg" for k in range(N)],
    "grade": pd.Categorical(
        [["low", "mid", "high"][k % 3] for k in range(N)], ["low", "mid", "high"], ordered=True
    ),
    "note": [f"house {k} of {'many' if k % 2 else 'few'} words" for k in range(N)],
    "id": [7 * k for k in range(N)],
}
FRAME = pd.DataFrame(COLUMNS)
Y = np.where(FRAME["colour"] == "red", 1.0, 0.0) + 0.3 * FRAME["width"].to_numpy()
THREE = np.array(["low", "mid", "high"])[np.digitize(Y, np.quantile(Y, [0.3, 0.6]))]
TARGETS = {"one target": Y, "two targets": np.stack([Y, -(Y**2)], 1), "three classes": THREE}
WITHOUT = {"note": "identifier"}  # the text, which ONNX files do not read
# Levels that no fit has seen, and gaps wherever one may be
OTHERS = FRAME.iloc[::3].astype(object).reset_index(drop=True)
OTHERS.loc[1:6, "colour"] = "green"
OTHERS.loc[2:7, "street"] = "nowhere"
OTHERS.loc[3:5, "rooms"] = 17
for place, gap in enumerate(OTHERS.columns):
    OTHERS.loc[place % len(OTHERS), gap] = None
OTHERS.loc[9, "left"] = "2021-02-03T04:05:06.5"


def fitted(y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gpukfl.fit(FRAME, y, progress=False, **options)


@functools.cache
def blend(target, impute="median", columns=()):
    """Blend linear models, trees that see gaps, and a kernel method, of two folds."""
    members = ["linear", "trees", "manhattan_laplace"]
    return fitted(
        TARGETS[target], members=members, n_folds=2, impute=impute, columns=dict(columns) or None
    )


@functools.cache
def single(target, impute="median", columns=()):
    """Fit one method to what is made of the table."""
    options = hkrr(n_components=2, n_starts=1, max_iter=3, ridge=1e-3)
    return fitted(
        TARGETS[target], method="hkrr", impute=impute, columns=dict(columns) or None, **options
    )


def said(found, rows):
    """What a model or a runtime says of rows: predictions, or probabilities."""
    return found.predict_proba(rows) if found.task == "classification" else found.predict(rows)
