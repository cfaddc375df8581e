"""`gpukfl.fit`: what it takes, how it tunes, and when it stops."""

import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fit_cases import FRAME, LABELS, RNG, Clock, D, N, X, Y, fit
from interruption import interrupt
from near_copies import near_copies
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import gpukfl
from gpukfl.estimators import _progress
from gpukfl.estimators._samples import Splits
from gpukfl.estimators.bkernn import _fit as _bkernn_search
from gpukfl.estimators.bkernn._fit import BKerNNProblem
from gpukfl.operators import BrownianKernel
from gpukfl.penalties import PENALTIES
from gpukfl.tables import _training

SAID = {"score", "standard_error", "seconds", "chosen"}  # of every setting tried

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the best ridge is at the edge:UserWarning"),
    pytest.mark.filterwarnings("ignore:the best ridge of the last fit:UserWarning"),
]


# ---------------------------------------------------------------------- kinds of data


def test_a_frame_gives_its_names():
    model = fit(FRAME, pd.Series(Y, name="price"), ridge="auto")
    assert (model.feature_names, model.target_name) == (["width", "height", "age"], "price")
    assert (model.task, model.method, model.n_samples) == ("regression", "bkernn", N)
    np.testing.assert_array_equal(model.predict(FRAME), fit(X, Y, ridge="auto").predict(X))
    assert {name for name, _ in model.most_important()} == set(model.feature_names)


def test_an_array_gets_names():
    model = fit(X, Y, ridge="auto")
    assert (model.feature_names, model.target_name) == (["x0", "x1", "x2"], "y")
    assert repr(model) == "Model(bkernn, regression, 80 rows, 3 columns)"


@pytest.mark.parametrize("ridge", ["auto", "tune"])
def test_lists_are_data(ridge):
    model = fit(X.tolist(), Y.tolist(), ridge=ridge)
    assert model.n_samples == N
    np.testing.assert_allclose(model.predict(X), fit(X, Y, ridge=ridge).predict(X), rtol=1e-12)


@pytest.mark.parametrize("ridge", ["auto", "tune"])
@pytest.mark.parametrize("y", [Y, (X[:, 0] > 0).astype(int)], ids=["regression", "classification"])
def test_torch_stays_torch(monkeypatch, y, ridge, torch):
    monkeypatch.setattr(_bkernn_search, "_REACH", 1)
    here = torch.asarray(X)
    model = fit(here, torch.asarray(y), ridge=ridge)
    assert isinstance(model.predict(here), torch.Tensor)
    assert model.score(here, torch.asarray(y)) == pytest.approx(fit(X, y, ridge=ridge).score(X, y))


@pytest.mark.each
@pytest.mark.parametrize("ridge", [0.01, "tune"])
@pytest.mark.parametrize("y", [Y, (X[:, 0] > 0).astype(int)], ids=["regression", "classification"])
def test_arrays_of_a_device_are_data(monkeypatch, on_double, y, ridge):
    monkeypatch.setattr(_bkernn_search, "_REACH", 1)
    here = on_double.put(X)
    model = fit(here, on_double.put(y, "int64" if y.dtype.kind == "i" else None), ridge=ridge)
    expected = on_double.rounded(fit(X, y, ridge=ridge).predict(X))
    np.testing.assert_allclose(on_double.host(model.predict(here)), expected, atol=1e-5)


def test_text_is_classified():
    model = fit(FRAME, LABELS)
    assert (model.task, set(model.predict(FRAME))) == ("classification", {"yes", "no"})
    np.testing.assert_allclose(model.predict_proba(FRAME).sum(axis=1), 1.0, atol=1e-14)
    assert model.score(FRAME, LABELS) > 0.9


def test_many_targets():
    model = fit(X, np.stack([Y, -X[:, 1]], axis=1))
    assert model.predict(X).shape == (N, 2)
    assert model.score(X, np.stack([Y, -X[:, 1]], axis=1)) > 0.5


def test_a_memory_map_is_its_array(tmp_path):
    (X / [1.0, 50.0, 0.01]).astype("float32").tofile(tmp_path / "X.dat")
    on_disk = np.memmap(tmp_path / "X.dat", dtype="float32", mode="r", shape=X.shape)
    model = fit(on_disk, Y, knots=64)
    expected = fit(np.array(on_disk), Y, knots=64)
    assert model.predict(on_disk).dtype == np.float32
    np.testing.assert_array_equal(model.predict(on_disk), expected.predict(np.array(on_disk)))


def test_the_task_can_be_said():
    assert fit(X, np.arange(N) % 2, task="regression", ridge=0.1).task == "regression"
    assert fit(X, (np.arange(N) % 2) * 1.0, task="classification", ridge=0.1).task == (
        "classification"
    )


