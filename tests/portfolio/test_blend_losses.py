"""Blends of regressions by other losses than the squared one."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import d2_pinball_score, d2_tweedie_score

import gpukfl
from gpukfl import AutoRegressor

FEW = ["linear", "trees", "manhattan_laplace"]


def draw_counts(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, rng.poisson(np.exp(0.3 + np.sin(2 * X[:, 0]))).astype(float)


def draw_claims(n, seed=0):
    """Sums of a random number of gamma amounts: most are 0."""
    X, counts = draw_counts(n, seed)
    rng = np.random.default_rng(seed + 1)
    return X, np.array([rng.gamma(2.0, 1.0, int(k)).sum() for k in counts])


def blend(loss, X, y, **given):
    return AutoRegressor(FEW, loss=loss, random_state=0, n_folds=2, refit=False, **given).fit(X, y)


@pytest.mark.parametrize(
    ("loss", "draw", "power"),
    [("poisson", draw_counts, 1), ("tweedie:1.5", draw_claims, 1.5), ("gamma", draw_claims, 2)],
)
def test_a_blend_predicts_means_by_its_deviance(loss, draw, power):
    X, y = draw(200)
    y = y + 0.1 * (power == 2)
    model = blend(loss, X, y)
    mean = model.predict(X)
    assert (mean > 0).all()
    assert mean.sum() == pytest.approx(y.sum(), rel=0.2)
    assert model.score(X, y) == pytest.approx(d2_tweedie_score(y, mean, power=power))
    kept = model.out_of_fold_
    # The leaderboard's score is that of held-out rows
    top = model.leaderboard().set_index("member").loc["blend", "score"]
    truth, found = kept.truth[:, 0], kept.predicted[:, 0]
    assert top == pytest.approx(d2_tweedie_score(truth, found, power=power), abs=0.02)
    assert top > 0.05


def test_a_blend_of_a_quantile_and_its_intervals():
    X, y = draw_counts(300)
    y = y + np.random.default_rng(1).normal(size=300)
    model = blend("quantile:0.8", X, y)
    assert np.mean(y <= model.predict(X)) == pytest.approx(0.8, abs=0.08)
    assert model.score(X, y) == pytest.approx(d2_pinball_score(y, model.predict(X), alpha=0.8))
    levels = model.predict_quantiles(X, levels=(0.1, 0.5, 0.9))
    assert (np.diff(levels, axis=1) >= 0).all()
    ends = model.predict_interval(X, coverage=0.8)
    assert np.mean((ends[:, 0] <= y) & (y <= ends[:, 1])) > 0.7


def draw_wide(n, seed):
    """Targets whose errors have deviations that differ."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * np.exp(X[:, 1]) * rng.normal(size=n)


def test_a_blend_of_a_quantile_is_shifted_to_the_share_of_held_out_rows():
    X, y = draw_wide(200, 0)
    model = blend("quantile:0.9", X, y)
    kept, shift = model.out_of_fold_, float(model.shift_[0])
    # Each row is moved by the rows of the other fold, so that their scores are honest
    plain = [model._outputs(kept.rows[kept.fold == k], k)[:, 0] - shift for k in (0, 1)]
    left = [kept.truth[kept.fold == k, 0] - plain[k] for k in (0, 1)]
    for k in (0, 1):
        move = np.quantile(left[1 - k], 0.9, method="inverted_cdf")
        np.testing.assert_allclose(kept.predicted[kept.fold == k, 0], plain[k] + move, atol=1e-9)
    whole = np.concatenate(left)
    assert shift == pytest.approx(np.quantile(whole, 0.9, method="inverted_cdf"), abs=1e-9)
    top = model.leaderboard().set_index("member").loc["blend", "score"]
    truth, found = kept.truth[:, 0], kept.predicted[:, 0]
    assert top == pytest.approx(d2_pinball_score(truth, found, alpha=0.9), abs=1e-9)
    assert blend("poisson", X, np.exp(y)).shift_ is None


def test_the_share_of_new_rows_below_a_quantile_is_its_level():
    new, truth = draw_wide(2_000, 1)
    below = [
        np.mean(truth <= blend("quantile:0.9", *draw_wide(200, k)).predict(new)) for k in (2, 3)
    ]
    assert np.mean(below) == pytest.approx(0.9, abs=0.03)


