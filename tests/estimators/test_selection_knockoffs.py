"""Kernel feature selectors with a bounded share of false variables."""

import math
from dataclasses import replace

import numpy as np
import pytest
from selection_cases import THREE, classifier, found, selector

import gpukfl
from gpukfl.estimators.selection import Knockoffs, Stability
from gpukfl.estimators.selection import _fit as _discoveries
from gpukfl.knockoffs import GaussianKnockoffs, KnockoffSampler, select_by_e_values, selection_level

N, P = 120, 6
RNG = np.random.default_rng(11)
X = RNG.standard_normal((N, P))
Y = X[:, 1] + X[:, 3] ** 2 + 0.2 * RNG.standard_normal(N)
TRUE = [1, 3]
QUICK = Knockoffs(draws=2)


def fdr(**options):
    return selector(**{"error_control": QUICK, **options})


@pytest.fixture(scope="module")
def model():
    return fdr().fit(X, Y)


def test_variables_that_beat_their_copies_are_selected(model):
    assert found(model) == TRUE
    values = model.e_values_
    assert values.shape == (P,)
    assert values.dtype == np.float64
    np.testing.assert_array_equal(model.get_support(), select_by_e_values(values, 0.1))
    np.testing.assert_array_equal(model.selected_at(0.1), model.get_support())
    assert model.fdr_ == selection_level(values, model.get_support())
    assert 0 < model.fdr_ <= 0.1
    assert model.selected_at(model.fdr_).sum() == 2
    assert not model.selected_at(0.9 * model.fdr_).any()
    assert model.knockoffs_ == {
        "level": 0.1,
        "draws": 2,
        "copies": 10,
        "shrinkage": model.knockoffs_["shrinkage"],
        "n_samples": N,
    }
    assert 0 < model.knockoffs_["shrinkage"] <= 1
    assert model.predict(X) == pytest.approx(Y, abs=2.0)


def test_the_word_is_the_value(model):
    word, value = (selector(error_control=c).fit(X, Y) for c in ("fdr", Knockoffs()))
    np.testing.assert_array_equal(word.e_values_, value.e_values_)
    assert word.knockoffs_["draws"] == 2
    np.testing.assert_array_equal(model.e_values_, fdr().fit(X, Y).e_values_)
    plain = selector().fit(X, Y)
    assert (plain.e_values_, plain.fdr_, plain.knockoffs_) == (None, None, None)


def test_levels_say_how_many_copies():
    assert Knockoffs().n_copies == 10
    assert Knockoffs(0.3).n_copies == 4
    assert Knockoffs(0.001).n_copies == 10
    assert Knockoffs(copies=2).n_copies == 2
    model = fdr(error_control=Knockoffs(0.5)).fit(X, Y)
    assert model.knockoffs_["copies"] == 2


def test_a_level_that_is_out_of_reach_says_the_smallest():
    with pytest.raises(ValueError, match=r"of at least 0.0167 for 6 variables with 10 copies"):
        fdr(error_control=Knockoffs(0.01)).fit(X, Y)
    with pytest.raises(ValueError, match=r"at least 0.167 for 6 variables with 1 copies each, got"):
        fdr(error_control=Knockoffs(copies=1)).fit(X, Y)
    with pytest.raises(ValueError, match=r"expected level to be .* greater than 0 and at most 1"):
        Knockoffs(0)


def test_what_has_no_e_values_says_so(model):
    with pytest.raises(ValueError, match="expected a complete fit with error_control='fdr'"):
        selector().fit(X, Y).selected_at(0.1)
    with pytest.raises(ValueError, match="expected level to be"):
        model.selected_at(1.5)
    with pytest.raises(ValueError, match=r"'fdr', None, or an instance of .* got 'fwer'"):
        selector(error_control="fwer").fit(X, Y)
    with pytest.raises(TypeError, match=r"pass error_control=Stability\(...\)"):
        gpukfl.KernelFeatureSelector(stability=Stability(4))
    with pytest.raises(TypeError, match=r"pass error_control=Knockoffs\(level\)"):
        gpukfl.KernelFeatureSelector(error_control="fdr", level=0.2)