def test_options_reach_the_estimator():
    e = fit(X, Y, n_particles=7, knots=32, dtype="float32", scaling=None).estimator
    assert (e.W_.shape, e.n_knots_, e.W_.dtype, e.scaling_) == ((D, 7), 32, np.float32, None)
    assert fit(X, Y, ridge="auto").estimator.scaling_.mean.shape == (D,)


def test_weights_are_repeated_rows():
    weights = RNG.integers(1, 4, N)
    weighted = fit(X, Y, sample_weight=weights, ridge=0.01)
    repeated = fit(near_copies(X, weights), np.repeat(Y, weights), ridge=0.01)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-6)


def test_rows_of_weight_zero_take_no_part_in_tuning():
    noise = np.where(np.arange(N) % 2, 100.0, 0.0)
    weights = np.where(np.arange(N) % 2, 0.0, 1.0)
    model = fit(X, Y + noise, sample_weight=weights)
    assert model.score(X, Y) > 0.7


def test_every_fit_of_the_tuning_has_the_weights_of_its_rows(monkeypatch):
    seen = problems_of(monkeypatch)
    fit(X, Y, sample_weight=1.0 + np.abs(X[:, 0]))
    assert len(seen) == 1 + 5
    for samples in seen:
        shares = samples.weights / (1.0 + np.abs(samples.X[:, 0]))
        np.testing.assert_allclose(shares, shares[0])


def problems_of(monkeypatch):
    """Samples of every problem that is made."""
    seen = []
    make = BKerNNProblem.__init__

    def noting(self, settings, samples, *args):
        seen.append(samples)
        make(self, settings, samples, *args)

    monkeypatch.setattr(BKerNNProblem, "__init__", noting)
    return seen


def test_a_random_state_repeats_the_fit():
    np.testing.assert_array_equal(fit(X, Y).predict(X), fit(X, Y).predict(X))


@pytest.mark.parametrize("seed", [None, np.random.RandomState(0)])
def test_any_random_state_is_taken(seed):
    assert fit(X, Y, random_state=seed).score(X, Y) > 0.5


# ---------------------------------------------------------------------- tuning


def test_a_given_ridge_is_used():
    model = fit(X, Y, ridge=0.0123)
    assert model.estimator.ridge_ == 0.0123
    assert model.tuning == []


def test_the_formula_is_used():
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    expected = np.linalg.norm(Z, axis=1).max() / N
    model = fit(X, Y, ridge="auto")
    assert model.estimator.ridge_ == pytest.approx(expected, rel=1e-12)
    assert model.tuning == []


@pytest.mark.parametrize("y", [Y, LABELS], ids=["regression", "classification"])
def test_the_chosen_ridge_scored_best(y):
    model = fit(X, y)
    scores = [trial["score"] for trial in model.tuning]
    chosen = [trial for trial in model.tuning if trial["chosen"]]
    assert len(chosen) == 1
    assert chosen[0]["score"] == max(scores)
    assert len(scores) >= 3 or chosen[0]["multiple"] == 1.0
    formula = fit(X, y, ridge="auto").estimator.ridge_
    assert model.estimator.ridge_ == pytest.approx(chosen[0]["multiple"] * formula, rel=1e-12)
    assert all(set(t) == {"penalty", "ridge", "multiple", *SAID} for t in model.tuning)


def test_tuning_stops_past_the_best():
    model = fit(X, Y)
    by_multiple = sorted(model.tuning, key=lambda trial: trial["multiple"])
    multiples = [trial["multiple"] for trial in by_multiple]
    np.testing.assert_allclose(np.diff(np.log(multiples)), np.log(3.0), rtol=1e-9)
    assert len(set(multiples)) == len(multiples)
    assert 1.0 in multiples


def test_penalties_are_tuned():
    model = fit(X, Y, penalty="tune", max_iter=2)
    assert {trial["penalty"] for trial in model.tuning} == set(PENALTIES)
    chosen = [trial for trial in model.tuning if trial["chosen"]]
    assert len(chosen) == 1
    assert chosen[0]["score"] == max(trial["score"] for trial in model.tuning)
    assert model.estimator.penalty_ == chosen[0]["penalty"]


def test_penalties_are_tuned_at_a_given_ridge():
    model = fit(X, Y, penalty="tune", ridge=0.02, max_iter=2)
    assert [trial["penalty"] for trial in model.tuning] == list(PENALTIES)
    assert {trial["ridge"] for trial in model.tuning} == {0.02}
    assert model.estimator.ridge_ == 0.02