def test_one_held_out_part_moves_rows_by_others_of_it():
    X, y = draw_wide(120, 4)
    model = AutoRegressor(FEW, loss="quantile:0.8", random_state=0, n_folds=1, refit=False)
    model.fit(X, y, groups=np.arange(120) // 4)
    kept = model.out_of_fold_
    moves = kept.predicted - (model._outputs(kept.rows, 0) - model.shift_)
    assert len(np.unique(np.round(moves, 9))) > 1  # not one number, which each row would know of
    by_group = [np.ptp(moves[kept.groups == g]) for g in np.unique(kept.groups)]
    assert max(by_group) < 1e-9


def test_rows_that_come_again_keep_their_quantile():
    X, y = draw_wide(150, 5)
    X, y = np.repeat(X, 2, axis=0), np.repeat(y, 2) + 0.01 * np.tile([1.0, -1.0], 150)
    model = blend("quantile:0.9", X, y)
    assert model.seen_rows_ is None  # what copies tell is their mean
    assert np.mean(y <= model.predict(X)) > 0.8


def test_a_shifted_blend_is_the_same_in_files_and_the_runtime(tmp_path):
    X, y = draw_wide(120, 6)
    model = gpukfl.fit(X, y, loss="quantile:0.9", members=FEW, n_folds=2, refit=False, n_jobs=1)
    assert model.estimator.shift_ is not None
    model.save(tmp_path / "model")
    for read in (gpukfl.load, gpukfl.runtime.load):
        np.testing.assert_allclose(read(tmp_path / "model").predict(X), model.predict(X), rtol=1e-9)
    again = gpukfl.load(tmp_path / "model").estimator
    np.testing.assert_array_equal(again.shift_, model.estimator.shift_)


def test_importances_are_of_the_loss():
    X, y = draw_counts(150)
    found = blend("poisson", X, y).feature_importances_
    assert found[0] > 0.8


def test_files_the_runtime_and_text_know_the_loss(tmp_path):
    X, y = draw_counts(120)
    model = gpukfl.fit(X, y, loss="poisson", members=FEW, n_folds=2, refit=False, n_jobs=1)
    model.save(tmp_path / "model")
    for read in (gpukfl.load, gpukfl.runtime.load):
        np.testing.assert_allclose(read(tmp_path / "model").predict(X), model.predict(X), rtol=1e-9)
    assert gpukfl.load(tmp_path / "model").estimator.loss == "poisson"
    assert "loss='poisson'" in model.describe().call
    assert model.describe().tuning.score == "D² of the Poisson deviance"


def test_reports_speak_of_the_loss(tmp_path):
    X, y = draw_counts(160)
    given = {"members": FEW, "n_folds": 2, "refit": False, "n_jobs": 1}
    model = gpukfl.fit(X[:120], y[:120], loss="quantile:0.9", **given)
    held_out, fitted_to = (X[120:], y[120:]), (X[:120], y[:120])
    model.report(tmp_path / "report.html", held_out=held_out, fitted_to=fitted_to)
    page = (tmp_path / "report.html").read_text()
    for text in ("D² of the pinball loss at 0.9", "the 0.9 quantile</bdi>", "boosted trees"):
        assert text in page
    assert "Mean prediction of the 0.9 quantile along" in page
    for text in ("R²", "RMSE", "log loss"):
        assert text not in page


def test_estimators_of_the_user_stay_as_they_are_and_positive():
    X, y = draw_counts(100)
    model = AutoRegressor([("own", Ridge())], loss="poisson", n_folds=2, refit=False).fit(X, y)
    assert isinstance(model.members_[0].models[0], Ridge)
    assert (model.predict(10 * X) > 0).all()


def test_two_targets_share_a_blend():
    X, y = draw_counts(100)
    model = blend("poisson", X, np.column_stack([y, y[::-1]]))
    assert model.predict(X).shape == (100, 2)
    assert (model.predict(X) > 0).all()


def test_a_scale_of_the_targets_is_refused_beside_a_loss():
    X, y = draw_counts(20)
    with pytest.raises(ValueError, match="expected target_transform=None with loss="):
        AutoRegressor(loss="poisson", target_transform="log").fit(X, y)


def test_counts_are_noticed_without_a_warning():
    X, y = draw_counts(60)
    given = {"members": ["linear"], "n_folds": 2, "n_jobs": 1}
    noted = gpukfl.fit(X, y, **given)
    assert any("y looks like counts" in one for one in noted.warnings_)
    assert "loss='poisson'" in noted.summary()
    asked = gpukfl.fit(X, y, loss="poisson", **given)
    assert not any("y looks like counts" in one for one in asked.warnings_)
    assert not any("counts" in one for one in gpukfl.fit(X, y + 0.5, **given).warnings_)
