"""HKRR by evidence is a Gaussian process, with variances; the default begins from its map."""

from dataclasses import replace

import numpy as np
import pytest
from brief import hkrr, without_seconds
from hkrr_cases import LABELS, NEW, Y2, D, N, X, Y, formula
from interruption import interrupt
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

import gpukfl
from gpukfl import HKRRClassifier, HKRRRegressor
from gpukfl.core._results import History, Status
from gpukfl.estimators.hkrr import Centers, HoldOut, _metric
from gpukfl.estimators.hkrr import _fit as _by_evidence
from gpukfl.methods import N_FOLDS, BoundCriterion, ExactCriterion, MetricFit

criteria = pytest.mark.parametrize("criterion", ["evidence", "loo"])
structures = pytest.mark.parametrize("structure", ["diagonal", "full", "low_rank"])
NOISY = Y + 0.1 * np.random.default_rng(5).standard_normal(N)
WEIGHTS = np.random.default_rng(6).uniform(0.5, 2.0, N)


def regressor(criterion="evidence", **options):
    return HKRRRegressor(**hkrr(criterion=criterion, **{"random_state": 0, **options}))


def scaled(model, X):
    return X if model.scaling_ is None else model.scaling_(X)


def theirs(model, X, y, nu, weights=None):
    """Give scikit-learn's process at the model's hyperparameters, on its scale of X."""
    X = scaled(model, X)
    ell = model.lengthscale_ / np.diag(model.B_)
    inner = RBF(ell) if nu is None else Matern(ell, nu=nu)
    kernel, noise = ConstantKernel(model.amplitude_[0] ** 2) * inner, model.noise_[0] ** 2
    if weights is None:
        gp = GaussianProcessRegressor(kernel + WhiteKernel(noise), alpha=0.0, optimizer=None)
    else:
        gp = GaussianProcessRegressor(kernel, alpha=noise / weights, optimizer=None)
    return gp.fit(X, y)


# ---------------------------------------------------------------------- a Gaussian process


