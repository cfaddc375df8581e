"""RegFeaL estimators: what is chosen on held-out rows, retraining, time limits, interruptions."""

import warnings

import numpy as np
import pytest
from fit_cases import Clock
from interruption import interrupt
from regfeal_cases import (
    DIRECTIONS,
    NEW,
    THREE,
    Y2,
    Y_NEW,
    D,
    N,
    X,
    Y,
    classifier,
    regressor,
)
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

from gpukfl import KernelRidgeRegressor, RegFeaLRegressor, feature_score
from gpukfl.core._results import Status
from gpukfl.estimators._samples import Samples, Splits
from gpukfl.estimators._search import Search
from gpukfl.estimators.regfeal._fit import (
    MEAN_DEGREES,
    STRENGTHS,
    RegFeaLMethod,
    RegFeaLSetting,
    RegFeaLTuner,
    _neighbours,
    leading_columns,
)
from gpukfl.estimators.regfeal._settings import Coordinates
from gpukfl.inspection import effective_rank, leading_directions
from gpukfl.methods import DegreeLaw, KernelRidge, RegFeaL, Reweighting, derivative_weights

Y_NOISY = Y + 0.5 * np.random.default_rng(2).standard_normal(N)

# ---------------------------------------------------------------------- retraining


@pytest.mark.each
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("y", [Y, Y2], ids=["one target", "two targets"])
@pytest.mark.parametrize(
    "retrain", [Ridge(0.1), RandomForestRegressor(8, random_state=0)], ids=["Ridge", "forest"]
)
def test_a_regressor_is_fitted_on_the_coordinates(retrain, y, weighted):
    weights = np.random.default_rng(0).uniform(0.5, 2.0, N) if weighted else None
    model = regressor(retrain=retrain).fit(X, y, sample_weight=weights)
    assert type(model.retrained_) is type(retrain)
    assert not hasattr(retrain, "n_features_in_")  # a copy was fitted
    assert model.retrained_.n_features_in_ == len(model.retrain_components_)
    mean = np.average(y, axis=0, weights=weights)
    scale = np.sqrt(np.average((y - mean) ** 2, axis=0, weights=weights))
    given = {} if weights is None else {"sample_weight": weights / weights.mean()}
    Z, Z_NEW = (
        (samples - model.scaling_.mean) / model.scaling_.scale @ model.retrain_components_.T
        for samples in (X, NEW)
    )
    expected = clone(retrain).fit(Z, (y - mean) / scale, **given)
    if isinstance(retrain, RandomForestRegressor):  # rounding moves its thresholds
        expected = model.retrained_
        assert model.score(X, y) > 0.9
    ours = model.predict(NEW)
    assert ours.shape == (50, *y.shape[1:])
    np.testing.assert_allclose(ours, expected.predict(Z_NEW) * scale + mean, rtol=1e-6)


def test_the_coordinates_are_those_of_the_leading_directions():
    model = regressor(retrain=Ridge()).fit(X, Y)
    kept = model.retrain_components_
    k = min(model.n_effective_features_, len(kept))
    assert feature_score(model.components_[:k].T, kept[:k].T) == pytest.approx(1.0)
    np.testing.assert_allclose(kept @ kept.T, np.eye(len(kept)), atol=1e-12)
    plural = "" if len(kept) == 1 else "s"
    assert model._last_text() == f"Ridge on {len(kept)} direction{plural}"
    plain = regressor().fit(X, Y)
    assert plain.retrain_components_ is None


def errors_of_directions(monkeypatch, error):
    """Let directions have these errors on held-out rows, in units of the spread."""
    predict = RegFeaLMethod.predict_fold

    def wrong(method, fold, learned):
        if learned.retrained is None:
            return predict(method, fold, learned)
        held = fold.held_out
        squares = error(fold, learned) * held.spread / float(held.weights.sum())
        return held.Y + np.sqrt(squares / held.Y.shape[1])

    monkeypatch.setattr(RegFeaLMethod, "predict_fold", wrong)


