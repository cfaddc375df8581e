"""Targets on another scale."""

import numpy as np
import pytest
from fit_cases import Clock
from portfolio_cases import N, X, Y, regressor
from scipy.stats import skew
from sklearn.preprocessing import QuantileTransformer

import gpukfl
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.portfolio import _blend as _transforms
from gpukfl.portfolio._blend import residual_quantiles
from gpukfl.predictor import LogTransform, RankTransform, skewness

SKEWED = np.exp(3.0 * Y)
KINDS = [LogTransform, RankTransform]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("factor", [1.0, -2.0, 1e6])
def test_the_inverse_is_one(kind, factor):
    targets = np.stack([factor * SKEWED, Y, np.round(Y), np.ones(N)], axis=1)
    transform = kind.fit(targets)
    back = transform.mean(transform.forward(targets), np.zeros((1, 4)))
    np.testing.assert_allclose(back, targets, rtol=1e-9, atol=1e-9 * abs(factor))


@pytest.mark.parametrize("kind", KINDS)
def test_it_grows_where_the_target_does(kind):
    found = kind.fit(SKEWED[:, None]).forward(SKEWED[:, None])[:, 0]
    order = np.argsort(SKEWED)
    assert (np.diff(found[order]) > 0).all()


def test_ranks_become_normal_scores():
    found = RankTransform.fit(SKEWED[:, None]).forward(SKEWED[:, None])
    peer = QuantileTransformer(n_quantiles=N, output_distribution="normal")
    expected = peer.fit_transform(SKEWED[:, None])
    inner = np.abs(expected) < 1.5
    np.testing.assert_allclose(found[inner], expected[inner], atol=0.05)


def test_a_long_tail_to_the_left_is_shortened_too():
    right, left = (LogTransform.fit(y[:, None]) for y in (SKEWED, -SKEWED))
    np.testing.assert_allclose(
        right.forward(SKEWED[:, None]), left.forward(-SKEWED[:, None]), rtol=1e-12
    )