def test_penalties_are_tuned_at_the_formula():
    model = fit(X, Y, penalty="tune", ridge="auto", max_iter=2)
    assert [trial["penalty"] for trial in model.tuning] == list(PENALTIES)
    assert {trial["multiple"] for trial in model.tuning} == {1.0}
    assert model.estimator.ridge_ == fit(X, Y, ridge="auto", max_iter=2).estimator.ridge_


def test_tuning_is_not_on_the_rows_it_scores():
    noise = RNG.standard_normal(N)
    best = max(trial["score"] for trial in fit(X, noise).tuning)
    assert best < 0.3  # of pure noise nothing can be predicted


def test_large_data_are_tuned_on_a_sample(monkeypatch):
    few = Splits(at_most=40, folds_below=40)
    monkeypatch.setattr(_bkernn_search.BKerNN, "splits", few)
    seen = problems_of(monkeypatch)
    assert fit(X, Y).n_samples == N
    assert [len(samples) for samples in seen] == [N, 32]


def test_no_more_folds_judge_than_needed(monkeypatch):
    few = replace(_bkernn_search.BKerNN.splits, enough=N // 5 + 1)
    monkeypatch.setattr(_bkernn_search.BKerNN, "splits", few)
    seen = problems_of(monkeypatch)
    fit(X, Y)
    assert [len(samples) for samples in seen] == [N, N - N // 5, N - N // 5]


def test_trials_end_sooner_than_the_fit(monkeypatch):
    seen = []
    inner = _bkernn_search.BKerNNProblem.fit

    def fitted(self, *given, **options):
        seen.append(options["times_tol"])
        return inner(self, *given, **options)

    monkeypatch.setattr(_bkernn_search.BKerNNProblem, "fit", fitted)
    fit(X, Y)
    assert set(seen) == {1.0}  # of few rows each one's score says much
    seen.clear()
    monkeypatch.setattr(_bkernn_search, "_LOOSE_FROM", 1)
    fit(X, Y)
    assert set(seen[:-1]) == {_bkernn_search._LOOSE_FACTOR}
    assert seen[-1] == 1.0


def test_the_edge_of_the_search_is_reported(monkeypatch):
    monkeypatch.setattr(_bkernn_search, "_REACH", 1)
    with pytest.warns(UserWarning, match="the best ridge is at the edge of those tried, 0.333"):
        fit(X, 100 * Y)


@pytest.mark.parametrize("n", [2, 3, 5, 9])
def test_few_samples_are_tuned_or_take_the_formula(n):
    model = fit(X[:n], Y[:n])
    assert bool(model.tuning) is (n >= 5)
    assert np.all(np.isfinite([trial["score"] for trial in model.tuning]))
    assert np.all(np.isfinite(model.predict(X[:n])))


def test_rare_classes_are_tuned():
    labels = LABELS.astype(object)
    labels[0] = "once"
    model = fit(X, labels)
    assert list(model.estimator.classes_) == ["no", "once", "yes"]


def test_the_model_can_be_fitted_again_alike():
    model = fit(X, Y)
    again = model.estimator.fit(X, Y)
    assert again.ridge_ == pytest.approx(
        next(trial["multiple"] for trial in model.tuning if trial["chosen"])
        * fit(X, Y, ridge="auto").estimator.ridge_
    )
    assert (again.max_time, again.warm_start) == (None, False)


def test_a_clone_of_the_estimator_has_the_tuned_ridge():
    model = fit(X, Y)
    assert clone(model.estimator).fit(X, Y).ridge_ == pytest.approx(model.estimator.ridge_)


# ---------------------------------------------------------------------- time and interruption


def test_max_time_ends_tuning_and_fit(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("time.perf_counter", Clock(0.01))
        unlimited = fit(X, Y)
        limited = fit(X, Y, max_time=0.5)
    assert unlimited.seconds > 1.0
    assert limited.seconds < 0.6
    assert len(limited.tuning) < len(unlimited.tuning)
    assert limited.score(X, Y) > 0


@pytest.mark.parametrize("method", ["bkernn", "auto"])
def test_max_time_counts_from_the_call(monkeypatch, method):
    """What is imported and read before the fit begins is spent."""
    clock, read = Clock(1e-4), _training.read_training_data

    def read_slowly(*given, **options):
        clock.now += 100.0
        return read(*given, **options)

    monkeypatch.setattr("time.perf_counter", clock)
    monkeypatch.setattr(_training, "read_training_data", read_slowly)
    own = {"members": ["linear", "laplace"]} if method == "auto" else {}
    late = gpukfl.fit(X, Y, method=method, max_time=50.0, **own)
    in_time = gpukfl.fit(X, Y, method=method, max_time=150.0, **own)
    found = [model.estimator.status_ == "TIME_LIMIT" for model in (late, in_time)]
    assert found == [True, False]
    assert np.isfinite(late.predict(X)).all()


def test_no_time_still_gives_a_model():
    model = fit(X, Y, max_time=1e-9)
    assert np.all(np.isfinite(model.predict(X)))
    assert len(model.tuning) == 1
    assert model.estimator.n_iter_ <= 2


@pytest.mark.parametrize("after", [0, 3, 12, 40])
def test_an_interruption_while_tuning_gives_a_model_and_a_warning(monkeypatch, after):
    interrupt(monkeypatch, BrownianKernel, "quadratic_gradient", after)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = fit(X, Y)
    assert np.all(np.isfinite(model.predict(X)))
    assert "interrupted" in model.summary() or any(t["chosen"] for t in model.tuning)


def test_an_interruption_of_the_last_fit_gives_a_model_and_a_warning(monkeypatch):
    interrupt(monkeypatch, BrownianKernel, "quadratic_gradient", 2)
    with pytest.warns(ConvergenceWarning, match="interrupted: the best iterate"):
        model = fit(X, Y, ridge="auto", max_iter=20)
    assert model.estimator.status_ == "INTERRUPTED"
    assert "interrupted" in model.summary()


def test_no_progress_off_a_terminal(capfd):
    fit(X, Y)
    assert capfd.readouterr() == ("", "")


def test_progress_when_asked(capfd):
    fit(X, Y, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert err != ""


def test_progress_on_a_terminal(monkeypatch):
    shown = []
    real = _progress.report_progress
    monkeypatch.setattr(
        _progress, "report_progress", lambda show: shown.append(show) or real(False)
    )
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    fit(X, Y, ridge="auto")
    fit(X, Y, ridge="auto", progress=False)
    assert shown == [True, False]


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"method": "forest"}, "one of auto, bkernn, .*, regfeal, got 'forest'"),
        ({"task": "ranking"}, "expected task to be one of auto, .*, got 'ranking'"),
        ({"ridge": "best"}, "expected ridge to be a positive number, 'auto' or 'tune', got 'best'"),
        ({"ridge": -1.0}, "expected ridge to be a number greater than 0.*got -1.0"),
        ({"penalty": "lasso"}, "expected penalty to be one of basic, .* or tune, got 'lasso'"),
        ({"max_time": 0}, "expected max_time to be a number greater than 0, or None, got 0"),
        (
            {"max_time": float("nan")},
            "expected max_time to be a number greater than 0, or None, got nan",
        ),
        ({"backend": "jax"}, "expected backend to be one of .*, got 'jax'"),
        ({"n_particles": 0}, "expected n_particles .* got 0"),
    ],
)
def test_bad_options_are_named(options, match):
    with pytest.raises(ValueError, match=match):
        fit(X, Y, **options)