def errors_of_numbers(monkeypatch, errors):
    """Let numbers of directions have these errors."""

    def error(_, learned):
        directions = learned.retrained.directions
        weighted = np.linalg.norm(directions, axis=1).min() < 0.99
        return 1e9 if weighted else errors.get(len(directions), 1e9)

    errors_of_directions(monkeypatch, error)


@pytest.mark.each
@pytest.mark.parametrize(
    ("errors", "number"),
    [
        ({1: 1e-6, 2: 1e-7}, 2),
        ({1: 1.009e-6, 2: 1e-6, 3: 1e-6}, 1),
        ({1: 1.02e-6, 2: 1.005e-6, 3: 1e-6}, 2),
    ],
)
@pytest.mark.parametrize("n", [N, 30])
def test_the_fewest_directions_that_predict_nearly_as_well(monkeypatch, n, errors, number):
    errors_of_numbers(monkeypatch, errors)
    model = regressor(retrain="kernel_ridge").fit(X[:n], Y[:n])
    assert len(model.retrain_components_) == number


def test_features_predict_where_directions_do_not(monkeypatch):
    errors_of_numbers(monkeypatch, {})
    model = regressor(retrain="kernel_ridge").fit(X, Y)
    assert (model.kernel_, model.retrain_components_) == (None, None)
    expected = regressor(retrain=None).fit(X, Y)
    np.testing.assert_array_equal(model.predict(NEW), expected.predict(NEW))
    given = regressor(retrain=Ridge()).fit(X, Y)  # what is asked for is fitted
    assert type(given.retrained_) is Ridge


@pytest.mark.parametrize("power", [0.25, 0.5])
@pytest.mark.parametrize("selection", ["features", "variables"])
def test_weights_are_powers_of_the_squared_derivatives(selection, power):
    model = regressor(selection=selection).fit(X, Y_NOISY)
    squares = np.diag(model.R_.T @ model.feature_matrix_ @ model.R_)
    components = Coordinates(power=power).directions(model.R_, model.eta_, 0.33)
    assert components.shape == (D, D)
    norms = np.linalg.norm(components, axis=1)
    np.testing.assert_allclose(norms, (squares / squares.max()) ** power, rtol=1e-3)
    np.testing.assert_allclose(components / norms[:, None], model.R_.T, atol=1e-12)


def test_directions_of_next_to_no_weight_are_left_out():
    eta = np.array([1e-30, 0.9, 1e-7])
    found = Coordinates(power=0.25).directions(np.eye(3), eta, 0.33)
    np.testing.assert_allclose(found[0], [0, 1, 0])
    assert found.shape == (2, 3)


def test_weighted_directions_are_taken_where_they_do_better(monkeypatch):
    def error(_, learned):
        return 1e-4 if np.linalg.norm(learned.retrained.directions, axis=1).min() < 0.9 else 0.5

    errors_of_directions(monkeypatch, error)
    model = regressor(retrain="kernel_ridge").fit(X, Y_NOISY)
    assert model._last_text() == "Gaussian kernel ridge on 5 weighted directions"
    assert model.score(NEW, Y_NEW) > 0.7
    given = regressor(retrain=Ridge()).fit(X, Y_NOISY)  # which may not see weights
    np.testing.assert_allclose(np.linalg.norm(given.retrain_components_, axis=1), 1.0)


def test_many_directions_of_falling_importance_are_weighted():
    rng = np.random.default_rng(3)
    X_wide, X_more = rng.uniform(-1.7, 1.7, (2, 400, 12))
    importances = 0.6 ** np.arange(12)

    def smooth(samples):
        return np.sin(samples @ importances) + samples[:, 0] * samples[:, 1]

    options = {"degree_decay": 0.2, "strength": 1e-3, "retrain": "kernel_ridge"}
    model = regressor(**options).fit(X_wide, smooth(X_wide))
    assert "weighted" in model._last_text()
    assert model.score(X_more, smooth(X_more)) > 0.95


