"""HKRR by gradient outer products: fits, choices, reports, and bad input."""

import functools
import itertools
import pickle

import numpy as np
import pytest
from hkrr_cases import LABELS, NEW, RNG, TWO, Y2, Y_NEW, N, X, Y
from sklearn.base import clone

import gpukfl
from gpukfl import HKRRClassifier, HKRRRegressor
from gpukfl.core._results import Status
from gpukfl.estimators.hkrr import Centers
from gpukfl.estimators.hkrr import _data as _problem
from gpukfl.estimators.hkrr import _fit as search
from gpukfl.estimators.hkrr._data import HyperKernelProblem
from gpukfl.kernels import Gaussian, Laplace, PowerExponential
from gpukfl.methods import AverageGradientOuterProduct

pytestmark = pytest.mark.filterwarnings("ignore:the best ridge of the last fit:UserWarning")
FULL = AverageGradientOuterProduct(structure="full")


def regressor(**options):
    return HKRRRegressor(**{"optimizer": "agop", "random_state": 0, **options})


def formula(model, new):
    """Predictions from the fitted attributes, by the kernel's own values."""
    B = np.asarray(model.B_, dtype=np.float64)
    K = model.kernel_(new @ B.T, model.centers_ @ B.T)
    return model.intercept_ + np.clip(K @ model.dual_coef_, -model.bound_, model.bound_)


def test_it_finds_the_features():
    model = regressor(scaling=None).fit(X, Y)
    assert model.score(NEW, Y_NEW) > 0.9
    assert model.learned_
    assert set(np.argsort(model.feature_importances_)[-2:]) == {0, 1}
    assert model.kernel_ == PowerExponential(model.lengthscale_, order=1.5)
    assert model.B_.shape == (5, 5)
    assert np.linalg.norm(model.B_, 2) == pytest.approx(1.0)
    np.testing.assert_allclose(model.predict(NEW), formula(model, NEW)[:, 0], atol=1e-10)


def test_a_full_map_finds_the_direction():
    model = regressor(optimizer=FULL, kernel="matern52", scaling=None).fit(X, Y)
    assert model.score(NEW, Y_NEW) > 0.97
    assert abs(model.components_[0] @ [0.8, -0.6, 0, 0, 0]) > 0.98


def test_it_beats_the_kernel_without_a_map():
    y = TWO + 0.05 * RNG.standard_normal(N)
    new = NEW[:, 0] * NEW[:, 1]
    without = regressor(optimizer=AverageGradientOuterProduct(max_iter=0)).fit(X, y)
    assert not without.learned_
    assert np.array_equal(without.B_, np.eye(5))
    assert regressor().fit(X, y).score(NEW, new) > without.score(NEW, new) + 0.05


@pytest.mark.parametrize("kernel", ["laplace", "manhattan_laplace", Gaussian(2.0)])
def test_the_lengthscale_is_chosen_by_left_out_rows(kernel):
    model = regressor(kernel=kernel).fit(X, Y)
    scores = [trial["score"] for trial in model.tuning_]
    chosen = [trial for trial in model.tuning_ if trial["chosen"]]
    assert len(scores) > 1
    assert [trial["score"] for trial in chosen] == [max(scores)]
    assert chosen[0]["ridge"] == model.ridge_
    assert model.score(NEW, Y_NEW) > 0.8


def test_what_is_given_is_kept():
    model = regressor(kernel="laplace", lengthscale=1.7, ridge=3e-3, n_components=2).fit(X, Y)
    assert model.lengthscale_ == 1.7
    assert model.kernel_ == Laplace(1.7)
    assert model.ridge_ == 3e-3
    assert model.B_.shape == (2, 5)
    assert len(model.tuning_) == 1


def test_the_history_is_of_left_out_errors():
    model = regressor().fit(X, Y)
    assert model.n_iter_ == len(model.history_) <= 4
    assert model.status_ in ("DECIDED", "EARLY_STOPPED")
    lowest, (trial,) = min(model.history_.objective), model.tuning_
    # Predictions are truncated, and of ridges at the edge a larger one is taken
    assert trial["score"] == pytest.approx(1.0 - lowest, abs=1e-3)
    assert model.history_.step[0] == 0.0 < min(model.history_.step[1:])


def test_several_targets_share_the_map():
    model = regressor().fit(X, Y2)
    assert model.predict(NEW).shape == (len(NEW), 2)
    assert model.dual_coef_.shape == (N, 2)
    assert set(np.argsort(model.feature_importances_)[-2:]) == {0, 1}
    copies = regressor().fit(X, np.stack([Y, Y], axis=1))
    alone = regressor().fit(X, Y)
    np.testing.assert_allclose(copies.predict(NEW)[:, 0], alone.predict(NEW), atol=1e-8)


