"""Portfolios say how sure they are: intervals, quantiles and sets of rows of every kind."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from interruption import interrupt
from model_files import write_unchecked
from portfolio_cases import THREE, TWO, N, Truth, X, Y, classifier, regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge

import gpukfl
from gpukfl.portfolio import Uncertainty, _estimators

NOISE = 0.3 * np.random.default_rng(0).standard_normal(N)
NOISY = Y + NOISE
LEVELS = (0.1, 0.5, 0.9)
RAW = [("truth", Truth())]  # whose residuals are the noise


def inside(ends, y):
    return np.mean((ends[..., 0] <= y) & (y <= ends[..., 1]))


# ------------------------------------------------------------------ intervals and quantiles


def test_intervals_are_those_of_the_folds_models():
    model = regressor().fit(X, NOISY)
    kept = model.out_of_fold_
    blends = np.stack(
        [
            sum(member.weight * member.models[k].predict(X[:7]) for member in model.members_)
            for k in range(3)
        ]
    )
    known = Uncertainty.fit(
        kept.rows,
        kept.truth,
        kept.predicted,
        kept.fold,
        kept.weights,
        rng=np.random.RandomState(0),
    )
    expected = known.interval(X[:7], blends[:, :, None], coverage=0.8)[:, 0]
    np.testing.assert_allclose(model.predict_interval(X[:7], 0.8), expected, rtol=1e-9)
    quantiles = known.quantiles(X[:7], blends[:, :, None], levels=LEVELS)[:, 0]
    np.testing.assert_allclose(model.predict_quantiles(X[:7], LEVELS), quantiles, rtol=1e-9)


def test_intervals_are_about_what_is_predicted():
    model = regressor().fit(X, NOISY)
    np.testing.assert_allclose(model.predict_interval(X, 0.7).mean(axis=1), model.predict(X))
    median = model.predict_quantiles(X, (0.5,))[:, 0]
    assert np.abs(median - model.predict(X)).mean() < 0.1 * NOISE.std()


@pytest.mark.few
@pytest.mark.parametrize("n_folds", [1, 3])
@pytest.mark.parametrize("refit", [False, True, "both"])
def test_new_rows_are_covered_and_rough_ones_have_wide_intervals(rng, n_folds, refit):
    def draw(n):
        rows = rng.uniform(-1, 1, (n, 3))
        size = np.where(rows[:, 0] > 0, 1.0, 0.1)
        return rows, Truth().predict(rows) + size * rng.standard_normal(n)

    rows, y = draw(1500)
    model = regressor(members=RAW, n_folds=n_folds, refit=refit).fit(rows, y)
    new, truth = draw(4000)
    ends = model.predict_interval(new)
    judges = len(model.out_of_fold_.fold)
    error = 4.0 * np.sqrt(0.9 * 0.1 * (1 / judges + 1 / len(new)))
    assert inside(ends, truth) == pytest.approx(0.9, abs=error)
    rough, width = new[:, 0] > 0, np.ptp(ends, axis=1)
    assert width[rough].mean() > 3 * width[~rough].mean()
    below = np.mean(truth[:, None] <= model.predict_quantiles(new, LEVELS), axis=0)
    np.testing.assert_allclose(below, LEVELS, atol=error)


@pytest.mark.parametrize("refit", [True, "both"])
@pytest.mark.parametrize("n_folds", [1, 3])
def test_refitted_models_are_in_the_middle(refit, n_folds):
    model = regressor(n_folds=n_folds, refit=refit).fit(X, NOISY)
    np.testing.assert_allclose(
        model.predict_interval(X, 0.7).mean(axis=1), model.predict(X), rtol=1e-9
    )


def test_more_coverage_is_wider_and_holds_the_quantiles_in_order():
    model = regressor().fit(X, NOISY)
    ends = [model.predict_interval(X, coverage) for coverage in (0.5, 0.8, 0.95)]
    for narrow, wide in itertools.pairwise(ends):
        assert np.all(wide[:, 0] <= narrow[:, 0])
        assert np.all(wide[:, 1] >= narrow[:, 1])
    assert np.all(np.diff(model.predict_quantiles(X), axis=1) >= 0)


def test_several_targets_have_intervals_each():
    both = np.stack([NOISY, X[:, 2] + 3 * NOISE], axis=1)
    model = regressor().fit(X, both)
    assert model.predict_interval(X[:5]).shape == (5, 2, 2)
    assert model.predict_quantiles(X[:5], LEVELS).shape == (5, 2, 3)
    ends = model.predict_interval(X)
    assert inside(ends, both) > 0.85
    assert np.ptp(ends[:, 1], axis=1).mean() > 1.5 * np.ptp(ends[:, 0], axis=1).mean()
    column = regressor().fit(X, NOISY[:, None])
    assert column.predict_interval(X[:5]).shape == (5, 1, 2)


def test_a_constant_is_certain():
    with pytest.warns(UserWarning, match="y is constant"):
        model = regressor().fit(X, np.full(N, 2.5))
    np.testing.assert_array_equal(model.predict_interval(X[:3]), np.full((3, 2), 2.5))
    np.testing.assert_array_equal(model.predict_quantiles(X[:3], LEVELS), np.full((3, 3), 2.5))


@pytest.mark.parametrize("transform", ["log", "rank"])
def test_transformed_targets_have_intervals_in_their_own_units(rng, transform):
    rows = rng.uniform(-1, 1, (600, 2))
    y = np.exp(2 * rows[:, 0] + 0.3 * rng.standard_normal(600))
    model = regressor(target_transform=transform).fit(rows[:300], y[:300])
    found = inside(model.predict_interval(rows[300:]), y[300:])
    assert found == pytest.approx(0.9, abs=4 * np.sqrt(0.9 * 0.1 / 150))


def test_weights_are_as_copies():
    w = 1.0 + (np.arange(N) % 3 == 0)
    weighed = regressor().fit(X, NOISY, sample_weight=w)
    copied = regressor().fit(*(np.repeat(a, w.astype(int), axis=0) for a in (X, NOISY)))
    new = X + 0.01  # of rows that were seen, copies tell what weights do not
    np.testing.assert_array_equal(weighed.predict_interval(new), copied.predict_interval(new))
    proba = [
        classifier().fit(*data).predict_set(new)
        for data in ((X, THREE, w), [np.repeat(a, w.astype(int), axis=0) for a in (X, THREE)])
    ]
    np.testing.assert_array_equal(*proba)


def test_rows_are_asked_in_blocks(monkeypatch):
    model = regressor().fit(X, NOISY)
    whole = model.predict_interval(X), model.predict_quantiles(X)
    monkeypatch.setattr(_estimators, "_BLOCK", 7)
    np.testing.assert_allclose(model.predict_interval(X), whole[0], rtol=1e-12)
    np.testing.assert_allclose(model.predict_quantiles(X), whole[1], rtol=1e-12)


# ------------------------------------------------------------------ sets


@pytest.mark.parametrize("y", [TWO, THREE])
def test_sets_are_those_of_the_scores(y):
    model = classifier().fit(X, y)
    found = model.predict_set(X, 0.8)
    assert found.shape == (N, len(model.classes_))
    assert found.dtype == bool
    assert found.any(axis=1).all()
    expected = model.class_scores_.sets(model.predict_proba(X), coverage=0.8)
    np.testing.assert_array_equal(found, expected)
    assert np.all(model.predict_set(X, 0.95) >= found)
    np.testing.assert_array_equal(
        model.classes_[np.argmax(found, axis=1)][found.sum(1) == 1],
        model.predict(X)[found.sum(1) == 1],
    )


def test_sets_of_new_rows_hold_the_class(rng):
    def draw(n):
        rows = rng.uniform(-1, 1, (n, 3))
        return rows, np.digitize(rows[:, 0] + 0.5 * rng.standard_normal(n), [-0.5, 0.0, 0.5])

    model = classifier(members=["linear"]).fit(*draw(600))
    new, codes = draw(3000)
    sets = model.predict_set(new)
    error = 4.0 * np.sqrt(0.9 * 0.1 * (1 / 600 + 1 / 3000))
    assert sets[np.arange(3000), codes].mean() > 0.9 - error
    assert sets.sum(axis=1).mean() < 3.5


def test_one_class_is_in_every_set():
    with pytest.warns(UserWarning, match="y is constant"):
        model = classifier().fit(X, np.full(N, "a"))
    assert model.predict_set(X[:4]).tolist() == [[True]] * 4


# ------------------------------------------------------------------ data of every kind


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tensors_are_taken_and_given(torch, dtype):
    data = torch.asarray(X.astype(dtype))
    model = regressor().fit(data, torch.asarray(NOISY.astype(dtype)))
    for found in (model.predict_interval(data), model.predict_quantiles(data, LEVELS)):
        assert isinstance(found, torch.Tensor)
        assert found.dtype == data.dtype
    on_host = model.to_host().predict_interval(X.astype(dtype))
    np.testing.assert_allclose(model.predict_interval(data), on_host, rtol=1e-4, atol=1e-5)
    classes = classifier().fit(data, torch.asarray(TWO.astype(int)))
    found = classes.predict_set(data)
    assert found.dtype == torch.bool
    assert found.shape == (N, 2)


def test_a_memory_map_is_taken(tmp_path):
    rows = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", "float32", X.shape)
    rows[:] = X
    model = regressor().fit(rows, NOISY)
    found = model.predict_interval(rows)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, model.predict_interval(np.asarray(rows)))


def test_a_frame_is_taken_by_models():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    options = {"members": ["linear"], "n_folds": 3, "progress": False}
    model = gpukfl.fit(frame, NOISY, **options)
    ends = model.predict_interval(frame, coverage=0.8)
    np.testing.assert_array_equal(ends, model.estimator.predict_interval(frame, coverage=0.8))
    assert model.predict_quantiles(frame, LEVELS).shape == (N, 3)
    with pytest.raises(
        TypeError, match=r"classification model for predict_set, got a regression: use pred"
    ):
        model.predict_set(frame)
    classes = gpukfl.fit(frame, THREE, **options)
    np.testing.assert_array_equal(
        classes.predict_set(frame, coverage=0.8), classes.estimator.predict_set(frame, coverage=0.8)
    )
    for ask in (classes.predict_interval, classes.predict_quantiles):
        with pytest.raises(TypeError, match=r"got a classification: use predict_set"):
            ask(frame)


# ------------------------------------------------------------------ what is kept


@pytest.mark.parametrize("options", [{}, {"refit": True}, {"n_folds": 1}])
def test_files_and_pickles_say_the_same_to_the_last_bit(tmp_path, options):
    model = regressor(**options).fit(X, np.stack([NOISY, X[:, 2] + NOISE], axis=1))
    gpukfl.Model.from_estimator(model).save(tmp_path / "m")
    for loaded in (gpukfl.load(tmp_path / "m"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(
            loaded.predict_interval(X, 0.7), model.predict_interval(X, 0.7)
        )
        np.testing.assert_array_equal(
            loaded.predict_quantiles(X, [0.2, 0.5]), model.predict_quantiles(X, [0.2, 0.5])
        )


def test_sets_of_files_are_the_same(tmp_path):
    model = classifier().fit(X, THREE)
    gpukfl.Model.from_estimator(model).save(tmp_path / "m")
    np.testing.assert_array_equal(gpukfl.load(tmp_path / "m").predict_set(X), model.predict_set(X))


WRONG = {
    "groups beyond the spreads": lambda u: u.residuals.groups.__setitem__(0, 9),
    "groups below 0": lambda u: u.residuals.groups.__setitem__(0, -1),
    "models beyond the folds": lambda u: u.models.__setitem__(0, 3),
    "weights below 0": lambda u: u.residuals.weights.__setitem__(0, -1.0),
    "residuals that are no numbers": lambda u: u.residuals.scores.__setitem__((0, 0), np.nan),
    "sizes of 0": lambda u: u.sizes.__setitem__((0, 0), 0.0),
    "no size": lambda u: u.spreads[0].size.__setitem__(0, 0.0),
    "too few spreads": lambda u: u.spreads.pop(),
}


@pytest.mark.few
@pytest.mark.parametrize("wrong", WRONG)
def test_what_no_fit_makes_is_neither_written_nor_read(tmp_path, wrong):
    model = regressor().fit(X, NOISY)
    assert len(model.feature_importances_) == X.shape[1]  # computed before anything is wrong
    WRONG[wrong](model.uncertainty_)
    said = r"does not have (residuals|models) of its folds|is not finite"
    with pytest.raises(ValueError, match=said):
        gpukfl.Model.from_estimator(model).save(tmp_path / "m")
    write_unchecked(gpukfl.Model.from_estimator(model), tmp_path / "m")
    with pytest.raises(ValueError, match=said):
        gpukfl.load(tmp_path / "m")


def test_files_of_wrong_scores_are_refused(tmp_path):
    model = classifier().fit(X, THREE)
    model.class_scores_.scores[3] = np.nan
    write_unchecked(gpukfl.Model.from_estimator(model), tmp_path / "m")
    with pytest.raises(ValueError, match="does not have scores of classes"):
        gpukfl.load(tmp_path / "m")


def test_what_is_kept_is_small(rng):
    rows = rng.standard_normal((30_000, 10))
    y = rows[:, 0] + rng.standard_normal(30_000)
    model = regressor(members=["linear"], n_folds="auto").fit(rows, y)
    assert len(pickle.dumps(model.uncertainty_)) < 0.3 * rows.nbytes
    assert model.predict_interval(rows[:3]).shape == (3, 2)


# ------------------------------------------------------------------ pictures


def test_pictures_have_intervals_where_there_are_rows_enough():
    model = regressor(members=RAW).fit(X, NOISY)
    held_out = next(one for one in model.describe().panels if one.name == "predictions")
    expected = np.ceil(0.9 * (N + 1)) / N
    assert inside(held_out.intervals[:, 0], held_out.truth[:, 0]) == pytest.approx(expected)
    few = regressor(members=RAW, n_folds=2).fit(X[:8], NOISY[:8])
    held_out = next(one for one in few.describe().panels if one.name == "predictions")
    assert held_out.intervals is None


def test_probabilities_are_drawn_under_their_classes():
    panel = classifier().fit(X, THREE).describe().panels[-1]
    assert panel.outputs == ("high", "low", "mid")
    assert panel.probabilities.shape == (N, 3)


# ------------------------------------------------------------------ bad input, and no time


@pytest.mark.parametrize(
    ("coverage", "expected"),
    [
        (1.0, r"coverage to be greater than 0 and less than 1, got 1.0"),
        (0.0, r"coverage to be greater than 0"),
        (0.999, r"at least 999 held-out rows .* coverage of 0.999, got 90"),
    ],
)
def test_coverages_that_cannot_be_are_named(coverage, expected):
    for ask in (
        regressor(members=["linear"]).fit(X, NOISY).predict_interval,
        classifier(members=["linear"]).fit(X, THREE).predict_set,
    ):
        with pytest.raises(ValueError, match=expected):
            ask(X, coverage=coverage)


def test_coverage_is_a_number():
    with pytest.raises(TypeError, match="coverage"):
        regressor(members=["linear"]).fit(X, NOISY).predict_interval(X, coverage="all")


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ([0.5, 1.5], "levels to be greater than 0 and less than 1, got 1.5"),
        ([], "a sequence of at least one number"),
        (0.5, "a sequence of at least one number, got 0.5"),
        ([0.001], "at least 999 held-out rows"),
    ],
)
def test_levels_that_cannot_be_are_named(levels, expected):
    with pytest.raises(ValueError, match=expected):
        regressor(members=["linear"]).fit(X, NOISY).predict_quantiles(X, levels)


@pytest.mark.filterwarnings("ignore:the blend drops trees")
def test_rows_of_other_data_are_refused():
    model = regressor(members=[("ridge", Ridge())]).fit(X, NOISY)
    with pytest.raises(ValueError, match="features"):
        model.predict_interval(X[:, :2])
    with pytest.raises(ValueError, match="not finite at 1 of 90 rows"):
        model.predict_interval(np.where(np.arange(N)[:, None] == 4, 1.7e308, X))
    huge = regressor(members=[("ridge", Ridge())]).fit(X, 3e38 * NOISY)
    with pytest.raises(ValueError, match=r"interval overflows float32 .* of 90 rows"):
        huge.predict_interval(X.astype("float32"))


def test_members_say_nothing_far_beyond_what_was_seen():
    model = regressor(members=["linear"]).fit(X, NOISY)
    far = model.predict(1e6 * X)
    reach = 0.1 * np.ptp(NOISY)
    assert far.min() == pytest.approx(NOISY.min() - reach)
    assert far.max() == pytest.approx(NOISY.max() + reach)


def test_an_interrupted_fit_has_even_intervals(monkeypatch):
    interrupt(monkeypatch, Ridge, "fit", 2)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = regressor(members=["linear", ("other", Ridge())]).fit(X, NOISY)
    assert not model.uncertainty_.spreads
    assert np.ptp(np.ptp(model.predict_interval(X), axis=1)) < 1.0