def test_copies_are_not_the_data_of_the_same_seed():
    """Rows that were drawn from the random state of the fit."""
    same = np.random.RandomState(0).standard_normal((N, P))
    model = fdr(random_state=0).fit(same, same[:, 1] + same[:, 3] ** 2)
    assert found(model) == TRUE


class Repeating(KnockoffSampler):
    """Copies that are the columns."""

    def of(self, X, copies):
        found = GaussianKnockoffs().of(X, copies)
        return replace(found, back=lambda _: X)


@pytest.mark.filterwarnings("ignore:no variable was selected")
def test_a_variable_does_not_beat_its_equal():
    model = fdr(error_control=Knockoffs(sampler=Repeating())).fit(X, X[:, 1] + X[:, 3])
    np.testing.assert_array_equal(model.e_values_, 0.0)


def test_samplers_may_be_given(model):
    for sampler in ("gaussian", GaussianKnockoffs("equicorrelated")):
        other = fdr(error_control=Knockoffs(draws=1, sampler=sampler)).fit(X, Y)
        assert found(other) == TRUE


def test_classes_weights_and_several_targets():
    weights = 1.0 + (X[:, 0] > 0)
    classes = np.where(X[:, 2] > 0.6, "high", np.where(X[:, 2] < -0.6, "low", "mid"))
    sorted_out = classifier(error_control=QUICK).fit(X, classes, sample_weight=weights)
    assert found(sorted_out) == [2]
    both = fdr().fit(X, np.stack([Y, X[:, 5]], axis=1), sample_weight=weights)
    assert found(both) == [1, 3, 5]


def test_one_round_finds_main_effects_only():
    y = X[:, 1] + X[:, 1] * X[:, 4]
    assert 4 in found(fdr().fit(X, y))
    once = fdr(hierarchical=False).fit(X, Y)
    assert found(once) == TRUE


def test_a_constant_target_has_no_discoveries():
    with pytest.warns(UserWarning, match="constant"):
        model = fdr().fit(X, np.ones(N))
    np.testing.assert_array_equal(model.e_values_, 0.0)
    assert (model.fdr_, found(model)) == (0.0, [])


def test_fewer_rows_than_columns_are_said():
    wide = RNG.standard_normal((20, 30))
    with pytest.warns(
        UserWarning, match="20 rows are few to estimate the correlations of 30 columns"
    ):
        fdr(error_control=Knockoffs(draws=1)).fit(wide, 3.0 * wide[:, 4])
    wide[:, 7] = 2.0 * wide[:, 2]
    with (
        pytest.warns(UserWarning, match="20 rows are few to estimate"),
        pytest.warns(UserWarning, match=r"differ only in their units \(7 like 2\)"),
    ):
        fdr(error_control=Knockoffs(draws=1)).fit(wide, 3.0 * wide[:, 4])


@pytest.mark.parametrize("twin", [0, 1])
@pytest.mark.parametrize("scale", [1.0, -2.0])
def test_equal_and_constant_columns(twin, scale):
    odd = np.concatenate([X, 1.0 + scale * X[:, [twin]], np.ones((N, 1))], axis=1)
    y = Y + X[:, 4] + X[:, 5]
    with pytest.warns(UserWarning, match=rf"differ only in their units \(6 like {twin}\)"):
        model = fdr().fit(odd, y)
    assert found(model) == [k for k in (1, 3, 4, 5) if k != twin]
    np.testing.assert_array_equal(model.e_values_[[twin, 6, 7]], 0.0)


@pytest.mark.filterwarnings("ignore:no variable was selected")
@pytest.mark.filterwarnings("ignore:columns differ only")  # their ranks, of so few rows
@pytest.mark.parametrize("n", [3, 5])
def test_few_rows_find_nothing(n):
    with pytest.warns(UserWarning, match=f"{n} rows are few to estimate"):
        model = fdr().fit(X[:n], Y[:n])
    assert model.e_values_.shape == (P,)


