"""HKRR estimators: what they choose, and how they stop."""

import numpy as np
import pytest
from hkrr_cases import NEW, OPTIMIZERS, D, N, X, Y, formula, regressor, solved
from interruption import interrupt
from sklearn.exceptions import ConvergenceWarning

from gpukfl import feature_score
from gpukfl.estimators import _samples
from gpukfl.estimators._run import Run
from gpukfl.estimators.hkrr import _base as _hkrr_base
from gpukfl.estimators.hkrr import _search as _hkrr_search
from gpukfl.estimators.hkrr._problem import FINE_RIDGES, HyperKernelProblem
from gpukfl.estimators.hkrr._search import components_grid
from gpukfl.methods import HyperKernelObjective

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the best ridge of the last fit:UserWarning"),
]


# ---------------------------------------------------------------------- what is chosen


def chosen(model):
    found = [trial for trial in model.tuning_ if trial["chosen"]]
    assert len(found) == 1
    return found[0]


def test_enough_components_are_chosen():
    samples = np.random.default_rng(5).uniform(-1, 1, (200, 4))
    y = np.sin(3 * samples[:, 0]) * np.cos(3 * samples[:, 1])
    model = regressor(n_components="auto", ridge="auto", max_iter=15).fit(samples, y)
    assert model.B_.shape[0] >= 2
    assert model.feature_importances_[:2].sum() > 0.8
    assert feature_score(np.eye(4)[:, :2], model.B_.T) > 0.97
    assert model.score(samples, y) > 0.97
    trials = model.tuning_
    best = chosen(model)
    assert (best["n_components"], best["learned"]) == (model.B_.shape[0], model.learned_)
    assert model.n_iter_ <= 15
    gain = 0.005 * (1 - best["score"])
    assert all(t["score"] <= best["score"] + gain + 1e-12 for t in trials)
    assert {t["n_components"] for t in trials} <= set(components_grid(4))
    assert all(set(t) == {"n_components", "ridge", "learned", "score", "chosen"} for t in trials)


@pytest.mark.parametrize(
    ("options", "fixed"),
    [
        ({"n_components": 2, "ridge": "auto"}, "n_components"),
        ({"n_components": "auto", "ridge": 1e-4}, "ridge"),
    ],
)
def test_what_is_given_is_not_tuned(options, fixed):
    model = regressor(max_iter=3, refit_centers=None, **options).fit(X, Y)
    assert {trial[fixed] for trial in model.tuning_} == {options[fixed]}
    assert chosen(model)["ridge"] == model.ridge_
    assert chosen(model)["n_components"] == len(model.B_)
    assert regressor(max_iter=3).fit(X, Y).tuning_ == []


def test_of_noise_no_map_is_learned():
    noise = np.random.default_rng(1).standard_normal(N)
    model = regressor(n_components=D, ridge="auto", max_iter=10).fit(X, noise)
    assert max(trial["score"] for trial in model.tuning_) < 0.3
    assert not chosen(model)["learned"]
    assert (model.learned_, model.n_iter_, model.status_) == (False, 0, "CONVERGED")
    assert "the best start: optimising gained nothing" in model.describe().text
    given = regressor(n_components=D, max_iter=10).fit(X, noise)  # nothing to choose: it learns
    assert (given.learned_, given.n_iter_ > 0) == (True, True)


def test_components_to_choose_among():
    assert components_grid(1) == [1]
    assert components_grid(3) == [1, 2, 3]
    assert components_grid(25) == [1, 2, 4, 8, 16, 20, 25]
    assert components_grid(200) == [1, 2, 4, 8, 16, 20, 32, 64]


