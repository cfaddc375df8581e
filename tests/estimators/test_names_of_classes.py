"""What classes are called has no part in a fit: neither in splits nor in probabilities."""

from dataclasses import replace

import numpy as np
import pytest
from brief import bkernn

from gpukfl import (
    BKerNNClassifier,
    HKRRClassifier,
    KernelFeatureSelectorClassifier,
    KernelRidgeClassifier,
    RegFeaLClassifier,
    RKHSWeightingClassifier,
)
from gpukfl.cli._fit import split_rows
from gpukfl.estimators._samples import Samples, number_by_appearance
from gpukfl.methods import Reweighting
from gpukfl.tables._target import read_target

MAKE = {
    "kernel_ridge": lambda: KernelRidgeClassifier(random_state=0),
    # Few steps: rounding grows with them
    "bkernn": lambda: BKerNNClassifier(10, **bkernn(ridge="auto", max_iter=2, random_state=0)),
    "hkrr": lambda: HKRRClassifier(1, ridge=1e-3, random_state=0),
    "agop": lambda: HKRRClassifier(optimizer="agop", random_state=0),
    "selection": lambda: KernelFeatureSelectorClassifier(ridge="auto", random_state=0),
    "regfeal": lambda: RegFeaLClassifier(100, optimizer=Reweighting(2), random_state=0),
    "rkhs_weighting": lambda: RKHSWeightingClassifier(
        50, instantiation="gaussian_sign", ridge="auto", random_state=0
    ),
}


def _data(n, n_classes):
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, 3))
    score = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.8 * rng.standard_normal(n)
    return X, np.digitize(score, [-0.3, 0.8][: n_classes - 1])


NEW = _data(80, 2)[0]


@pytest.mark.few
@pytest.mark.each
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("held_out", ["in folds", "once"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", MAKE)
def test_probabilities_follow_the_names(monkeypatch, name, n_classes, held_out):
    if held_out == "once":  # as of many rows
        splits = Samples.splits
        monkeypatch.setattr(
            Samples, "splits", lambda s, rng, how: splits(s, rng, replace(how, folds_below=0))
        )
    X, codes = _data(90, n_classes)
    given = MAKE[name]().fit(X, codes).predict_proba(NEW)
    order = np.roll(np.arange(n_classes), 1)
    renamed = MAKE[name]().fit(X, order[codes]).predict_proba(NEW)
    np.testing.assert_allclose(renamed[:, order], given, rtol=0, atol=1e-6)


def test_classes_are_numbered_by_where_they_are_first():
    np.testing.assert_array_equal(number_by_appearance(np.array([2, 2, 0, 1, 0])), [0, 0, 1, 2, 1])


def test_held_out_rows_of_the_command_line_do_not_go_by_names():
    import pandas as pd

    X, codes = _data(200, 3)
    frame = pd.DataFrame(X)
    parts = [
        split_rows(frame, read_target(np.array(list(names))[codes]), 0.2, 0)
        for names in ("abc", "bca")
    ]
    for one, other in zip(*parts, strict=True):
        np.testing.assert_array_equal(one, other)