def test_rows_are_as_many_as_there_is_memory_for(monkeypatch):
    monkeypatch.setattr(_discoveries, "_MOST_ROWS", 80)
    model = fdr().fit(X, Y)
    assert model.knockoffs_["n_samples"] == 80
    assert found(model) == TRUE


@pytest.mark.filterwarnings("ignore:no variable was selected")
def test_noise_is_seldom_selected():
    false = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        model = fdr(random_state=seed, error_control=QUICK)
        false += bool(found(model.fit(rng.standard_normal((60, 8)), rng.standard_normal(60))))
    assert false <= 3


@pytest.mark.filterwarnings("ignore:.*the best iterate so far is kept")
@pytest.mark.parametrize("after", [0, 1])
def test_an_interruption_keeps_whole_draws(monkeypatch, after):
    contests, done = _discoveries.competing_fits, []

    def interrupted(*args, **kwargs):
        done.append(1)
        if len(done) > after:
            raise KeyboardInterrupt
        return contests(*args, **kwargs)

    monkeypatch.setattr(_discoveries, "competing_fits", interrupted)
    if after:
        model = fdr().fit(X, Y)
        assert model.knockoffs_["draws"] == 1
    else:
        with pytest.warns(UserWarning, match="the share of false variables .* has no bound"):
            model = fdr().fit(X, Y)
        assert model.e_values_ is None
    assert model.status_ == "INTERRUPTED"
    assert model.predict(X).shape == (N,)


@pytest.mark.filterwarnings("ignore:.*max_time was reached first")
def test_the_time_ends_the_draws(monkeypatch):
    contests = _discoveries.competing_fits

    def slow(*args, **kwargs):
        monkeypatch.setattr("gpukfl.estimators._run.Run.is_over", lambda *_: True)
        return contests(*args, **kwargs)

    monkeypatch.setattr(_discoveries, "competing_fits", slow)
    model = fdr(max_time=1000.0).fit(X, Y)
    assert (model.knockoffs_["draws"], model.status_) == (1, "TIME_LIMIT")


def test_a_model_file_holds_them(tmp_path):
    model = gpukfl.fit(X, Y, method="selection", error_control=QUICK, random_state=0)
    text = str(model.summary())
    model.save(tmp_path / "model")
    twin = gpukfl.load(tmp_path / "model")
    np.testing.assert_array_equal(twin.estimator.e_values_, model.estimator.e_values_)
    assert twin.estimator.knockoffs_ == model.estimator.knockoffs_
    facts = model.estimator.describe().facts
    assert facts["false discoveries"] == "at most 0.1 of those selected, on average"
    assert facts["knockoffs"] == f"2 draws of 10 copies, {N} rows"
    assert text


def test_it_is_fitted_on_every_place(on):
    data, target = on.rounded(X), on.rounded(Y)
    expected = fdr().fit(data, target)
    actual = fdr().fit(on.put(data), on.put(target))
    assert found(actual) == found(expected) == TRUE
    on.assert_lives_here(actual.e_values_, "float64")
    np.testing.assert_allclose(on.host(actual.e_values_), expected.e_values_)
    assert math.isclose(actual.fdr_, expected.fdr_)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:no variable was selected")
@pytest.mark.parametrize("law", ["rare ones", "mostly zeros"])
def test_rare_values_without_an_effect_are_seldom_found(law):
    false = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        rare = np.asarray(rng.random((200, 12)) < 0.06, dtype=np.float64)
        data = rare if law == "rare ones" else rare * rng.exponential(size=rare.shape)
        model = fdr(random_state=seed).fit(data, rng.standard_normal(200))
        false += bool(found(model))
    assert false <= 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:no variable was selected")
def test_three_classes_without_an_effect_are_seldom_found():
    rng, wrong = np.random.default_rng(2), 0
    for _ in range(8):
        shuffled = rng.permutation(THREE)[:N]
        model = classifier(error_control=QUICK).fit(X[: len(shuffled)], shuffled)
        wrong += len(found(model)) > 0
    assert wrong <= 2
