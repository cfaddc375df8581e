"""Few rows and odd numbers: fits are the same in either precision, and warn of nothing stray."""

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

import gpukfl
from gpukfl import HKRRRegressor
from gpukfl.portfolio._folds import target_scale

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def examples(count):
    """Settings of a test that tries `count` draws, the same ones in every run."""
    return settings(
        derandomize=True,
        database=None,
        deadline=None,
        max_examples=count,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )


@given(st.integers(8, 20), st.integers(0, 10**6))
@examples(3)
@example(8, 5)
@example(8, 13)
@example(8, 31)
@example(8, 38)
@example(8, 39)
def test_collinear_rows_are_fitted_alike_in_either_precision(n, seed):
    rng = np.random.default_rng(seed)
    t = rng.normal(size=(n, 1))
    X = t @ rng.normal(size=(1, 3)) + seed % 2 * rng.normal(size=(1, 3))
    y = [np.sin(t[:, 0]), rng.normal(size=n), t[:, 0], t[:, 0] ** 2][seed % 4]
    wide, narrow = (
        HKRRRegressor(random_state=0).fit(X.astype(dtype), y.astype(dtype)).predict(X.astype(dtype))
        for dtype in ("float64", "float32")
    )
    assert narrow.dtype == "float32"
    assert np.max(np.abs(narrow - wide)) < 1e-3 * y.std()


METHODS = ("auto", "hkrr", "bkernn", "regfeal", "rkhs_weighting", "selection")


def odd_table(seed):
    """Rows, targets and weights of sizes that are rarely met."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.choice([2, 3, 5, 8, 20])), int(rng.integers(1, 4))

    def column():
        x = rng.normal(size=n)
        columns = (
            x,
            np.full(n, rng.choice([0.0, 1.0, 1e300, 1e-300, -3.0])),
            x * 10.0 ** rng.integers(-300, 150),
            rng.standard_cauchy(n) ** 3,
            np.exp(20 * x),
            (np.arange(n) == n - 1) * 1e8,
            x + 1e12,
            x * 1e140,
            5e-324 * rng.integers(0, 9, n),
        )
        return columns[rng.integers(len(columns))]

    X, y = np.stack([column() for _ in range(d)], axis=1), column()
    w = [None, np.r_[np.ones(n - 1), 1e-12], np.exp(10 * rng.normal(size=n))][rng.integers(3)]
    if rng.random() < 0.3 and np.abs(X).max() < 1e38:
        X = X.astype(np.float32)
    return X, y, w


@pytest.mark.few
@pytest.mark.parametrize("method", METHODS)
@given(st.integers(0, 10**6))
@examples(4)
def test_odd_numbers_are_fitted_or_refused_in_words(method, seed):
    """With warnings as errors: NumPy's reach no user."""
    X, y, w = odd_table(seed)
    options = {"effort": "quick"} if method == "auto" else {}
    try:
        model = gpukfl.fit(X, y, method=method, sample_weight=w, progress=False, **options)
        predicted = model.predict(X)
    except ValueError as error:
        predicted = np.zeros(0)
        assert "expected" in str(error)  # noqa: PT017
    assert np.isfinite(predicted).all()


@pytest.mark.parametrize("method", ["selection", "hkrr"])
def test_targets_beyond_the_precision_are_refused_by_the_fit(method):
    X = np.random.default_rng(0).normal(size=(8, 1)).astype("float32")
    with pytest.raises(ValueError, match="overflows float32: expected smaller targets"):
        gpukfl.fit(X, 1e300 + np.zeros(8), method=method, progress=False)


@pytest.mark.parametrize("target", [1e140, 1e300])
def test_members_that_overflow_are_left_out_of_a_blend(target):
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(40, 2)), rng.normal(size=40)
    y = target * (np.ones(40) if target > 1e150 else X[:, 0] + 0.1 * noise)
    model = gpukfl.fit(np.c_[X, X[:, 0] * target], y, effort="quick", progress=False)
    assert np.isfinite(model.predict(np.c_[X, X[:, 0] * target])).all()


@given(st.integers(-300, 300))
@examples(8)
def test_scales_of_targets_have_their_unit(power):
    Y = np.random.default_rng(0).normal(size=(9, 1))
    unit = 2.0**power
    assert target_scale(unit * Y, None) == unit * Y.std(axis=0)