def test_one_set_is_held_out_of_many_rows(monkeypatch):
    monkeypatch.setattr(_samples, "FOLDS_BELOW", 50)
    monkeypatch.setattr(_hkrr_search, "_TUNE_ROWS", 100)
    sizes = []
    make = HyperKernelProblem.__init__

    def counting(self, settings, samples, *args, **kwargs):
        sizes.append(len(samples))
        make(self, settings, samples, *args, **kwargs)

    monkeypatch.setattr(HyperKernelProblem, "__init__", counting)
    regressor(validation_fraction=0.3, ridge="auto", max_iter=2).fit(X, Y)
    assert sizes == [N, 70]


# ---------------------------------------------------------------------- stopping


def test_max_time_stops_early():
    with pytest.warns(ConvergenceWarning, match="max_time was reached first"):
        model = regressor(n_components="auto", ridge="auto", max_time=1e-6).fit(X, Y)
    assert (model.status_, model.n_iter_) == ("TIME_LIMIT", 1)
    assert len(model.tuning_) == 1
    assert np.all(np.isfinite(model.predict(NEW)))


def test_max_iter_warns():
    with pytest.warns(ConvergenceWarning, match="after 2 iterations: max_iter was reached first"):
        regressor(max_iter=2).fit(X, Y)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("after", [6, 12])
def test_an_interrupted_fit_is_a_usable_model(monkeypatch, optimizer, after):
    names = {"lbfgs": "reduced", "varpro": "gradient_B", "agd": "gradient_B"}
    interrupt(monkeypatch, HyperKernelObjective, names[optimizer], after)
    with pytest.warns(ConvergenceWarning, match="interrupted: the best iterate so far is kept"):
        model = regressor(optimizer=optimizer, ridge=1e-4).fit(X, Y)
    assert model.status_ == "INTERRUPTED"
    assert 1 <= model.n_iter_ <= after
    np.testing.assert_allclose(model.predict(NEW), formula(model, NEW)[:, 0], atol=1e-6)
    assert model.score(X, Y) > 0.5


@pytest.mark.parametrize("after", [2, 30, 100])
def test_an_interruption_while_tuning_is_a_usable_model(monkeypatch, after):
    interrupt(monkeypatch, HyperKernelObjective, "reduced", after)
    with pytest.warns(ConvergenceWarning, match="interrupted: the best iterate so far is kept"):
        model = regressor(n_components="auto", ridge="auto").fit(X, Y)
    assert (model.status_, model.n_iter_) == ("INTERRUPTED", 0)
    assert "gained nothing" not in model.describe().text  # which was not seen
    np.testing.assert_allclose(model.predict(NEW), formula(model, NEW)[:, 0], atol=1e-6)
    assert sum(trial["chosen"] for trial in model.tuning_) == min(1, len(model.tuning_))


def test_an_interruption_of_the_last_fit_keeps_the_model_of_the_optimisation(monkeypatch):
    interrupt(monkeypatch, HyperKernelProblem, "refit", 0)
    with pytest.warns(ConvergenceWarning, match="interrupted: the best iterate so far is kept"):
        model = regressor().fit(X, Y)
    assert model.status_ == "INTERRUPTED"
    assert model.ridge_ == 1e-5
    assert model.score(X, Y) > 0.9


@pytest.mark.parametrize(
    ("name", "after"),
    [("starts", 0), ("lengthscale", 0), ("lengthscale", 3), ("learn", 0), ("centers", 0)],
)
def test_an_early_interruption_gives_a_plain_model(monkeypatch, name, after):
    interrupt(monkeypatch, HyperKernelProblem, name, after)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = regressor(n_components="auto", ridge="auto").fit(X, Y)
    assert (model.status_, model.n_iter_) == ("INTERRUPTED", 0)
    assert len(model.tuning_) == 0
    np.testing.assert_allclose(model.predict(NEW), formula(model, NEW)[:, 0], atol=1e-6)
    assert model.score(X, Y) > 0.5


def test_an_interruption_while_the_time_is_measured_is_not_lost(monkeypatch):
    def struck(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "affordable", struck)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = regressor(n_components="auto", ridge="auto", max_iter=10, n_centers="auto").fit(
            X, Y
        )
    assert (model.status_, model.n_iter_) == ("INTERRUPTED", 0)
    assert model.tuning_
    assert model.score(X, Y) > 0.5