def test_directions_of_noise_are_not_retrained_on():
    rng = np.random.default_rng(6)
    noise, X_noise, X_more = rng.standard_normal(100), *rng.standard_normal((2, 100, 20))
    options = {"degree_decay": 0.2, "strength": 1e-3, "retrain": "kernel_ridge"}
    model = regressor(**options).fit(X_noise, noise)
    assert np.var(model.predict(X_more)) < 0.3


def test_the_last_word_is_that_of_what_predicts(monkeypatch):
    options = {"strength": "auto", "n_iter": 2}
    points = regressor(100, retrain=None, **options).fit(X, Y).tuning_
    third = sorted(points, key=lambda trial: -trial["score"])[2]["strength"]
    errors_of_directions(
        monkeypatch, lambda _, learned: 1e-9 if learned.method.strength == third else 0.9
    )
    model = regressor(100, retrain="kernel_ridge", **options).fit(X, Y)
    looked = [trial for trial in model.tuning_ if trial["prediction"] != "Hermite features"]
    assert len({trial["strength"] for trial in looked}) == 3
    assert model.strength_ == third
    chosen = next(trial for trial in model.tuning_ if trial["chosen"])
    assert chosen["prediction"] == "1 direction"
    assert chosen["score"] == max(trial["score"] for trial in model.tuning_)


def test_too_many_terms_for_the_features_are_told_of():
    with pytest.warns(
        UserWarning, match="a degree decay of 0.9 with 5 features .* about e.11.5 terms"
    ):
        regressor(40, degree_decay=0.9).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        regressor(40, degree_decay=0.69).fit(X, Y)  # (1 - ρ)^-5 is 349
        regressor(40, degree_decay=0.9, max_degree=3).fit(X, Y)


def test_one_of_ours_is_fitted_on_the_coordinates():
    given = KernelRidgeRegressor(kernel="laplace", ridge=1e-6)
    model = regressor(retrain=given).fit(X, Y)
    assert model.kernel_ is None
    assert model.retrained_.kernel_ is not None
    assert model.score(NEW, Y_NEW) > 0.8


class Unweighted(RegressorMixin, BaseEstimator):
    """A regressor that takes no weights."""

    def fit(self, X, y):
        self.n_features_in_, self.mean_ = X.shape[1], np.mean(y, axis=0)
        return self

    def predict(self, X):
        return np.tile(self.mean_, (len(X), *[1] * np.ndim(self.mean_)))


@pytest.mark.parametrize("retrain", [KNeighborsRegressor(), Unweighted()])
def test_a_regressor_without_weights_is_refused_with_weights(retrain):
    name = type(retrain).__name__
    regressor(retrain=retrain, n_iter=1).fit(X, Y2).predict(NEW)
    with pytest.raises(ValueError, match=f"takes sample_weight for retrain, got {name}"):
        regressor(retrain=retrain).fit(X, Y, sample_weight=np.arange(N) + 1.0)


def test_classes_are_retrained_on():
    model = classifier(retrain=RandomForestRegressor(10, random_state=0)).fit(X, THREE)
    assert model.score(X, THREE) > 0.95
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_retraining_improves_where_the_degree_is_too_low():
    y, y_new = (np.sin(3 * samples @ DIRECTIONS[:, 0]) for samples in (X, NEW))
    plain = regressor(max_degree=3, retrain=None).fit(X, y).score(NEW, y_new)
    assert (
        regressor(max_degree=3, retrain="kernel_ridge").fit(X, y).score(NEW, y_new) > plain + 0.05
    )


# ---------------------------------------------------------------------- choosing


def test_decay_and_strength_are_chosen():
    options = {"degree_decay": "auto", "strength": "auto", "n_iter": 2}
    model = regressor(300, **options).fit(X, Y)
    trials = model.tuning_
    chosen = [trial for trial in trials if trial["chosen"]]
    assert len(chosen) == 1
    assert (model.degree_decay_, model.strength_) == (
        chosen[0]["degree_decay"],
        chosen[0]["strength"],
    )
    assert chosen[0]["score"] >= max(trial["score"] for trial in trials) - 1e-3
    at = {(trial["degree_decay"], trial["strength"]) for trial in trials}
    assert len(at) == len(trials)
    assert all(rho in DECAYS and mu in STRENGTHS for rho, mu in at)
    assert model.score(NEW, Y_NEW) > 0.5
    again = regressor(300, **options).fit(X, Y)
    for one, other in zip(again.tuning_, trials, strict=True):
        assert {**one, "seconds": None} == {**other, "seconds": None}
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))