def test_classes():
    model = HKRRClassifier(optimizer="agop", random_state=0).fit(X, LABELS)
    assert model.score(X, LABELS) > 0.9
    shares = model.predict_proba(NEW)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    two = HKRRClassifier(optimizer="agop", random_state=0).fit(X, X[:, 0] > 0)
    assert two.score(NEW, NEW[:, 0] > 0) > 0.9


def test_integer_weights_are_repeated_rows():
    counts = np.random.default_rng(1).integers(0, 4, N)
    weighted = regressor().fit(X, Y, sample_weight=counts)
    repeated = regressor().fit(np.repeat(X, counts, axis=0), np.repeat(Y, counts))
    np.testing.assert_allclose(weighted.B_, repeated.B_, atol=1e-8)
    np.testing.assert_allclose(weighted.predict(NEW), repeated.predict(NEW), atol=1e-6)


def test_units_change_nothing():
    plain = regressor().fit(X, Y).predict(NEW)
    scaled = regressor().fit(1e3 * X, 5.0 - 1e-3 * Y).predict(1e3 * NEW)
    np.testing.assert_allclose(1e3 * (5.0 - scaled), plain, atol=1e-7)


def test_every_place_finds_the_same_function(on):
    placed = [on.put(on.rounded(V)) for V in (X, Y, NEW)]
    expected = regressor().fit(on.rounded(X), on.rounded(Y)).predict(on.rounded(NEW))
    model = regressor().fit(*placed[:2])
    on.assert_lives_here(model.B_)
    tolerance = 1e-8 if on.dtype_name == "float64" else 5e-4
    np.testing.assert_allclose(on.host(model.predict(placed[2])), expected, atol=tolerance)


@pytest.mark.parametrize(
    ("centers", "count"),
    [(40, N), (Centers(40, refit=None), 40), (Centers(40, refit=60), 60), (Centers(refit=50), 50)],
)
def test_centers(centers, count):
    model = regressor(n_centers=centers).fit(X, Y)
    assert model.centers_.shape == (count, 5)
    assert model.score(NEW, Y_NEW) > 0.75


def test_many_rows_take_centers(monkeypatch):
    monkeypatch.setattr(search, "_ALL_GRADIENT_CENTERS", 50)
    monkeypatch.setattr(search, "LEARN_ROWS", 100)
    model = regressor(n_centers=Centers(30, refit=80)).fit(X, Y)
    assert model.centers_.shape == (80, 5)
    assert model.score(NEW, Y_NEW) > 0.7
    kept = regressor(n_centers=Centers(30, refit=None)).fit(X, Y)
    assert kept.centers_.shape == (30, 5)


def test_the_time_is_kept():
    model = regressor(max_time=1e-6)
    with pytest.warns(match="max_time was reached first"):
        model.fit(X, Y)
    assert model.status_ == "TIME_LIMIT"
    assert model.n_iter_ == 1


@pytest.mark.parametrize("after", [0, 1, 3])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_interruption_keeps_a_model(monkeypatch, after):
    count, told = itertools.count(), search.fit_gradient_maps

    def interrupted(problem, optimizer, **options):
        def watch(k, B, history):
            if next(count) == after:
                raise KeyboardInterrupt
            return options["watch"](k, B, history)

        return told(problem, optimizer, **{**options, "watch": watch})

    monkeypatch.setattr(search, "fit_gradient_maps", interrupted)
    model = regressor(kernel="laplace").fit(X, Y)
    assert model.status_ == Status.INTERRUPTED.name
    assert np.all(np.isfinite(model.predict(NEW)))


@pytest.mark.filterwarnings("ignore:y is constant")
def test_constants_and_few_rows():
    constant = regressor().fit(X, np.full(N, 3.0))
    np.testing.assert_allclose(constant.predict(NEW), 3.0)
    assert not constant.learned_
    few = regressor().fit(X[:6], Y[:6])
    assert np.all(np.isfinite(few.predict(NEW)))
    assert few.tuning_ == []


def test_models_are_kept(tmp_path):
    model = gpukfl.fit(X, Y, method="hkrr", optimizer=FULL, kernel="laplace", random_state=0)
    model.save(tmp_path / "model.gpukfl")
    again = gpukfl.load(tmp_path / "model.gpukfl")
    assert np.array_equal(again.predict(NEW), model.predict(NEW))
    assert "Laplace kernel of 5 components" in model.summary()
    estimator = pickle.loads(pickle.dumps(regressor(optimizer=FULL, kernel="laplace").fit(X, Y)))
    assert clone(estimator).optimizer == FULL


def test_kernels_of_other_norms_are_not_turned():
    with pytest.raises(
        ValueError, match="expected structure 'diagonal' for a kernel that does not"
    ):
        regressor(optimizer=FULL, kernel="manhattan_laplace").fit(X, Y)


