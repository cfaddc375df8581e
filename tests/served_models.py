"""Models of every method, scaling and kind of target, fitted quickly: what is deployed."""

import functools
import warnings

import numpy as np
from brief import bkernn, hkrr, regfeal, selection

import gpukfl

RNG = np.random.default_rng(3)
X = RNG.normal(size=(90, 4)) * [1.0, 1.5, 1.0, 1.0] + [0.0, 1.0, 0.0, 0.0]
Y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.5 * X[:, 2] ** 2
TWO_TARGETS = np.stack([Y, X[:, 2]], axis=1)
TWO = np.median(Y) < Y
THREE = np.array(["low", "mid", "high"])[np.digitize(Y, np.quantile(Y, [0.3, 0.6]))]
NUMBERS = np.array([7, 3, 5, 11])[np.digitize(Y, np.quantile(Y, [0.2, 0.5, 0.8]))]
NEW = X[:20] + 0.1 * RNG.normal(size=(20, 4))

SMALL = {
    "bkernn": bkernn(n_particles=6, max_iter=3, ridge=0.01),
    "hkrr": hkrr(n_components=2, n_starts=1, max_iter=3, ridge=1e-3),
    "selection": selection(n_permutations=3, ridge=1e-2),
    "rkhs_weighting": {"n_parameters": 40, "ridge": 1e-2},
    "regfeal": regfeal(
        **{"n_random_features": 40, "n_iter": 2, "degree_decay": 0.3, "strength": 0.1}
    ),
}
TARGETS = {
    "one target": (Y, {}),
    "two targets": (TWO_TARGETS, {"scaling": "quantile"}),
    "two classes": (TWO, {"scaling": "robust"}),
    "three classes": (THREE, {"scaling": None}),
}
MORE = {
    "bkernn, binned": ("bkernn", Y, {**SMALL["bkernn"], "knots": 64}),
    "bkernn, four labels": ("bkernn", NUMBERS, SMALL["bkernn"]),
    "hkrr, l1": ("hkrr", Y, {**SMALL["hkrr"], "kernel": "manhattan_laplace"}),
    "hkrr, evidence": ("hkrr", Y, {"criterion": "evidence", "kernel": "matern32"}),
    "regfeal, Hermite": ("regfeal", Y, {**SMALL["regfeal"], "retrain": None}),
    "rkhs_weighting, signs": (
        "rkhs_weighting",
        Y,
        {**SMALL["rkhs_weighting"], "instantiation": "gaussian_sign"},
    ),
    "rkhs_weighting, constant": ("rkhs_weighting", np.full(90, 2.5), {}),
    "selection, constant": ("selection", np.full(90, 2.5), {}),
}
SINGLE = [f"{method}, {target}" for method in SMALL for target in TARGETS] + list(MORE)
KERNEL_MEMBERS = ("laplace", "hkrr", "bkernn")


@functools.cache
def model(name, dtype="float64"):
    """Fit once; by the name of a case, or of a portfolio of one of `TARGETS`."""
    if name in MORE:
        method, y, options = MORE[name]
    else:
        method, target = name.split(", ")
        y, more = TARGETS[target]
        options = (
            {"effort": "quick", "n_folds": 2} if method == "auto" else {**SMALL[method], **more}
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gpukfl.fit(X.astype(dtype), y, method=method, progress=False, **options)


@functools.cache
def kernel_blend(target):
    """Blend kernel methods, of folds of few rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gpukfl.fit(
            X, TARGETS[target][0], members=list(KERNEL_MEMBERS), n_folds=2, progress=False
        )


def said(found):
    """Predictions of a model, and probabilities where it has classes."""
    predicted = found.predict(NEW)
    return predicted, found.predict_proba(NEW) if found.task == "classification" else None
