"""Clusters of nearly equal rows are remarked on, and nothing else is taken for them."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_digits, load_iris, load_wine, make_blobs

import gpukfl
from gpukfl import AutoRegressor
from gpukfl.estimators import KernelRidgeRegressor
from gpukfl.tables._near_copies import has_near_copies

REMARK = "rows are nearly equal to other rows"


def clusters(count, size, d, noise, seed=0):
    rng = np.random.default_rng(seed)
    rows = np.repeat(rng.normal(size=(count, d)), size, axis=0)
    return rows + noise * rng.normal(size=rows.shape)


@pytest.mark.parametrize(
    ("count", "size", "d", "noise"),
    [
        (20, 20, 5, 0.01),
        (20, 20, 2, 0.01),
        (100, 4, 5, 0.05),
        (50, 10, 10, 0.1),
        (20, 20, 1, 1e-3),
        (2_000, 5, 4, 0.01),
        (100, 3, 30, 0.1),
    ],
)
@pytest.mark.parametrize("kind", ["array", "float32", "frame", "shuffled", "gaps"])
def test_clusters_are_noticed(count, size, d, noise, kind):
    rows = clusters(count, size, d, noise)
    if kind == "float32":
        rows = rows.astype(np.float32)
    if kind == "shuffled":
        rows = np.random.default_rng(1).permutation(rows)
    if kind == "gaps" and d > 2:
        rows[::10, 0] = np.nan
    if kind == "frame":
        rows = pd.DataFrame(rows).assign(word="a")
    assert has_near_copies(rows)


def others():
    rng = np.random.default_rng(0)
    levels = rng.integers(0, 20, 400)
    yield "iris", load_iris().data
    yield "diabetes", load_diabetes().data
    yield "wine", load_wine().data
    yield "digits", load_digits().data
    yield "blobs", make_blobs(300, random_state=0)[0]
    yield "a grid", np.stack(np.meshgrid(*2 * [np.arange(30.0)]), axis=-1).reshape(-1, 2)
    yield "integers", rng.integers(0, 50, (400, 2))
    yield "categories", np.column_stack([np.eye(20)[levels], rng.normal(size=400)])
    yield "levels alone", np.eye(20)[levels]
    yield "exact copies", np.repeat(rng.normal(size=(100, 3)), 5, axis=0)
    yield "one column", rng.uniform(size=(400, 1))
    yield "heavy tails", rng.standard_cauchy((400, 3))
    yield "skewed", np.exp(2.0 * rng.normal(size=(400, 2)))
    yield "wide", rng.normal(size=(200, 300))
    yield "many", rng.normal(size=(20_000, 6))
    yield "a time series", np.column_stack([np.sin(np.arange(400.0) / k) for k in (9, 20, 33)])
    yield "few", clusters(4, 5, 2, 0.01)
    yield "pairs", clusters(200, 2, 3, 0.01)


@pytest.mark.parametrize("rows", [pytest.param(rows, id=name) for name, rows in others()])
def test_nothing_else_is_taken_for_them(rows):
    assert not has_near_copies(rows)


def test_fits_say_once_what_to_do():
    rows = clusters(20, 20, 5, 0.01)
    y = rows[:, 0] + 0.1 * np.random.default_rng(1).normal(size=400)
    fits = [
        lambda **given: gpukfl.fit(rows, y, members=["linear"], **given),
        lambda **given: AutoRegressor(members=["linear"], random_state=0).fit(rows, y, **given),
        lambda **given: KernelRidgeRegressor(ridge=0.1).fit(rows, y, **given),
    ]
    for fit in fits:
        with pytest.warns(UserWarning, match=f"{REMARK}.*groups=") as told:
            fit()
        assert sum(REMARK in str(one.message) for one in told) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fit(groups=np.repeat(np.arange(20), 20))
