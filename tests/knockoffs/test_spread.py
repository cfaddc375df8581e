"""How far copies may be from their columns, beside closed forms and SciPy."""

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.optimize import minimize

from gpukfl.knockoffs import equicorrelated, least_reconstructable

DESIGNS = {
    "independent": np.eye(6),
    "equal": 0.5 * np.eye(6) + 0.5,
    "autoregressive": toeplitz(0.8 ** np.arange(6)),
    "blocks": np.kron(np.eye(2), 0.3 * np.eye(3) + 0.7),
    "twins": np.kron(np.diag([1.0, 0.0, 0.0]), [[0.0, 0.99], [0.99, 0.0]]) + np.eye(6),
}


@pytest.fixture(params=DESIGNS)
def correlation(request):
    return DESIGNS[request.param]


def loss(s, correlation, copies):
    D = (copies + 1) * correlation - copies * np.diag(s)
    if np.linalg.eigvalsh(D)[0] <= 0 or s.min() <= 0:
        return np.inf
    return np.trace(np.linalg.inv(D)) + copies * np.sum(1.0 / s)


@pytest.mark.pairs
@pytest.mark.parametrize("copies", [1, 2, 10])
@pytest.mark.parametrize("spread", [equicorrelated, least_reconstructable])
def test_copies_exist(correlation, copies, spread):
    s = spread(correlation, copies)
    assert s.shape == (6,)
    assert s.dtype == np.float64
    assert s.min() > 0
    assert s.max() <= (copies + 1) / copies
    whole = (copies + 1) / copies * correlation - np.diag(s)
    assert np.linalg.eigvalsh(whole)[0] >= -1e-12


@pytest.mark.parametrize("copies", [1, 2, 10])
def test_one_value_for_all_is_as_large_as_can_be(correlation, copies):
    lowest = np.linalg.eigvalsh(correlation)[0]
    expected = min((copies + 1) / copies * lowest, 1.0)
    np.testing.assert_allclose(equicorrelated(correlation, copies), expected, rtol=2e-3)


@pytest.mark.filterwarnings("ignore:The equi-correlated matrix")
def test_one_copy_has_the_spread_of_hidimstat():
    module = pytest.importorskip("hidimstat.samplers.gaussian_knockoffs")
    for correlation in DESIGNS.values():
        expected = module._s_equi(correlation)
        np.testing.assert_allclose(equicorrelated(correlation, 1), expected, rtol=2e-3)


@pytest.mark.few
@pytest.mark.parametrize("copies", [1, 10])
def test_the_trace_of_the_inverse_is_lowest(correlation, copies):
    found = least_reconstructable(correlation, copies)
    start = 0.5 * equicorrelated(correlation, copies)
    best = minimize(
        loss, start, (correlation, copies), "Nelder-Mead", options={"maxfev": 4000, "fatol": 1e-12}
    )
    assert loss(found, correlation, copies) <= best.fun * (1 + 1e-3)


def test_independent_columns_have_independent_copies():
    for copies in (1, 3):
        np.testing.assert_allclose(least_reconstructable(np.eye(4), copies), 1.0, rtol=1e-2)


def test_the_loss_is_the_trace_of_all_columns_and_copies():
    """The formula of L, against the covariance written out."""
    correlation, copies, s = DESIGNS["autoregressive"], 3, np.linspace(0.05, 0.1, 6)
    whole = np.kron(np.ones((copies + 1, copies + 1)), correlation - np.diag(s))
    whole += np.kron(np.eye(copies + 1), np.diag(s))
    expected = np.trace(np.linalg.inv(whole))
    assert loss(s, correlation, copies) == pytest.approx(expected, rel=1e-9)


def test_an_interruption_gets_out(monkeypatch):
    from gpukfl.knockoffs import _samplers as _spread

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_spread._Inverse, "gradient", interrupted)
    with pytest.raises(KeyboardInterrupt):
        least_reconstructable(DESIGNS["equal"], 1)


def test_it_is_computed_where_the_correlation_is(on):
    matrix = on.rounded(DESIGNS["autoregressive"])
    for spread in (equicorrelated, least_reconstructable):
        expected = spread(matrix, 2)
        np.testing.assert_allclose(spread(on.put(matrix, "float64"), 2), expected, rtol=1e-6)