def test_what_is_given_is_not_chosen():
    options = {"n_random_features": 40, "n_iter": 1, "retrain": None}
    strength = regressor(degree_decay=0.3, strength="auto", **options).fit(X, Y)
    assert {trial["degree_decay"] for trial in strength.tuning_} == {0.3}
    assert len({trial["strength"] for trial in strength.tuning_}) >= 2
    decay = regressor(degree_decay="auto", strength=0.7, **options).fit(X, Y)
    assert {trial["strength"] for trial in decay.tuning_} == {0.7}
    assert len({trial["degree_decay"] for trial in decay.tuning_}) >= 2
    degree = regressor(degree_decay="auto", strength="auto", max_degree=3, **options).fit(X, Y)
    assert len({trial["degree_decay"] for trial in degree.tuning_}) == 1
    assert len({trial["strength"] for trial in degree.tuning_}) >= 2


def test_squares_are_found_among_many_variables():
    rng = np.random.default_rng(4)
    X_wide, X_more = rng.uniform(-1.7, 1.7, (2, 300, 25))  # 350 tuples of degrees 1 and 2

    def square(samples):
        return samples[:, 3] + samples[:, 7] ** 2

    options = {"degree_decay": "auto", "strength": "auto", "retrain": "kernel_ridge"}
    model = regressor(300, **options).fit(X_wide, square(X_wide))
    assert model.score(X_more, square(X_more)) > 0.95
    assert feature_score(np.eye(25)[:, [3, 7]], model.R_[:, :2]) > 0.9
    assert (None, 2) in {(t["degree_decay"], t["max_degree"]) for t in model.tuning_}
    assert {model.degree_decay_ is None, model.max_degree_ is None} == {True, False}
    few = regressor(400, degree_decay="auto", strength="auto", n_iter=1).fit(X, Y)
    assert {trial["max_degree"] for trial in few.tuning_} == {None}  # all are drawn without that


DECAYS = [k / (k + D) for k in MEAN_DEGREES]


def test_neighbours_are_one_step_away():
    laws, law = [DegreeLaw(decay) for decay in DECAYS], DegreeLaw(0.3)
    at = RegFeaLSetting(laws[2], STRENGTHS[0])
    expected = {(laws[2], STRENGTHS[1]), (laws[1], STRENGTHS[0]), (laws[3], STRENGTHS[0])}
    assert set(_neighbours(at, laws, STRENGTHS)) == {RegFeaLSetting(*point) for point in expected}
    last = RegFeaLSetting(law, STRENGTHS[-1])
    assert _neighbours(last, None, STRENGTHS) == [RegFeaLSetting(law, STRENGTHS[-2])]
    assert _neighbours(RegFeaLSetting(law, 0.7), None, None) == []


def test_many_rows_are_chosen_on_a_sample(monkeypatch):
    monkeypatch.setattr(RegFeaLMethod, "splits", Splits(at_most=80, folds_below=50))
    seen = []
    make = Samples.splits

    def noted(samples, *args, **options):
        seen.extend(make(samples, *args, **options))
        return seen

    monkeypatch.setattr(Samples, "splits", noted)
    regressor(30, strength="auto", n_iter=1).fit(X, Y)
    ((inside, outside),) = seen  # one hold-out set
    assert (len(inside), len(outside)) == (64, 16)
    assert not set(inside.X[:, 0]) & set(outside.X[:, 0])


