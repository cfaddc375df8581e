"""Gross outliers of the target are named, and change neither predictions nor intervals."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gpukfl
from gpukfl.estimators import BKerNNRegressor, KernelRidgeRegressor
from gpukfl.portfolio import AutoRegressor
from gpukfl.tables._target_checks import find_outliers

N, N_TEST = 300, 600
WHAT = "y has gross outliers"


def _data(seed=0, n=N + N_TEST):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, 3.0 + X[:, 0] - 2.0 * X[:, 1] + 0.5 * rng.normal(size=n)


def _spoiled(y, share, factor, sign, seed):
    rows = np.random.default_rng(seed).choice(len(y), max(round(share * len(y)), 1), replace=False)
    found = y.copy()
    found[rows] = sign * factor * (1.0 + np.abs(y[rows]))
    return found, np.sort(rows)


OUTLIERS = {
    "share": st.floats(0.005, 0.08),
    "factor": st.floats(4.0, 9.0).map(lambda power: 10.0**power),
    "sign": st.sampled_from([-1.0, 1.0]),
    "seed": st.integers(0, 99),
}


@settings(max_examples=50, deadline=None)
@given(**OUTLIERS, dtype=st.sampled_from([np.float32, np.float64]), shift=st.floats(-1e3, 1e3))
def test_exactly_the_rows_that_were_spoiled_are_found(share, factor, sign, seed, dtype, shift):
    y, rows = _spoiled(_data()[1], share, factor * 1e3, sign, seed)
    np.testing.assert_array_equal(np.flatnonzero(find_outliers((y + shift).astype(dtype))), rows)
    both = np.stack([_data()[1], y], axis=1)
    np.testing.assert_array_equal(np.flatnonzero(find_outliers(both)), rows)


@settings(max_examples=1, deadline=None)
@given(**OUTLIERS)
@example(share=0.02, factor=1e4, sign=1.0, seed=0)
def test_a_blend_predicts_clean_rows_and_covers_them(share, factor, sign, seed):
    X, y = _data()
    spoiled, rows = _spoiled(y[:N], share, factor, sign, seed)
    kept = np.setdiff1d(np.arange(N), rows)
    options = {"members": ["linear", "matern52"], "effort": "quick"}
    with pytest.warns(UserWarning, match=f"{WHAT}: {len(rows)} of {N} rows.*Rows {rows[0]}"):
        model = gpukfl.fit(X[:N], spoiled, **options)
    clean = gpukfl.fit(X[:N][kept], y[:N][kept], **options)
    np.testing.assert_array_equal(model.predict(X[N:]), clean.predict(X[N:]))
    assert model.score(X[N:], y[N:]) > 0.9
    for coverage in (0.5, 0.9):
        low, high = model.predict_interval(X[N:], coverage=coverage).T
        error = np.sqrt(coverage * (1 - coverage) * (1 / N + 1 / N_TEST))
        assert abs(np.mean((low <= y[N:]) & (y[N:] <= high)) - coverage) < 4 * error
    below = y[N:, None] <= model.predict_quantiles(X[N:], levels=[0.25, 0.75])
    assert np.abs(below.mean(axis=0) - [0.25, 0.75]).max() < 0.12


@pytest.mark.each
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(
    "estimator",
    [BKerNNRegressor(random_state=0, ridge=0.1), AutoRegressor(["linear"], random_state=0)],
    ids=lambda e: type(e).__name__,
)
def test_estimators_warn_and_leave_them_out(estimator, several, weighted):
    X, y = _data(1, 100)
    spoiled, rows = _spoiled(y, 0.03, 1e5, 1.0, 2)
    if several:
        y, spoiled = np.stack([y, y], axis=1), np.stack([y, spoiled], axis=1)
    kept = np.setdiff1d(np.arange(100), rows)
    w = np.linspace(1.0, 2.0, 100) if weighted else None
    with pytest.warns(UserWarning, match="has gross outliers: 3 of 100 rows"):
        found = estimator.fit(X, spoiled, sample_weight=w).predict(X)
    wanted = estimator.fit(X[kept], y[kept], sample_weight=w[kept] if weighted else None)
    np.testing.assert_array_equal(found, wanted.predict(X))


def test_rows_are_named_by_their_labels_also_beside_rows_without_a_target():
    X, y = _data(2, 100)
    frame = pd.DataFrame(X, columns=list("abc"), index=[f"row {k}" for k in range(100)])
    frame["y"] = y
    frame.loc["row 3", "y"], frame.loc["row 70", "y"] = np.nan, 9_999_999.0
    missing = pytest.warns(UserWarning, match="y is missing in 1 of 100 rows")
    with missing, pytest.warns(UserWarning, match="Rows row 70 are dropped"):
        model = gpukfl.fit(frame, "y", members=["linear"], effort="quick")
    assert model.n_samples == 98


def test_the_way_to_keep_them_keeps_them():
    y = _data(3, 200)[1]
    spoiled, _ = _spoiled(y, 0.02, 1e4, 1.0, 0)
    unit = np.median(np.abs(y - np.median(y)))
    assert find_outliers(spoiled).sum() == 4
    assert not find_outliers(np.arcsinh(spoiled / unit)).any()


def test_a_memory_map_gives_them_weight_0(tmp_path):
    X, y = _data(4, 100)
    np.save(tmp_path / "X.npy", X)
    there = np.load(tmp_path / "X.npy", mmap_mode="r")
    spoiled, rows = _spoiled(y, 0.03, 1e5, 1.0, 2)
    estimator = BKerNNRegressor(random_state=0, ridge=0.1)
    with pytest.warns(UserWarning, match=WHAT):
        found = estimator.fit(there, spoiled).predict(X)
    weights = np.ones(100)
    weights[rows] = 0.0
    np.testing.assert_array_equal(found, estimator.fit(there, y, sample_weight=weights).predict(X))


def test_partitions_leave_them_out_too():
    dd = pytest.importorskip("dask.dataframe")
    X, y = _data(5, 200)
    frame = pd.DataFrame(X, columns=list("abc"))
    frame["y"], rows = _spoiled(y, 0.02, 1e5, 1.0, 2)
    with pytest.warns(UserWarning, match=f"{WHAT}: {len(rows)} of 200"):
        model = gpukfl.fit(dd.from_pandas(frame, 4), "y", members=["linear"], effort="quick")
    assert model.n_samples == 196
    assert model.score(frame[["a", "b", "c"]].drop(rows), y[np.setdiff1d(range(200), rows)]) > 0.9


@pytest.mark.few
@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize(
    "estimator",
    [
        KernelRidgeRegressor(n_centers=40, random_state=0),
        AutoRegressor(["laplace"], n_folds=2, random_state=0),
    ],
)
def test_estimators_leave_them_out_of_partitions(estimator, few, monkeypatch):
    dd = pytest.importorskip("dask.dataframe")
    if not few:  # rows stay where they are
        for module in ("estimators._dask", "tables._training", "portfolio._base"):
            monkeypatch.setattr(f"gpukfl.{module}.SAMPLE", 150)
            if module != "estimators._dask":
                monkeypatch.setattr(f"gpukfl.{module}.FEWEST", 150)
    X, y = _data(6, 200)
    spoiled, rows = _spoiled(y, 0.03, 1e5, 1.0, 2)
    frame = pd.DataFrame(X, columns=list("abc"), index=np.arange(1_000, 1_200))
    parts = dd.from_pandas(frame.assign(y=spoiled), 4)
    with pytest.warns(UserWarning, match=WHAT) as caught:
        found = estimator.fit(parts[list("abc")], parts["y"]).predict(frame)
    said = [str(one.message) for one in caught if WHAT in str(one.message)]
    assert len(said) == 1
    assert f"{len(rows)} of 200 rows" in said[0] if few else "of 150 rows" in said[0]
    labels = said[0].split("Rows ")[1].split(" are dropped")[0].removesuffix(", ...").split(", ")
    assert {*map(int, labels)} <= {*rows}
    kept = dd.from_pandas(frame.assign(y=y).drop(index=rows + 1_000), 4)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", WHAT)
        expected = estimator.fit(kept[list("abc")], kept["y"]).predict(frame)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-6 if few else 1.0)


TAILS = {
    "lognormal": lambda rng, n: np.exp(2.0 * rng.normal(size=n)),
    "Pareto of index 1.5": lambda rng, n: rng.pareto(1.5, n),
    "counts, mostly 0": lambda rng, n: rng.poisson(0.05, n).astype(float),
    "amounts, mostly 0": lambda rng, n: (rng.random(n) < 0.1) * np.exp(rng.normal(size=n)),
    "a constant and few others": lambda rng, n: 1e6 * (rng.random(n) < 0.03),
    "a constant but for rounding": lambda rng, n: (
        1.0 + 1e-13 * rng.normal(size=n) + (rng.random(n) < 0.02)
    ),
    "Student's t of 2": lambda rng, n: rng.standard_t(2, n),
    "two groups": lambda rng, n: rng.normal(size=n) + 200.0 * (rng.random(n) < 0.05),
}


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("n", [25, 400, 20_000])
def test_heavy_tails_are_no_outliers(tail, n):
    for seed in range(5):
        assert not find_outliers(TAILS[tail](np.random.default_rng(seed), n)).any()


def test_classes_are_no_outliers():
    X, y = _data(6, 100)
    labels = np.where(y > 3.0, 1, 0)
    labels[:20] = 10**9
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gpukfl.fit(X, labels, task="classification", members=["linear"], effort="quick")