def test_exact_copies_are_counted_once():
    once, twice = regressor().fit(X, NOISY), regressor().fit(np.tile(X, (2, 1)), np.tile(NOISY, 2))
    assert twice.evidence_ == pytest.approx(once.evidence_, rel=1e-9)
    np.testing.assert_allclose(twice.predict(NEW), once.predict(NEW), rtol=1e-9)
    some = np.concatenate([np.arange(len(X)), np.arange(len(X) // 2)])
    heavier = np.where(np.arange(len(X)) < len(X) // 2, 2.0, 1.0)
    copied = regressor().fit(X[some], NOISY[some])
    weighted = regressor().fit(X, NOISY, sample_weight=heavier)
    assert copied.evidence_ == pytest.approx(weighted.evidence_, rel=1e-9)


@pytest.mark.parametrize(("kernel", "nu"), [("gaussian", None), ("matern32", 1.5)])
@pytest.mark.parametrize("scaling", [None, "standard"])
def test_it_is_the_process_of_scikit_learn(kernel, nu, scaling):
    model = regressor(kernel=kernel, scaling=scaling).fit(X, NOISY)
    gp = theirs(model, X, NOISY - NOISY.mean(), nu)
    assert model.evidence_ == pytest.approx(gp.log_marginal_likelihood_value_, rel=1e-7)
    expected, spread = gp.predict(scaled(model, NEW), return_std=True)
    mean, std = model.predict(NEW, return_std=True)
    bound = model.bound_[0]
    np.testing.assert_allclose(mean, NOISY.mean() + np.clip(expected, -bound, bound), atol=1e-8)
    np.testing.assert_allclose(std, spread, rtol=1e-6)
    np.testing.assert_allclose(model.predict(NEW), mean)


def test_the_evidence_is_as_high_as_scikit_learn_finds():
    model = regressor(kernel="matern52").fit(X, NOISY)
    kernel = ConstantKernel() * Matern(np.full(D, 2.0), (1e-2, 1e7), nu=2.5) + WhiteKernel(0.1)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    gp = GaussianProcessRegressor(kernel, n_restarts_optimizer=2, random_state=0)
    gp.fit(scaled, NOISY - NOISY.mean())
    assert model.evidence_ > gp.log_marginal_likelihood_value_ - 6.0  # what the prior costs


def test_weights_divide_the_variance_of_the_noise():
    model = regressor().fit(X, NOISY, sample_weight=WEIGHTS)
    relative = WEIGHTS / WEIGHTS.mean()
    target = NOISY - np.average(NOISY, weights=WEIGHTS)
    gp = theirs(model, X, target, None, relative)
    assert model.evidence_ == pytest.approx(gp.log_marginal_likelihood_value_, rel=1e-6)
    mean = gp.predict(scaled(model, NEW)) + np.average(NOISY, weights=WEIGHTS)
    np.testing.assert_allclose(model.predict(NEW), mean, atol=1e-7)


@criteria
@structures
def test_it_learns_the_direction(criterion, structure):
    model = regressor(criterion, structure=structure).fit(X, NOISY)
    assert model.score(NEW, np.sin(3 * NEW @ [0.8, -0.6, 0, 0, 0])) > 0.85
    assert (model.learned_, model.tuning_) == (True, [])
    assert set(np.argsort(model.feature_importances_)[-2:].tolist()) == {0, 1}
    B = model.B_
    assert np.linalg.norm(B, 2) == pytest.approx(1.0)
    assert B.shape == (D, D) if structure != "low_rank" else B.shape[1] == D
    assert (np.count_nonzero(B - np.diag(np.diag(B))) == 0) if structure == "diagonal" else True
    np.testing.assert_allclose(model.predict(NEW), in_its_units(model)[:, 0], atol=1e-8)


def in_its_units(model):
    return formula(model, scaled(model, NEW))


def test_a_map_of_given_rows():
    model = regressor(n_components=2).fit(X, NOISY)
    assert model.B_.shape == (2, D)


def test_targets_share_the_map_and_have_their_amplitudes():
    noisy = Y2 + 0.1 * np.random.default_rng(7).standard_normal(Y2.shape)
    model = regressor().fit(X, 3.0 * noisy)
    mean, std = model.predict(NEW, return_std=True)
    assert mean.shape == std.shape == (len(NEW), 2)
    assert model.amplitude_.shape == model.noise_.shape == (2,)
    ratio = model.noise_ / model.amplitude_
    assert ratio[0] == pytest.approx(ratio[1])
    one = regressor().fit(X, noisy)
    np.testing.assert_allclose(model.noise_, 3.0 * one.noise_, rtol=1e-3)


@criteria
def test_a_given_ridge_is_kept(criterion):
    assert regressor(criterion, ridge=1e-3).fit(X, NOISY).ridge_ == pytest.approx(1e-3)


# ---------------------------------------------------------------------- many rows


@pytest.mark.parametrize(("n_centers", "by_pairs"), [("auto", True), (40, False)])
def test_of_more_rows_some_are_taken_unless_centres_are_asked_for(monkeypatch, n_centers, by_pairs):
    learned_on, original = [], _metric.fit_metric

    def fit_metric(criterion, *args, **options):
        learned_on.append((type(criterion), criterion.scale))
        return original(criterion, *args, **options)

    monkeypatch.setattr(_metric, "fit_metric", fit_metric)
    for module in (_metric, _by_evidence):
        monkeypatch.setattr(module, "EXACT_ROWS", 60)
        monkeypatch.setattr(module, "FIRST_ROWS", 30)
    regressor(n_centers=n_centers).fit(X, NOISY)
    expected = [
        (ExactCriterion, 30),
        (ExactCriterion, 60) if by_pairs else (BoundCriterion, len(X)),
    ]
    assert learned_on == expected


def test_through_centres_it_is_nearly_the_same(monkeypatch):
    options = {"kernel": "gaussian", "n_centers": 90, "refit_centers": 110}
    exact = regressor(**options).fit(X, NOISY)
    monkeypatch.setattr(_metric, "EXACT_ROWS", 60)
    monkeypatch.setattr(_by_evidence, "EXACT_ROWS", 60)
    monkeypatch.setattr(_metric, "FIRST_ROWS", 60)
    monkeypatch.setattr(_by_evidence, "FIRST_ROWS", 60)
    model = regressor(**options).fit(X, NOISY)
    assert len(model.centers_) == 110
    assert model.evidence_ == pytest.approx(exact.evidence_, abs=8.0)
    (mean, std), (expected, spread) = (m.predict(NEW, return_std=True) for m in (model, exact))
    np.testing.assert_allclose(mean, expected, atol=0.15)
    np.testing.assert_allclose(std, spread, rtol=0.3)


def test_a_memory_map_is_its_array(tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    one, other = regressor().fit(X, NOISY), regressor().fit(mapped, NOISY)
    np.testing.assert_allclose(other.predict(NEW), one.predict(NEW), atol=1e-10)


def test_rows_of_no_weight_in_a_memory_map_count_nothing(tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    weights = np.where(np.arange(N) < 20, 0.0, WEIGHTS)
    one = regressor().fit(X[20:], NOISY[20:], sample_weight=weights[20:])
    other = regressor().fit(mapped, NOISY, sample_weight=weights)
    assert other.centers_.shape == one.centers_.shape
    np.testing.assert_allclose(other.predict(NEW), one.predict(NEW), atol=0.02)


# ---------------------------------------------------------------------- places, classes, files


def test_every_place_finds_the_same_function(on):
    X_there, y_there, new = on.put(X), on.put(NOISY), on.put(NEW)
    expected = regressor().fit(on.rounded(X), on.rounded(NOISY))
    model = regressor().fit(X_there, y_there)
    mean, std = model.predict(new, return_std=True)
    on.assert_lives_here(mean)
    on.assert_lives_here(std)
    mean_, std_ = expected.predict(NEW, return_std=True)
    loose = 1e-2 if on.dtype_name == "float32" else 1e-5
    np.testing.assert_allclose(on.host(mean), mean_, atol=loose)
    np.testing.assert_allclose(on.host(std), std_, rtol=10 * loose)


@criteria
def test_classes(criterion):
    model = HKRRClassifier(criterion=criterion, random_state=0).fit(X, LABELS)
    assert model.score(X, LABELS) > 0.9
    np.testing.assert_allclose(model.predict_proba(NEW).sum(axis=1), 1.0)


def test_the_summary_says_what_was_maximised():
    fitted = gpukfl.fit(X, NOISY, method="hkrr", criterion="evidence", progress=False)
    text = str(fitted.summary())
    assert "evidence" in text
    assert "nats" in text
    assert "noise" in text
    assert "map: diagonal" in text


def test_a_fit_is_repeated_by_its_random_state():
    one, other = (HKRRRegressor(random_state=3).fit(X, NOISY) for _ in range(2))
    assert without_seconds(one.tuning_) == without_seconds(other.tuning_)
    np.testing.assert_array_equal(one.predict(NEW), other.predict(NEW))


# ---------------------------------------------------------------------- the default


def test_the_default_judges_the_map_of_the_evidence_on_rows_held_out():
    rng = np.random.default_rng(2)
    samples = rng.standard_normal((200, 8))
    y = np.sin(3 * samples[:, 0]) + 0.1 * samples[:, 1] + 0.05 * rng.standard_normal(200)
    model = HKRRRegressor(random_state=0).fit(samples, y)
    assert sum(not trial["learned"] for trial in model.tuning_[:2]) == 2  # it, and another
    assert model.tuning_[0]["score"] > 0.9
    assert model.evidence_ is None


def test_a_given_lengthscale_is_no_affair_of_the_evidence():
    model = HKRRRegressor(**hkrr(lengthscale=1.0, max_iter=10, random_state=0)).fit(X, NOISY)
    assert model.lengthscale_ == pytest.approx(1.0)


# ---------------------------------------------------------------------- ends and bad input


def test_no_time_is_still_a_model():
    with pytest.warns(ConvergenceWarning, match="max_time was reached"):
        model = regressor(max_time=1e-3).fit(X, NOISY)
    assert model.status_ == "TIME_LIMIT"
    assert np.isfinite(model.predict(NEW)).all()


def test_an_interruption_keeps_the_best_so_far(monkeypatch):
    interrupt(monkeypatch, ExactCriterion, "__call__", 6)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = regressor().fit(X, NOISY)
    assert model.status_ == "INTERRUPTED"
    assert np.isfinite(model.predict(NEW)).all()


def test_an_interruption_of_the_calibration_is_told(monkeypatch):
    model = HKRRClassifier(**hkrr(criterion="evidence", random_state=0))
    with monkeypatch.context() as counted:
        calls = interrupt(counted, ExactCriterion, "__call__", 10**9)
        model.fit(X, LABELS)
    interrupt(monkeypatch, ExactCriterion, "__call__", calls[0] - 2)
    with pytest.warns(ConvergenceWarning, match="its probabilities are not calibrated"):
        model.fit(X, LABELS)
    assert model.status_ == "INTERRUPTED"
    assert np.isfinite(model.predict_proba(NEW)).all()


@criteria
@pytest.mark.filterwarnings("ignore:y is constant")
def test_a_constant_target_is_predicted(criterion):
    model = regressor(criterion).fit(X, np.full(N, 3.0))
    np.testing.assert_allclose(model.predict(NEW), 3.0)


@criteria
@pytest.mark.parametrize("n", [2, 3, 5])
def test_few_rows(criterion, n):
    model = regressor(criterion).fit(X[:n], Y[:n])
    mean, std = model.predict(NEW, return_std=True)
    assert np.isfinite(mean).all()
    assert (std >= 0).all()


def test_repeated_rows_and_targets_without_noise():
    model = regressor(kernel="matern32").fit(np.concatenate([X, X[:9]]), np.append(Y, Y[:9]))
    assert model.score(X, Y) > 0.99


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"criterion": "aic"}, ValueError, "criterion to be one of .*'loo', got 'aic'"),
        ({"criterion": 3}, TypeError, "expected criterion to be HoldOut or str, got 3"),
        ({"structure": "sparse"}, ValueError, "structure to be one of .*got 'sparse'"),
        (
            {"criterion": "hold_out", "structure": "diagonal"},
            ValueError,
            "needs criterion='evidence'",
        ),
        ({"structure": "full", "n_components": 2}, ValueError, "expected n_components='auto'"),
        ({"lengthscale": 2.0}, ValueError, "expected lengthscale='auto' with criterion='evidence'"),
        ({"n_components": 9}, ValueError, "at most 5 components, as X has 5 features, got 9"),
    ],
    ids=str,
)
def test_what_does_not_go_together_is_named(options, error, match):
    with pytest.raises(error, match=match):
        regressor(**options).fit(X, Y)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"n_starts": -1}, ValueError, "n_starts to be an integer of at least 0, got -1"),
        ({"warm_start": "no"}, TypeError, "warm_start to be True or False, got 'no'"),
    ],
)
def test_bad_fields_of_holding_out_are_named(options, error, match):
    with pytest.raises(error, match=match):
        HoldOut(**options)