def test_settings_whose_features_overflow_are_left_out(monkeypatch):
    run = RegFeaL.run

    def overflowing(method, *args, **kwargs):
        if (method.law.decay or 0.0) > 0.2:
            msg = "Hermite features overflow"
            raise FloatingPointError(msg)
        return run(method, *args, **kwargs)

    monkeypatch.setattr(RegFeaL, "run", overflowing)
    model = regressor(40, degree_decay="auto", strength="auto", n_iter=1).fit(X, Y)
    assert (model.degree_decay_ or 0.0) <= 0.2
    assert min(trial["score"] for trial in model.tuning_) == -np.inf


@pytest.mark.parametrize("weights", [[1.0, 0.9, 0.21, 0.19, 1e-3, 0.0], [0.0] * 6])
def test_short_columns_are_no_directions(rng, weights):
    R = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    W, few = R * np.array(weights), leading_columns(R, np.array(weights))
    assert few.shape[1] == (4 if any(weights) else 1)
    assert effective_rank(few) == effective_rank(W)
    np.testing.assert_allclose(leading_directions(few), leading_directions(W), atol=1e-12)


def test_importances_are_of_all_columns():
    model = regressor(strength=0.1, retrain=None).fit(X, Y)
    roots = derivative_weights(model.eta_, 0.33, 0.5)
    norms = np.linalg.norm(model.R_ * roots, axis=1)
    np.testing.assert_allclose(model.feature_importances_, norms / norms.sum(), rtol=1e-12)


# ---------------------------------------------------------------------- time and interruption


def test_no_time_is_still_a_model():
    with pytest.warns(ConvergenceWarning, match="after 1 iterations: max_time was reached first"):
        model = regressor(strength="auto", max_time=1e-6).fit(X, Y)
    assert (model.status_, model.n_iter_, len(model.tuning_)) == ("TIME_LIMIT", 1, 1)
    assert model.eta_path_.shape == (2, D)
    assert np.all(np.isfinite(model.predict(NEW)))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_it_keeps_to_its_time(monkeypatch):
    seconds = {}
    for limit in (None, 0.3):
        clock = Clock(0.01)
        with monkeypatch.context() as patched:
            patched.setattr("time.perf_counter", clock)
            options = {"degree_decay": "auto", "strength": "auto", "retrain": None}
            model = regressor(20, max_time=limit, n_iter=8, **options).fit(X[:60], Y[:60])
        seconds[limit] = clock.now
        assert len(model.tuning_) >= 1
    assert seconds[0.3] < 0.7 < seconds[None]


@pytest.mark.parametrize("after", [1, 3])
def test_an_interrupted_fit_keeps_its_last_whole_iteration(monkeypatch, after):
    expected = regressor(n_iter=after, retrain=None).fit(X, Y)
    interrupt(monkeypatch, RegFeaL, "_regression", after)
    with pytest.warns(ConvergenceWarning, match="interrupted: the best iterate"):
        model = regressor(n_iter=6).fit(X, Y)
    assert (model.status_, model.n_iter_) == ("INTERRUPTED", after)
    np.testing.assert_array_equal(model.predict(NEW), expected.predict(NEW))


def test_an_interrupted_choice_keeps_the_best_so_far(monkeypatch):
    interrupt(monkeypatch, Search, "evaluate", 2)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = regressor(40, strength="auto", n_iter=2).fit(X, Y)
    assert len(model.tuning_) == 2
    assert model.strength_ == max(model.tuning_, key=lambda trial: trial["score"])["strength"]
    assert model.status_ == "INTERRUPTED"


def test_an_interruption_while_the_time_is_measured_is_not_lost(monkeypatch):
    run = RegFeaL.run

    def struck(method, *args, **kwargs):
        fit = run(method, *args, **kwargs)
        fit.status = Status.INTERRUPTED
        return fit

    monkeypatch.setattr(RegFeaL, "run", struck)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = regressor(400, max_time=100.0).fit(X, Y)
    assert (model.status_, model.n_iter_) == ("INTERRUPTED", 2)
    assert model.multi_indices_.shape[0] <= 300