def test_full_maps_have_a_kernel_that_turns():
    model = regressor(optimizer=FULL, scaling=None).fit(X, Y)
    assert model.kernel_ == PowerExponential(model.lengthscale_, order=2.0, exponent=1.4)
    assert abs(model.components_[0] @ [0.8, -0.6, 0, 0, 0]) > 0.98
    np.testing.assert_allclose(model.predict(NEW), formula(model, NEW)[:, 0], atol=1e-10)


def test_gradients_of_a_sharp_fit_find_what_oscillates():
    """The ridge that predicts best is so large here that its fit and its gradients are flat."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((800, 8))
    truth = np.cos(3.0 * (X[:, 0] - X[:, 1] + X[:, 2]) / 3**0.5)
    y = truth + 0.5 * rng.standard_normal(800)

    def score(noise):
        how = AverageGradientOuterProduct(5, structure="full", noise=noise)
        model = regressor(optimizer=how).fit(X[:300], y[:300])
        return 1.0 - np.var(truth[300:] - model.predict(X[300:])) / np.var(truth[300:])

    assert score(0.1) > 0.7
    assert score(1e9) < 0.5


def test_unknown_optimizers_are_named():
    with pytest.raises(ValueError, match="'lbfgs', 'varpro', 'agd', 'agop', got 'rfm'"):
        regressor(optimizer="rfm").fit(X, Y)


def test_of_many_rows_the_map_of_another_fit_is_kept(monkeypatch):
    monkeypatch.setattr("gpukfl.estimators.hkrr._estimator.KEPT_ROWS", 100)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    y = np.sin(2.0 * X[:, 0])
    make = functools.partial(gpukfl.HKRRRegressor, optimizer="agop", scaling=None, random_state=0)
    first, second, alone = make(), make(), make()
    precedent = first.fit_like(X[:200], y[:200], None, None)
    second.fit_like(X[100:], y[100:], None, precedent)
    alone.fit(X[100:], y[100:])
    np.testing.assert_allclose(second.B_, first.B_, rtol=1e-12)
    assert second.learned_
    assert len(second.history_) == 1 < len(alone.history_)
    assert second.score(X[:100], y[:100]) == pytest.approx(alone.score(X[:100], y[:100]), abs=0.02)


def test_of_few_rows_as_many_maps_are_learned_as_another_fit_kept():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(300)
    make = functools.partial(gpukfl.HKRRRegressor, optimizer="agop", scaling=None, random_state=0)
    first, second, same, alone = make(), make(), make(), make()
    precedent = first.fit_like(X[:200], y[:200], None, None)
    second.fit_like(X[100:], y[100:], None, precedent)
    same.fit_like(X[:200], y[:200], None, precedent)
    alone.fit(X[100:], y[100:])
    np.testing.assert_array_equal(same.B_, first.B_)
    assert second.learned_
    assert len(second.history_) == 1 < len(alone.history_)
    assert np.max(np.abs(second.B_ - first.B_)) > 1e-4  # the map is its own
    np.testing.assert_allclose(second.B_, alone.B_, atol=0.1)


@pytest.mark.parametrize("optimizer", ["agop", "lbfgs"])
def test_of_many_rows_lengthscale_and_ridge_of_another_last_fit_are_kept(optimizer, monkeypatch):
    monkeypatch.setattr("gpukfl.estimators.hkrr._estimator.KEPT_ROWS", 100)
    chosen, left_out = [], HyperKernelProblem.refit

    def refit(problem, model, n_centers, tuned, left):
        chosen.append(tuned)
        return left_out(problem, model, n_centers, tuned, left)

    monkeypatch.setattr(HyperKernelProblem, "refit", refit)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 4))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(500)
    make = functools.partial(
        HKRRRegressor,
        optimizer=optimizer,
        random_state=0,
        n_centers=Centers(40, 60),
    )
    first, second, more = make(), make(), make()
    precedent = first.fit_like(X[:200], y[:200], None, None)
    second.fit_like(X[100:300], y[100:300], None, precedent)
    more.fit_like(X, y, None, precedent)
    assert chosen[-2].n_samples == 200
    assert second.ridge_ == first.ridge_
    assert chosen[-1] is None or chosen[-1].n_samples == 500  # too many for a ridge of 200


def test_last_lengthscale_and_ridge_are_chosen_on_some_of_many_rows(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=300)
    seen, left_out_path = [], _problem.leave_one_out_path

    def watched(system, *given):
        seen.append(system.operator.shape[0])
        return left_out_path(system, *given)

    monkeypatch.setattr(_problem, "leave_one_out_path", watched)
    monkeypatch.setattr(_problem, "_STRETCH_ROWS", 100)
    monkeypatch.setattr(_problem, "_PATH_ROWS", 200)
    centers = Centers(fit=40, refit=60)
    model = HKRRRegressor(optimizer="agop", n_centers=centers, random_state=0).fit(X, y)
    assert seen == [100] * 4 + [200]
    assert model.score(X, y) > 0.9
