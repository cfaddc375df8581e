"""HKRR estimators: what they choose, and how they stop."""

import warnings

import numpy as np
import pytest
from brief import hkrr
from hkrr_cases import NEW, OPTIMIZERS, TWO, D, N, X, Y, formula, regressor, solved
from interruption import interrupt
from sklearn.exceptions import ConvergenceWarning

from gpukfl import HKRRRegressor, feature_score
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Splits
from gpukfl.estimators._search import Trial
from gpukfl.estimators.hkrr import _fit as _search
from gpukfl.estimators.hkrr._data import FINE_RIDGES, HyperKernelProblem
from gpukfl.estimators.hkrr._fit import (
    HKRR,
    HyperKernelSetting,
    HyperKernelTuner,
    n_components_grid,
)
from gpukfl.kernels import median_distance
from gpukfl.methods import ExactCriterion, HyperKernelObjective, resized_map

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
    assert {t["n_components"] for t in trials} <= set(n_components_grid(4))
    names = {"n_components", "ridge", "learned", "score", "standard_error", "seconds", "chosen"}
    assert all(set(t) == names for t in trials)


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


@pytest.mark.parametrize(("gain", "learned"), [(0.05, False), (0.2, True), (-0.2, False)])
def test_a_map_is_optimised_where_that_gains_more_than_a_standard_error(gain, learned):
    gains = np.random.default_rng(0).standard_normal(100)  # the mean's error is a tenth
    gains += gain - gains.mean()
    start, optimised = (
        Trial(HyperKernelSetting(1, 1e-3, steps), 1.0 - losses.mean() / 10, [None], losses)
        for steps, losses in ((0, np.full(100, 9.0)), (10, 9.0 - gains))
    )
    tuner = HyperKernelTuner(None, [], [None])
    assert tuner.choose([start, optimised]) is (optimised if learned else start)


def test_components_to_choose_among():
    assert n_components_grid(1) == [1]
    assert n_components_grid(3) == [1, 2, 3]
    assert n_components_grid(25) == [1, 2, 4, 8, 16, 20, 25]
    assert n_components_grid(200) == [1, 2, 4, 8, 16, 20, 32, 64]


def test_one_set_is_held_out_of_many_rows(monkeypatch):
    monkeypatch.setattr(HKRR, "splits", Splits(at_most=100, folds_below=50))
    sizes = []
    make = HyperKernelProblem.__init__

    def counting(self, settings, samples, *args, **kwargs):
        sizes.append(len(samples))
        make(self, settings, samples, *args, **kwargs)

    monkeypatch.setattr(HyperKernelProblem, "__init__", counting)
    regressor(ridge="auto", max_iter=2).fit(X, Y)
    assert sizes == [N, 80]


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


@pytest.mark.few
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("after", [6, 12])
def test_an_interrupted_fit_is_a_usable_model(monkeypatch, optimizer, after):
    names = {"lbfgs": "reduce", "varpro": "gradient_B", "agd": "gradient_B"}
    interrupt(monkeypatch, HyperKernelObjective, names[optimizer], after)
    with pytest.warns(ConvergenceWarning, match="interrupted: the best iterate so far is kept"):
        model = regressor(optimizer=optimizer, ridge=1e-4).fit(X, Y)
    assert model.status_ == "INTERRUPTED"
    assert 1 <= model.n_iter_ <= after
    np.testing.assert_allclose(model.predict(NEW), formula(model, NEW)[:, 0], atol=1e-6)
    assert model.score(X, Y) > 0.5


@pytest.mark.parametrize("after", [2, 30, 60])
def test_an_interruption_while_tuning_is_a_usable_model(monkeypatch, after):
    interrupt(monkeypatch, HyperKernelObjective, "reduce", after)
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
        model = regressor(n_components="auto", ridge="auto", n_starts=2).fit(X, Y)
    assert (model.status_, model.n_iter_) == ("INTERRUPTED", 0)
    assert len(model.tuning_) == 0
    np.testing.assert_allclose(model.predict(NEW), formula(model, NEW)[:, 0], atol=1e-6)
    assert model.score(X, Y) > 0.5


@pytest.mark.parametrize("share", [0.1, 0.6, 1.0])  # in the first fold, another, the last fit
def test_an_interruption_while_the_first_map_is_sought_is_passed_on(monkeypatch, share):
    y = TWO + 0.1 * np.random.default_rng(1).standard_normal(N)  # the evidence's map is kept
    model = regressor(n_components=D, ridge="auto", max_iter=10)
    with monkeypatch.context() as counted:
        calls = interrupt(counted, ExactCriterion, "__call__", 10**9)
        assert model.fit(X, y).status_ == "CONVERGED"
    interrupt(monkeypatch, ExactCriterion, "__call__", int(share * calls[0]) - 2)
    with pytest.warns(ConvergenceWarning, match="interrupted: the best iterate so far is kept"):
        model.fit(X, y)
    assert (model.status_, model.n_iter_, model.learned_) == ("INTERRUPTED", 0, False)
    assert bool(model.tuning_) == (share == 1.0)
    np.testing.assert_allclose(model.predict(NEW), formula(model, NEW)[:, 0], atol=1e-6)


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