def test_an_interrupted_retraining_keeps_the_features(monkeypatch):
    interrupt(monkeypatch, KernelRidge, "fit", 0)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = regressor(retrain="kernel_ridge").fit(X, Y)
    expected = regressor(retrain=None).fit(X, Y)
    np.testing.assert_array_equal(model.predict(NEW), expected.predict(NEW))


@pytest.mark.parametrize("strength", [0.1, "auto"])
def test_an_interruption_before_anything_is_learned_gives_a_quick_model(monkeypatch, strength):
    interrupt(monkeypatch, RegFeaL, "_regression", 0)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = regressor(40, strength=strength).fit(X, Y)
    assert (model.status_, model.n_iter_) == ("INTERRUPTED", 2)
    assert model.tuning_ == []
    assert np.all(np.isfinite(model.predict(NEW)))


def test_progress_is_printed(capsys):
    regressor(40, strength="auto", n_iter=2, verbose=1).fit(X, Y)
    lines = capsys.readouterr().err.splitlines()
    assert sum(line.startswith("fit: iteration") for line in lines) == 2
    assert sum(line.startswith("tune degree decay 0.4, strength") for line in lines) >= 2


def test_ways_that_fall_behind_see_fewer_rows(monkeypatch):
    seen = []
    errors_of_directions(
        monkeypatch, lambda _, learned: seen.append(learned.retrained) or (0.9, 0.1)[len(seen) > 5]
    )
    model = regressor(retrain="kernel_ridge").fit(X, Y)
    ways = [trial for trial in model.tuning_ if trial["prediction"] != "Hermite features"]
    assert len(seen) == 5 * len(ways)  # as good as the best, each
    seen.clear()
    errors_of_directions(
        monkeypatch, lambda _, learned: seen.append(learned.retrained) or (0.1, 0.9)[len(seen) > 5]
    )
    regressor(retrain="kernel_ridge").fit(X, Y)
    assert len(seen) == 5 + len(ways) - 1


def test_what_is_given_is_retrained_on_without_time_to_look():
    with pytest.warns(ConvergenceWarning, match="max_time was reached first"):
        model = regressor(retrain="kernel_ridge", max_time=1e-6).fit(X, Y)
    assert model.tuning_ == []
    assert len(model.retrain_components_) == model.n_effective_features_


@pytest.mark.parametrize("retrain", [None, "kernel_ridge"])
def test_points_far_behind_see_fewer_rows(monkeypatch, retrain):
    """Not those that are a little behind: their directions may be the best to retrain on."""
    errors, counts = (0.1, 0.13, 0.2), {}  # of the first two, and all others

    def predict(_, fold, learned):
        setting = learned.method.law.decay, learned.method.strength
        counts[setting] = counts.get(setting, 0) + 1
        error = errors[min(list(counts).index(setting), 2)]
        return fold.held_out.Y + np.sqrt(error * fold.held_out.spread / len(fold.held_out.Y))

    monkeypatch.setattr(RegFeaLMethod, "predict_fold", predict)
    monkeypatch.setattr(RegFeaLTuner, "_list_coordinates", lambda *_: [])
    regressor(retrain=retrain, degrees="auto", strength="auto").fit(X, Y)
    first, second, *others = counts.values()
    assert (first, second) == (5, 5)
    assert set(others) == {1}


def test_weighted_directions_are_looked_at_first():
    """They are seldom far behind, so that most others are left after a fold."""
    model = regressor(retrain="kernel_ridge").fit(X, Y)
    ways = [one["prediction"] for one in model.tuning_ if one["prediction"] != "Hermite features"]
    assert ["weighted" in way for way in ways[:3]] == [True, True, False]


@pytest.mark.parametrize("exponent", [0.1, 0.33, 1.0])
def test_directions_without_derivatives_keep_the_share_of_the_floor(exponent):
    settled = {"degrees": 0.4, "strength": 0.1, "retrain": None, "random_state": 0}
    model = RegFeaLRegressor(300, optimizer=Reweighting(exponent=exponent), **settled)
    shares = model.fit(X, X[:, 0]).importances_
    assert shares[-1] / shares[0] == pytest.approx(10.0 ** (-4 * exponent), rel=0.1)
