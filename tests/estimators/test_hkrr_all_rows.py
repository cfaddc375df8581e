"""The last fit of HKRR goes on from centres to all rows, where these are many."""

from functools import partial

import numpy as np
import pytest
from brief import hkrr
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import gpukfl
from gpukfl import HKRRRegressor
from gpukfl.core._results import Status
from gpukfl.estimators.hkrr import Centers, _data, _metric
from gpukfl.estimators.hkrr import _fit as _method
from gpukfl.methods import _all_rows

N, D, Q, FEW = 300, 3, 40, 8
RNG = np.random.default_rng(0)
X, NEW = RNG.standard_normal((N, D)), RNG.standard_normal((100, D))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * RNG.standard_normal(N)
WEIGHTS = RNG.uniform(0.5, 2.0, N)
BY_EVIDENCE = partial(hkrr, criterion="evidence", random_state=0)


@pytest.fixture(autouse=True)
def few_rows_are_many(monkeypatch):
    """Let some rows be so many that all of them are centres only by products."""
    for module in (_metric, _method):
        monkeypatch.setattr(module, "EXACT_ROWS", 100)
        monkeypatch.setattr(module, "FIRST_ROWS", 100)
    monkeypatch.setattr(_data, "ALL_CENTERS", 50)
    monkeypatch.setattr(_data, "REFIT_CENTERS", Q)
    monkeypatch.setattr(_metric, "REFIT_CENTERS", Q)


def theirs(model, X, y, weights=None):
    """Give scikit-learn's process at the model's hyperparameters, on its scale of X."""
    ell = model.lengthscale_ / np.diag(model.B_)
    kernel, noise = ConstantKernel(model.amplitude_[0] ** 2) * RBF(ell), model.noise_[0] ** 2
    if weights is None:
        gp = GaussianProcessRegressor(kernel + WhiteKernel(noise), alpha=0.0, optimizer=None)
    else:
        gp = GaussianProcessRegressor(kernel, alpha=noise / weights, optimizer=None)
    return gp.fit(X, y)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_the_mean_is_that_of_the_process_of_all_rows(weights):
    model = HKRRRegressor(**BY_EVIDENCE(scaling=None)).fit(X, Y, sample_weight=weights)
    assert model.centers_.shape == (N, D)
    assert model.factor_.shape == (Q, Q)
    mean = np.average(Y, weights=weights)
    w = None if weights is None else weights / weights.mean()
    expected = theirs(model, X, Y - mean, w).predict(NEW) + mean
    found = model.predict(NEW)
    inside = np.abs(found - mean) < 0.99 * model.bound_  # others are cut off
    np.testing.assert_allclose(found[inside], expected[inside], atol=0.05 * model.noise_[0])


def test_deviations_through_centres_are_hardly_below_those_of_all_rows():
    model = HKRRRegressor(**BY_EVIDENCE(scaling=None)).fit(X, Y)
    own = model.predict(NEW, return_std=True)[1]
    exact = theirs(model, X, Y - Y.mean()).predict(NEW, return_std=True)[1]
    assert (own > 0.99 * exact).all()
    assert np.median(own / exact) == pytest.approx(1.0, abs=0.02)


def test_files_hold_all_rows(tmp_path):
    model = gpukfl.fit(X, Y, method="hkrr", progress=False, **BY_EVIDENCE())
    assert model.estimator.centers_.shape == (N, D)
    model.save(tmp_path / "model.gpukfl")
    loaded = gpukfl.load(tmp_path / "model.gpukfl")
    np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))


def test_with_centres_that_are_asked_for_there_are_so_many():
    asked = BY_EVIDENCE(n_centers=Centers(refit=30))
    assert HKRRRegressor(**asked).fit(X, Y).centers_.shape == (30, D)


def test_all_rows_that_are_asked_for_are_solved_as_by_a_dense_factor(monkeypatch):
    asked = hkrr(optimizer="agop", n_centers=Centers(20, refit="all"), random_state=0)
    found = HKRRRegressor(**asked).fit(X, Y)
    monkeypatch.setattr(_data, "ALL_CENTERS", 6_000)
    dense = HKRRRegressor(**asked).fit(X, Y)
    assert found.centers_.shape == dense.centers_.shape == (N, D)
    left = np.sqrt(np.mean((dense.predict(X) - Y) ** 2))
    np.testing.assert_allclose(found.predict(NEW), dense.predict(NEW), atol=0.2 * left)


@pytest.mark.parametrize("ended", [Status.STALLED, Status.MAX_ITER])
def test_where_all_rows_are_not_solved_centres_stay(monkeypatch, ended):
    solve = _data.solve_by_products

    def stop(*given, **more):
        return _data.replace(solve(*given, **more), status=ended)

    monkeypatch.setattr(_data, "solve_by_products", stop)
    again = HKRRRegressor(**BY_EVIDENCE()).fit(X, Y)  # by a factor
    assert again.centers_.shape == (N, D)
    monkeypatch.setattr(_data, "solve_by_factor", partial(failed, ended))
    early = _data.solve_by_early_stopping
    for error, centers in ((0.0, N), (9.0, Q)):  # on rows that are held out

        def tell(*given, error=error, **more):
            return _data.replace(early(*given, **more), errors=(error,))

        monkeypatch.setattr(_data, "solve_by_early_stopping", tell)
        assert HKRRRegressor(**BY_EVIDENCE()).fit(X, Y).centers_.shape == (centers, D)


