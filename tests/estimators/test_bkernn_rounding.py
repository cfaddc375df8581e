"""Fits of BKerNN differ by rounding where their data do, and their constants are the paper's."""

import numpy as np
import pytest

from gpukfl.estimators import BKerNNRegressor

_TIMES_ROUNDING = 1.0 + 1e-13
_ALIKE = 1e-6  # standard deviations of the target


def _drawn(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 8))
    y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)
    return X, y


@pytest.mark.few
@pytest.mark.parametrize("n", [60, 260, 600])
def test_rounding_of_the_data_stays_rounding(n):
    X, y = _drawn(n)
    one, other = (
        BKerNNRegressor(random_state=0).fit(given, y).predict(X)
        for given in (X, _TIMES_ROUNDING * X)
    )
    assert np.abs(one - other).max() <= _ALIKE * y.std()


def test_torch_and_numpy_fit_the_same(torch):
    X, y = _drawn(600)
    one = BKerNNRegressor(random_state=0).fit(X, y).predict(X)
    other = BKerNNRegressor(random_state=0).fit(torch.asarray(X), torch.asarray(y))
    assert np.abs(one - np.asarray(other.predict(torch.asarray(X)))).max() <= _ALIKE * y.std()


def test_the_constant_of_the_paper_is_the_intercept_and_the_shape_functions_at_zero():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 3)) + 0.5
    y = np.sin(X[:, 0]) + 2.0
    model = BKerNNRegressor(random_state=0, scaling=None).fit(X, y)
    A = X @ model.W_
    sizes = np.abs(A)
    apart = np.abs(A[:, None, :] - A[None, :, :])
    K = ((sizes[:, None, :] + sizes[None, :, :] - apart) / 2.0).mean(axis=2)  # equation (8)
    at_zero = model.shape_functions_.mean(np.zeros((A.shape[1], 1)))
    c = model.intercept_ + np.ravel(at_zero)
    np.testing.assert_allclose(np.ravel(K @ model.dual_coef_) + c, model.predict(X), atol=1e-8)