# ---------------------------------------------------------------------- after other rows


def after(known, X, y, **options):
    model = regressor(**{"structure": "diagonal", **options})
    known = model.fit_like(X, y, None, known)
    return model, known


def test_a_metric_of_about_the_same_rows_shortens_the_way(monkeypatch):
    monkeypatch.setattr(_by_evidence, "FIRST_ROWS", 40)
    monkeypatch.setattr(_metric, "FIRST_ROWS", 40)
    _, known = after(None, X[:-10], NOISY[:-10])
    anew, _ = after(None, X[10:], NOISY[10:])
    model, _ = after(known, X[10:], NOISY[10:])
    assert model.n_iter_ < anew.n_iter_
    assert model.evidence_ == pytest.approx(anew.evidence_, abs=0.5)


@pytest.mark.parametrize("many", [False, True])
def test_a_calibration_begins_at_the_metric_of_the_fit(monkeypatch, many):
    begun = []
    fitted = _metric.fit_metric

    def noted(criterion, starts, **options):
        begun.append(len(starts))
        return fitted(criterion, starts, **options)

    monkeypatch.setattr(_metric, "fit_metric", noted)
    monkeypatch.setattr(_by_evidence, "KEPT_ROWS", N // 2 if many else 10 * N)
    model = HKRRClassifier(**hkrr(criterion="evidence", random_state=0)).fit(X, LABELS)
    assert np.isfinite(model.predict_proba(NEW)).all()
    # From two starts by all rows; in the folds that judge it from the one it came to, or not at all
    assert begun == [2] + [1] * (0 if many else N_FOLDS)


def test_which_features_matter_is_not_told_by_few_rows_that_are_held_out():
    _, known = after(None, X[:-10], NOISY[:-10])
    model, _ = after(known, X[10:], NOISY[10:])
    anew, _ = after(None, X[10:], NOISY[10:])
    assert model.evidence_ == pytest.approx(anew.evidence_, abs=0.5)
    turned = replace(known, setting=replace(known.setting, C=known.setting.C[::-1]))
    other, _ = after(turned, X[10:], NOISY[10:])
    np.testing.assert_allclose(other.B_, model.B_, rtol=1e-6)


@structures
def test_a_given_ridge_is_kept_after_other_rows(monkeypatch, structure):
    if structure != "diagonal":  # of few rows their maps begin anew
        monkeypatch.setattr(_by_evidence, "KEPT_ROWS", 40)
    _, known = after(None, X[:-10], NOISY[:-10], structure=structure)
    model, _ = after(known, X[10:], NOISY[10:], ridge=1e-3, structure=structure)
    assert model.ridge_ == pytest.approx(1e-3)


def test_of_many_rows_the_metric_of_another_fit_is_kept(monkeypatch):
    monkeypatch.setattr(_by_evidence, "KEPT_ROWS", 40)
    monkeypatch.setattr(_metric, "FIRST_ROWS", 40)
    first, known = after(None, X[:-10], NOISY[:-10])
    model, _ = after(known, X[10:], NOISY[10:])
    anew, _ = after(None, X[10:], NOISY[10:])
    np.testing.assert_allclose(model.B_ / model.B_[0, 0], first.B_ / first.B_[0, 0], rtol=1e-9)
    assert model.evidence_ == pytest.approx(anew.evidence_, rel=0.1)


def test_of_many_rows_a_map_goes_on_from_that_of_another_fit(monkeypatch):
    monkeypatch.setattr(_by_evidence, "KEPT_ROWS", 40)
    monkeypatch.setattr(_by_evidence, "FIRST_ROWS", 40)
    monkeypatch.setattr(_metric, "FIRST_ROWS", 40)
    first, known = after(None, X[:-10], NOISY[:-10], structure="full")
    model, _ = after(known, X[10:], NOISY[10:], structure="full")
    anew, _ = after(None, X[10:], NOISY[10:], structure="full")
    assert model.n_iter_ < anew.n_iter_
    assert abs(model.B_ - first.B_).max() > 1e-4  # it is not kept as it was
    assert model.evidence_ == pytest.approx(anew.evidence_, abs=3.0)


# ---------------------------------------------------------------------- what does not vary


@pytest.mark.each
@pytest.mark.parametrize("criterion", ["evidence", "loo"])
@pytest.mark.parametrize("structure", ["diagonal", "low_rank", "full"])
@pytest.mark.filterwarnings("ignore:HKRRRegressor after 100 iterations")
def test_targets_that_do_not_vary_say_nothing_of_others(criterion, structure):
    options = hkrr(criterion=criterion, structure=structure)
    alone = HKRRRegressor(**options).fit(X, Y)
    both = HKRRRegressor(**options).fit(X, np.stack([Y, np.full(N, 5.0), np.full(N, 0.1)], axis=1))
    found, deviations = both.predict(NEW, return_std=True)
    np.testing.assert_allclose(found[:, 0], alone.predict(NEW), rtol=0, atol=5e-3)
    np.testing.assert_allclose(found[:, 1:], np.tile([5.0, 0.1], (len(NEW), 1)))
    np.testing.assert_array_equal(deviations[:, 1:], 0.0)
    assert both.evidence_ == pytest.approx(alone.evidence_, rel=0.01)


def test_no_more_pairs_are_looked_at_than_of_a_part_of_many_rows(monkeypatch):
    seen, original = [], _metric.exact_criterion
    monkeypatch.setattr(_metric, "EXACT_ROWS", 60)
    monkeypatch.setattr(_by_evidence, "EXACT_ROWS", 60)

    def exact(part, how):
        seen.append(part.n)
        return original(part, how)

    monkeypatch.setattr(_metric, "exact_criterion", exact)
    options = hkrr(criterion="evidence", structure="low_rank", n_components="auto", n_centers=40)
    HKRRRegressor(**options).fit(X, Y)
    assert len(seen) > 1
    assert max(seen[:-1]) <= 60  # the last is the solve


def test_noise_that_rounding_exceeds_is_told(monkeypatch):
    monkeypatch.setattr(_by_evidence, "EXACT_ROWS", 60)
    fixed = MetricFit(np.full(D, 1e-3), 1e-14, 0.0, Status.CONVERGED, History())
    monkeypatch.setattr(_by_evidence.EvidenceHKRR, "metric", lambda *_: fixed)
    model = regressor(kernel="matern32", structure="diagonal", n_centers=Centers(refit=50))
    linear = X[:, 0]
    with pytest.warns(ConvergenceWarning, match=r"noise of 1\.0e-14 .* below the rounding"):
        model.fit(X, linear)
    assert model.score(X, linear) > 0.99
    assert model.noise_[0] ** 2 > 2e-14 * model.amplitude_[0] ** 2