@pytest.mark.parametrize("behind", [False, True])
def test_gradients_are_the_start_unless_another_is_better_beyond_chance(monkeypatch, behind):
    known = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.0]])[:, :D]
    monkeypatch.setattr(HyperKernelProblem, "_average_gradients", lambda *_: known)
    monkeypatch.setattr(_search, "is_clearly_worse", lambda *_: behind)
    options = {"n_components": 2, "ridge": 1e-3, "max_iter": 0, "refit_centers": None}
    options |= {"lengthscale": 1.0}  # which the evidence would learn
    model = regressor(n_starts=2, scaling=None, **options).fit(X[:, :3], Y)
    assert np.array_equal(model.B_, known) != behind


def test_the_order_of_the_columns_does_not_choose_the_axes(monkeypatch):
    """A map of fewer rows is cut from all features by gradients, not from the first of them."""
    kept = []
    for order in (np.arange(D), np.arange(D)[::-1]):
        monkeypatch.setattr(_search, "is_clearly_worse", lambda *_: True)  # the last that is tried
        model = regressor(n_components=D, n_starts=0, ridge=1e-3, max_iter=0, refit_centers=None)
        B = model.fit(X[:, order], Y).B_[:, np.argsort(order)]
        kept.append(np.abs(resized_map(B, 1, rng=None)))
    # Of a fit that hardly has a ridge: rounding differs with the order, and with the processor
    np.testing.assert_allclose(kept[0], kept[1], atol=1e-4)
    assert kept[0].max() < 0.999


@pytest.mark.slow
def test_of_few_noisy_rows_few_steps_are_taken():
    scores, steps = [], []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        samples, new = rng.standard_normal((250, 12)), rng.standard_normal((1000, 12))
        y = np.sin(1.5 * samples[:, 0]) + samples[:, 1] + 0.5 * rng.standard_normal(250)
        expected = np.sin(1.5 * new[:, 0]) + new[:, 1]
        options = {"n_components": 12, "max_iter": 100}
        chosen_steps = regressor(ridge="auto", **options).fit(samples, y)
        ridge = chosen_steps.tuning_[0]["ridge"]
        to_the_end = regressor(ridge=ridge, **options).fit(samples, y)
        assert chosen_steps.status_ == "CONVERGED"
        scores.append([model.score(new, expected) for model in (chosen_steps, to_the_end)])
        steps.append([model.n_iter_ for model in (chosen_steps, to_the_end)])
    (few, many), (good, worse) = np.transpose(steps), np.mean(scores, axis=0)
    assert np.all(few < many)
    assert good > worse - 0.02


def test_the_map_is_learned_on_some_rows_and_the_model_on_all(monkeypatch):
    monkeypatch.setattr(_search, "LEARN_ROWS", 80)
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


def test_the_last_ridge_and_lengthscale_are_those_of_rows_held_out(monkeypatch):
    ridges, learned = np.array(FINE_RIDGES), []

    def errors(problem, at, stretch, held_out):
        return (1.0 + np.log10(ridges / 1e-4) ** 2 + 10 * abs(np.log(stretch / 0.7))).tolist()

    def refit(problem, model, *args):
        learned.append(model.lengthscale)
        return last(problem, model, *args)

    last = HyperKernelProblem.refit
    monkeypatch.setattr(HyperKernelProblem, "errors_outside", errors)
    monkeypatch.setattr(HyperKernelProblem, "refit", refit)
    turned = np.sin(X @ [1.0, -1.0, 1.0, -1.0, 1.0])  # along no feature
    model = regressor(n_components=1, n_starts=0, ridge="auto", max_iter=10).fit(X, turned)
    assert model.learned_
    assert model.ridge_ == pytest.approx(1e-4)
    assert model.lengthscale_ == pytest.approx(0.7 * learned[0])
    given = regressor(max_iter=10).fit(X, Y)  # no search: samples are left out one by one
    assert given.ridge_ != pytest.approx(1e-4)


def test_warm_start_goes_on_from_the_last_map():
    model = regressor(max_iter=8, refit_centers=None).fit(X, Y)
    B = model.B_
    model.set_params(**hkrr(warm_start=True, max_iter=0)).fit(X, Y)
    sign = np.sign(np.sum(B * model.B_))
    np.testing.assert_allclose(sign * model.B_, B, atol=1e-12)
    model.set_params(n_components=3).fit(X, Y)  # the same directions and short ones
    assert model.B_.shape == (3, D)
    assert feature_score(B.T, model.B_.T) > 0.99
    model.fit(X[:, :3], Y)  # of another shape: starts anew
    assert model.B_.shape == (3, 3)


def test_warm_start_on_another_library(torch):
    model = regressor(max_iter=8, refit_centers=None).fit(torch.asarray(X), torch.asarray(Y))
    B = model.B_.numpy()
    model.set_params(**hkrr(warm_start=True, max_iter=0)).fit(X, Y)
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


@pytest.mark.each
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", [1, 2, 11])
def test_lengthscales_are_not_those_by_which_distances_are_rounding(dtype, seed):
    """Of noise and values next to each other: some 1e-8 were learned, with which files differ."""
    rng = np.random.default_rng(seed)
    groups = np.eye(3)[rng.integers(0, 3, 30)]
    X = np.column_stack([rng.exponential(size=30) ** 6, groups]).astype(dtype)
    y, weights = rng.standard_normal(30), rng.choice([0.0, 1.0, 2.0], 30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the edge of ridges: there is nothing to learn
        model = HKRRRegressor(random_state=0).fit(X, y, sample_weight=weights)
    most = min(1e4, 0.1 / np.sqrt(np.finfo(dtype).eps))
    # The last fit tries half of what was learned, of fewer centres
    assert model.lengthscale_ >= 0.3 * median_distance(model.centers_) / most