@pytest.mark.parametrize("value", ["10", [1]])
def test_a_time_that_is_no_number_is_named(value):
    with pytest.raises(TypeError, match="expected max_time to be"):
        fit(X, Y, max_time=value)


def test_an_unknown_option_is_named():
    with pytest.raises(TypeError, match="n_partcles"):
        gpukfl.fit(X, Y, method="bkernn", n_partcles=8)


@pytest.mark.parametrize("ridge", ["auto", "tune"])
@pytest.mark.parametrize("cut", [slice(0, 70), slice(None)], ids=["fewer rows", "more rows"])
def test_mismatched_lengths_are_named(ridge, cut):
    rows = X[cut] if cut.stop else X[:75]
    y = Y if cut.stop else np.append(Y, Y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fit(rows, y, ridge=ridge)


@pytest.mark.parametrize("ridge", ["auto", "tune"])
def test_mismatched_weights_are_named(ridge):
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fit(X, Y, sample_weight=np.ones(3), ridge=ridge)


@pytest.mark.parametrize("ridge", ["auto", "tune"])
def test_a_missing_target_is_named(ridge):
    with pytest.raises(ValueError, match="got None"):
        fit(X, None, ridge=ridge)


@pytest.mark.parametrize("ridge", ["auto", "tune"])
def test_sparse_samples_are_named(ridge):
    from scipy import sparse

    with pytest.raises(TypeError, match="expected a dense array or frame"):
        fit(sparse.csr_array(X), Y, ridge=ridge)


def test_targets_that_are_not_finite_are_named():
    y = Y.copy()
    y[4] = np.inf
    with pytest.raises(ValueError, match="y contains"):
        fit(X, y)


def test_a_constant_target_is_predicted():
    with pytest.warns(UserWarning, match="y is constant"):
        model = fit(X, np.full(N, 4.5))
    np.testing.assert_allclose(model.predict(X), 4.5, rtol=1e-14)