# ---------------------------------------------------------------------- how far it goes


def test_of_few_noisy_rows_few_steps_are_taken():
    rng = np.random.default_rng(3)
    samples, new = rng.standard_normal((250, 12)), rng.standard_normal((1000, 12))
    y = np.sin(1.5 * samples[:, 0]) + samples[:, 1] + 0.5 * rng.standard_normal(250)
    expected = np.sin(1.5 * new[:, 0]) + new[:, 1]
    chosen_steps = regressor(
        n_components=12, ridge="auto", n_centers="auto", refit_centers="auto"
    ).fit(samples, y)
    to_the_end = regressor(
        n_components=12, ridge=chosen_steps.tuning_[0]["ridge"], n_centers="auto"
    ).fit(samples, y)
    assert chosen_steps.n_iter_ <= 20 < to_the_end.n_iter_
    assert chosen_steps.status_ == "CONVERGED"
    assert chosen_steps.score(new, expected) > to_the_end.score(new, expected)


def test_the_map_is_learned_on_some_rows_and_the_model_on_all(monkeypatch):
    monkeypatch.setattr(_hkrr_base, "LEARN_ROWS", 80)
    sizes = []
    learn = HyperKernelProblem.learn

    def counting(self, *args, **kwargs):
        sizes.append(self.n)
        return learn(self, *args, **kwargs)

    monkeypatch.setattr(HyperKernelProblem, "learn", counting)
    weights = np.random.default_rng(0).uniform(0.5, 1.5, len(X))
    model = regressor(refit_centers=None).fit(X, Y, sample_weight=weights)
    assert sizes == [80]
    np.testing.assert_allclose(
        model.predict(NEW), solved(model, X, Y[:, None], NEW, weights)[:, 0], atol=1e-5
    )
    assert regressor(refit_centers="all").fit(X, Y).centers_.shape[0] == N


def test_the_last_ridge_is_chosen_on_rows_held_out():
    model = regressor(n_components=2, ridge="auto", refit_centers="auto", max_iter=10).fit(X, Y)
    assert model.learned_
    assert any(np.isclose(model.ridge_, ridge) for ridge in FINE_RIDGES)


def test_warm_start_goes_on_from_the_last_map():
    model = regressor(max_iter=8, refit_centers=None, learn_lengthscale=False).fit(X, Y)
    B = model.B_
    model.set_params(warm_start=True, max_iter=0).fit(X, Y)
    sign = np.sign(np.sum(B * model.B_))
    np.testing.assert_allclose(sign * model.B_, B, atol=1e-12)
    model.set_params(n_components=3, max_iter=0).fit(X, Y)  # the same directions and short ones
    assert model.B_.shape == (3, D)
    assert feature_score(B.T, model.B_.T) > 0.99
    model.fit(X[:, :3], Y)  # of another shape: starts anew
    assert model.B_.shape == (3, 3)


def test_warm_start_on_another_library(torch):
    model = regressor(max_iter=8, refit_centers=None).fit(torch.asarray(X), torch.asarray(Y))
    B = model.B_.numpy()
    model.set_params(warm_start=True, max_iter=0).fit(X, Y)
    np.testing.assert_allclose(np.abs(model.B_), np.abs(B), atol=1e-12)


def test_verbose_prints_a_line_a_step_to_stderr(capfd):
    model = regressor(verbose=1, max_iter=4).fit(X, Y)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("fit: iteration") == err.count("objective") == model.n_iter_
    regressor(verbose=1, ridge="auto", max_iter=2).fit(X, Y)
    assert "tune 1 components, ridge 1e-" in capfd.readouterr().err
    regressor(max_iter=4).fit(X, Y)
    assert capfd.readouterr() == ("", "")