def test_the_mean_is_that_of_what_may_be():
    """Of a lognormal target, whose mean is known."""
    rng = np.random.default_rng(0)
    residuals = residual_quantiles(0.5 * rng.standard_normal((100_000, 1)), None)
    transform = LogTransform([1.0], [-1.0], [1.0], [50.0])  # plain logarithms
    found = transform.mean(np.array([[2.0]]), residuals)
    assert found[0, 0] == pytest.approx(np.exp(2.0 + 0.125) - 2.0, rel=0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_count_as_copies(kind):
    counts = np.random.default_rng(1).integers(1, 4, N)
    targets = np.stack([SKEWED, -SKEWED, Y], axis=1)
    weighted = kind.fit(targets, counts.astype(float))
    copied = kind.fit(np.repeat(targets, counts, axis=0))
    np.testing.assert_allclose(weighted.forward(targets), copied.forward(targets), rtol=0.05)
    shifted = kind.fit(targets, 3.0 * counts)
    np.testing.assert_allclose(weighted.forward(targets), shifted.forward(targets), rtol=1e-9)


def test_skewness_is_that_of_scipy_and_weights_count_as_copies():
    targets = np.stack([SKEWED, Y, np.full(N, 0.1)], axis=1)
    np.testing.assert_allclose(skewness(targets)[:2], skew(targets[:, :2], axis=0), rtol=1e-9)
    assert skewness(targets)[2] == 0.0
    counts = np.arange(N) % 3
    copied = skewness(np.repeat(targets, counts, axis=0))
    np.testing.assert_allclose(skewness(targets, counts), copied, rtol=1e-9)


@pytest.mark.parametrize("asked", ["log", "rank"])
def test_rows_of_little_weight_hardly_move_the_mean(asked):
    rng = np.random.default_rng(0)
    rows, noisy = rng.standard_normal((400, 2)), np.arange(400) % 2 == 0
    noise = np.where(noisy, 1.5, 0.05) * rng.standard_normal(400)
    y = np.exp(0.5 * rows[:, 0] + noise)
    options = {"members": ["linear"], "target_transform": asked}
    weighted = regressor(**options).fit(rows, y, sample_weight=np.where(noisy, 0.01, 1.0))
    calm = regressor(**options).fit(rows[~noisy], y[~noisy])
    assert weighted.predict(rows).mean() == pytest.approx(calm.predict(rows).mean(), rel=0.06)


@pytest.mark.few
@pytest.mark.parametrize("asked", ["log", "rank", "auto", None])
def test_rows_without_weight_have_no_say(asked, tmp_path):
    w = np.where(np.arange(N) % 10 == 0, 0.0, 1.0)
    y = np.where(w > 0, SKEWED, 1e4)
    X.tofile(tmp_path / "X")
    mapped = np.memmap(tmp_path / "X", dtype=np.float64, mode="r", shape=X.shape)
    options = {"members": ["laplace"], "target_transform": asked}
    here, there = (regressor(**options).fit(rows, y, w) for rows in (X, mapped))
    assert type(here.target_transform_) is type(there.target_transform_)
    np.testing.assert_allclose(here.reach_, there.reach_, rtol=1e-9)
    assert there.score(X[w > 0], y[w > 0]) > 0.8


@pytest.mark.few
@pytest.mark.parametrize("asked", ["log", "rank"])
@pytest.mark.parametrize("refit", [False, True, "both"])
def test_intervals_are_about_what_is_predicted(asked, refit):
    y = SKEWED * np.exp(0.3 * np.random.default_rng(0).standard_normal(N))
    model = regressor(target_transform=asked, refit=refit, members=["laplace"]).fit(X, y)
    ends = model._fold_blends(X)
    np.testing.assert_allclose(ends.mean(axis=0)[:, 0], model.predict(X), rtol=1e-9)


@pytest.mark.parametrize("asked", ["log", "rank"])
def test_members_are_fitted_to_what_is_asked_for(asked):
    noise = np.exp(0.3 * np.random.default_rng(0).standard_normal(N))
    model = regressor(target_transform=asked, members=["laplace"]).fit(X, SKEWED * noise)
    fitted = model.target_transform_.forward((SKEWED * noise)[:, None])
    assert abs(model.members_[0].models[0].intercept_[0] - fitted.mean()) < 0.5
    assert model.score(X, SKEWED) > 0.5
    mean = model.out_of_fold_.predicted.mean()
    assert mean == pytest.approx((SKEWED * noise).mean(), rel=0.3)


def test_auto_looks_at_what_is_skewed_only():
    assert regressor(target_transform="auto").fit(X, Y).target_transform_ is None
    model = regressor(target_transform="auto").fit(X, np.exp(4.0 * Y))
    assert isinstance(model.target_transform_, (LogTransform, RankTransform))


def test_auto_keeps_what_members_fit_well_as_it_is():
    rng = np.random.default_rng(1)
    A = rng.standard_normal((500, 8))
    y = 5.0 * A[:, 0] ** 3 + A[:, 1] + 0.1 * rng.standard_normal(500)
    options = {"members": ["manhattan_laplace", "evidence_quantile"], "n_folds": 2}
    model = regressor(target_transform="auto", **options).fit(A[:200], y[:200])
    assert model.target_transform_ is None
    ranked = regressor(target_transform="rank", **options).fit(A[:200], y[:200])
    lost, kept = (1.0 - one.score(A[200:], y[200:]) for one in (ranked, model))
    assert lost > 1.3 * kept


def test_it_is_kept_in_files(tmp_path):
    both = np.stack([SKEWED, -(SKEWED**2)], axis=1)
    for asked in ("log", "rank"):
        model = gpukfl.fit(
            X, both, target_transform=asked, members=["laplace"], n_folds=3, progress=False
        )
        model.save(tmp_path / "m")
        np.testing.assert_array_equal(gpukfl.load(tmp_path / "m").predict(X), model.predict(X))


def test_another_transform_is_refused():
    with pytest.raises(ValueError, match="expected target_transform to be one of"):
        regressor(target_transform="cube").fit(X, Y)


@pytest.mark.parametrize(("max_time", "rows"), [(None, 1_000), (0.5, 250), (1e4, 1_000)])
def test_a_scale_is_chosen_on_fewer_rows_where_time_is_short(monkeypatch, max_time, rows):
    seen, clock = [], Clock(1e-6)

    def error(_, samples):
        seen.append(len(samples))
        clock.now += 0.01
        return 1.0

    monkeypatch.setattr("time.perf_counter", clock)
    monkeypatch.setattr(_transforms, "_kernel_ridge_error", error)
    Y = np.exp(2.0 * np.random.default_rng(0).normal(size=(1_200, 1)))
    samples = Samples(np.zeros((1_200, 1)), Y, None, ())
    assert _transforms.choose_transform("auto", samples, Run(max_time, 0, 0)) is None
    assert seen[-3:] == [rows] * 3