def failed(ended, kernel, X, Y, weights, /, **_):
    return _data.AllRowsSolution(0.0 * Y, ended, 12, 0.5)


@pytest.fixture
def very_many(monkeypatch):
    """Let so many rows be more than are solved for, centres too few, and many held out."""
    monkeypatch.setattr(_data, "_SOLVED_ROWS", 100)
    monkeypatch.setattr(_data, "_HELD_OUT_SHARE", 0.3)
    monkeypatch.setattr(_data, "REFIT_CENTERS", FEW)


@pytest.mark.usefixtures("very_many")
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("targets", [1, 2])
def test_very_many_rows_are_solved_until_held_out_errors_stop(capsys, weights, targets):
    y = np.stack([Y, np.cos(X[:, 1]) + Y - X[:, 1]], axis=1)[:, :targets]
    settings = BY_EVIDENCE(scaling=None)
    exact = HKRRRegressor(**settings, n_centers=Centers(refit=N)).fit(X, y, sample_weight=weights)
    found = HKRRRegressor(**settings, verbose=1).fit(X, y, sample_weight=weights)
    said = capsys.readouterr().err
    assert f"all {N} rows as centres: the validation score stopped improving" in said
    assert "times those by centres" in said
    assert found.centers_.shape == (N, D)
    changed = found.predict(NEW) - exact.predict(NEW)
    assert np.sqrt(np.mean(changed**2, axis=0)).max() < exact.noise_.max()


@pytest.mark.usefixtures("very_many")
@pytest.mark.parametrize("optimizer", ["agop", "lbfgs"])
def test_other_ways_to_a_map_go_on_to_very_many_rows(optimizer):
    asked = hkrr(optimizer=optimizer, n_centers=Centers(20, refit="all"), random_state=0)
    assert HKRRRegressor(**asked).fit(X, Y).centers_.shape == (N, D)
    with gpukfl.memory_budget(2**20):
        assert HKRRRegressor(**asked).fit(X, Y).centers_.shape == (N, D)


@pytest.mark.usefixtures("very_many")
@pytest.mark.parametrize(("at", "centers"), [(1, FEW), (12, N)])
def test_ctrl_c_in_the_last_fit_keeps_the_better_model(monkeypatch, at, centers):
    products = []

    class Watched(_all_rows.KernelOperator):
        def __matmul__(self, V):
            products.append(V)
            if len(products) == at:
                raise KeyboardInterrupt
            return super().__matmul__(V)

    monkeypatch.setattr(_all_rows, "KernelOperator", Watched)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = HKRRRegressor(**BY_EVIDENCE()).fit(X, Y)
    assert model.status_ == "INTERRUPTED"
    assert model.centers_.shape == (centers, D)
    assert np.isfinite(model.predict(NEW)).all()


def test_where_there_is_no_time_or_memory_centres_stay():
    assert _data.is_late(3.0, 1.0)
    assert not _data.is_late(5.0, 1.0)
    assert not _data.is_late(None, 1.0)
    with gpukfl.memory_budget(32 * N**2 - 1):
        assert HKRRRegressor(**BY_EVIDENCE()).fit(X, Y).centers_.shape[0] < N


def test_a_fit_says_how_the_solve_ended(capsys):
    HKRRRegressor(**BY_EVIDENCE(verbose=1)).fit(X, Y)
    assert f"all {N} rows as centres: the tolerance was reached" in capsys.readouterr().err


def test_a_fit_keeps_how_the_solve_ended(monkeypatch, tmp_path):
    model = gpukfl.fit(X, Y, method="hkrr", progress=False, **BY_EVIDENCE())
    known = model.estimator.last_fit_
    assert (known["way"], known["rows"], known["error"]) == ("products", N, None)
    assert known["products"] > 0
    assert 0 < known["residual"] < 0.1
    told = f"all {N} rows by {known['products']} products to a residual of "
    assert told in " ".join(model.summary().split())
    path = tmp_path / "model.gpukfl"
    model.save(path)
    assert gpukfl.load(path).estimator.last_fit_ == known
    del model.estimator.last_fit_  # as of an older fit
    model.save(path)
    older = gpukfl.load(path)
    assert not hasattr(older.estimator, "last_fit_")
    assert told not in " ".join(older.summary().split())

    def stall(*given, solve=_data.solve_by_products, **more):
        return _data.replace(solve(*given, **more), status=Status.STALLED)

    monkeypatch.setattr(_data, "solve_by_products", stall)
    assert HKRRRegressor(**BY_EVIDENCE()).fit(X, Y).last_fit_["way"] == "factor"
    some = HKRRRegressor(**BY_EVIDENCE(n_centers=Centers(refit=30))).fit(X, Y).last_fit_
    assert some == dict.fromkeys(known) | {"way": "centers", "rows": N, "products": 0}


@pytest.mark.usefixtures("very_many")
def test_a_fit_keeps_errors_on_rows_that_were_held_out():
    known = HKRRRegressor(**BY_EVIDENCE()).fit(X, Y).last_fit_
    assert known["way"] == "products"
    assert 0 < known["error"] < known["centers_error"] < 1


@pytest.mark.torch
def test_tensors_are_solved_alike(torch):
    own = HKRRRegressor(**BY_EVIDENCE()).fit(X, Y)
    model = HKRRRegressor(**BY_EVIDENCE()).fit(torch.asarray(X), torch.asarray(Y))
    found = model.predict(torch.asarray(NEW)).numpy()
    np.testing.assert_allclose(found, own.predict(NEW), atol=0.02 * own.noise_[0])
