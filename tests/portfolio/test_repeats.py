"""Copies of rows: what they tell of rows that come again, and that new rows are as without."""

import numpy as np
import pytest
from near_copies import near_copies
from portfolio_cases import THREE, TWO, N, X, Y, classifier, regressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.metrics import r2_score

import gpukfl
from gpukfl import runtime
from gpukfl.estimators._samples import Samples
from gpukfl.portfolio._folds import split_folds
from gpukfl.portfolio._repeats import CopyGroups, estimate_repeatability, repeated_share
from gpukfl.predictor import SeenRows

NEW = np.random.default_rng(5).standard_normal((200, X.shape[1]))
ROUGH = Y + np.random.default_rng(6).standard_normal(N)  # which no smooth function predicts
TWICE = np.repeat(np.arange(N), 2)
SMOOTH = {"members": ["laplace", "linear"]}


def groups_of(X, Y, weights=None):
    samples = Samples.validate(X, Y, weights, labels=False)
    return CopyGroups.from_samples(samples, samples.Y)


# ---------------------------------------------------------------------- new rows and seen rows


@pytest.mark.parametrize("y", [ROUGH, np.stack([ROUGH, Y], axis=1)], ids=["one", "two targets"])
def test_rows_given_twice_change_nothing_at_new_rows(y):
    once, twice = regressor(**SMOOTH).fit(X, y), regressor(**SMOOTH).fit(X[TWICE], y[TWICE])
    np.testing.assert_array_equal(once.predict(NEW), twice.predict(NEW))
    np.testing.assert_array_equal(once.predict_interval(NEW), twice.predict_interval(NEW))
    np.testing.assert_array_equal(once.predict_quantiles(NEW), twice.predict_quantiles(NEW))
    assert once.seen_rows_ is None
    scores = [model.leaderboard()["score"] for model in (once, twice)]
    np.testing.assert_array_equal(*scores)


@pytest.mark.parametrize("y", [TWO, THREE])
def test_rows_given_twice_change_no_class_at_new_rows(y):
    once, twice = classifier(**SMOOTH).fit(X, y), classifier(**SMOOTH).fit(X[TWICE], y[TWICE])
    np.testing.assert_array_equal(once.predict_proba(NEW), twice.predict_proba(NEW))
    np.testing.assert_array_equal(once.predict_set(NEW), twice.predict_set(NEW))
    found = twice.predict_proba(X)
    assert (found > 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert (twice.predict(X) == y).mean() >= (once.predict(X) == y).mean()


def test_where_copies_agree_a_row_that_comes_again_has_its_target():
    twice = regressor(**SMOOTH).fit(X[TWICE], ROUGH[TWICE])
    seen = twice.seen_rows_
    assert seen.n_copies == 2 * N
    np.testing.assert_allclose(seen.repeatability, N / (N + 10.0))
    left = twice.out_of_fold_
    share = repeated_share(seen.repeatability, np.array([2.0]))[0]
    expected = left.predicted + share * (left.truth - left.predicted)
    np.testing.assert_allclose(twice.predict(left.rows), expected[:, 0], rtol=1e-12)
    narrow, wide = (np.ptp(twice.predict_interval(rows), axis=1).mean() for rows in (X, NEW))
    assert narrow < 0.5 * wide
    ends = twice.predict_interval(X)
    assert ((ends[:, 0] <= ROUGH) & (ends[:, 1] >= ROUGH)).mean() >= 0.9
    middle = twice.predict_quantiles(X, [0.5])[:, 0]
    assert np.abs(middle - ROUGH).max() < np.abs(left.predicted - left.truth).max()


def test_where_copies_disagree_by_noise_alone_hardly_anything_repeats():
    rng = np.random.default_rng(7)
    y = Y[TWICE] + rng.standard_normal(2 * N)
    model = regressor(**SMOOTH).fit(X[TWICE], y)
    again = Y + rng.standard_normal(N)
    share = 0.0 if model.seen_rows_ is None else model.seen_rows_.repeatability[0]
    assert share < 0.3
    own = model.predict(X)
    assert np.mean((own - again) ** 2) < 1.2 * np.mean((Y - again) ** 2) + np.var(Y - own)


def test_copies_that_agree_to_rounding_are_other_rows():
    """Of rows that are not equal nothing is known: each is a new one for the others."""
    near, targets = near_copies(X, np.full(N, 2)), ROUGH[TWICE]
    model = regressor(**SMOOTH).fit(near, targets)
    assert model.seen_rows_ is None
    exact = regressor(**SMOOTH).fit(X[TWICE], near_copies(targets[:, None], np.ones(2 * N, int)))
    assert exact.seen_rows_.repeatability[0] == pytest.approx(N / (N + 10.0), rel=1e-6)


def test_rows_without_copies_have_no_table_and_cells_neither():
    assert regressor(members=["linear"]).fit(X, Y).seen_rows_ is None
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 4, (200, 2)).astype(float)
    assert regressor(members=["linear"]).fit(cells, rng.standard_normal(200)).seen_rows_ is None


def test_a_later_fit_forgets_the_rows_of_an_earlier_one():
    model = regressor(members=["linear"]).fit(X[TWICE], ROUGH[TWICE])
    assert model.seen_rows_ is not None
    assert model.fit(X, Y).seen_rows_ is None
    assert "seen_rows_" not in vars(model)


@pytest.mark.parametrize("refit", [False, True, "both"])
def test_rows_that_were_never_held_out_move_by_their_share(refit):
    model = regressor(members=["linear"], n_folds=1, refit=refit).fit(X[TWICE], ROUGH[TWICE])
    seen = model.seen_rows_
    held = np.isin(seen.rows[:, 0], model.out_of_fold_.rows[:, 0])
    assert (seen.pulls[held] == 1.0).all()
    share = repeated_share(seen.repeatability, np.full(1, 2.0))[0, 0]
    np.testing.assert_allclose(seen.pulls[~held], share)
    before = model._outputs(seen.rows)
    expected = before + seen.pulls * (seen.values - before)
    np.testing.assert_allclose(model.predict(seen.rows), expected[:, 0], rtol=1e-12)


def test_equal_rows_with_other_targets_are_held_out_together():
    rows, targets = np.repeat(X, 3, axis=0), np.random.default_rng(0).standard_normal((3 * N, 1))
    samples = Samples.validate(rows, targets, None, labels=False)
    assert len(samples) == 3 * N
    for n_folds in (1, 3):
        for fold in split_folds(samples, np.random.RandomState(0), n_folds):
            inside, outside = ({tuple(row) for row in part.X} for part in vars(fold).values())
            assert not inside & outside
            assert len(fold.inside) + len(fold.outside) == 3 * N


# ---------------------------------------------------------------------- the estimate


def drawn(rng, n, *, between, within, counts):
    """Residuals of different rows that each have some copies."""
    group = np.repeat(np.arange(n), counts)
    effects = np.sqrt(between) * rng.standard_normal(n)
    y = effects[group] + np.sqrt(within) * rng.standard_normal(len(group))
    return np.arange(n, dtype=float)[group][:, None] * [1.0, 0.1], y[:, None]


@pytest.mark.parametrize(("between", "within"), [(1.0, 3.0), (2.0, 0.5), (0.0, 1.0), (1.0, 0.0)])
def test_the_share_is_that_of_the_variances(between, within):
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 5, 4_000)
    rows, y = drawn(rng, 4_000, between=between, within=within, counts=counts)
    groups = groups_of(rows, y)
    judged = np.ones(len(groups.means), dtype=bool)
    found = estimate_repeatability(groups, groups.means, judged, together=False)
    np.testing.assert_allclose(found, between / (between + within), atol=0.03)


def test_predictions_are_those_of_the_mixed_model_equations():
    rng = np.random.default_rng(1)
    counts, between, within = np.array([1, 2, 3, 7]), 1.5, 0.4
    group = np.repeat(np.arange(4), counts)
    y = rng.standard_normal(len(group))
    Z = (group[:, None] == np.arange(4)).astype(float)
    V = between * Z @ Z.T + within * np.eye(len(y))
    expected = between * Z.T @ np.linalg.solve(V, y)
    share = repeated_share(np.array([between / (between + within)]), counts.astype(float))[:, 0]
    np.testing.assert_allclose(share * (Z.T @ y) / counts, expected)


def test_weights_are_ratios_and_equal_ones_are_none():
    rng = np.random.default_rng(2)
    rows, y = drawn(rng, 50, between=1.0, within=1.0, counts=np.full(50, 3))
    w = rng.uniform(0.5, 2.0, len(y))
    judged = np.ones(50, dtype=bool)

    def found(weights):
        groups = groups_of(rows, y, weights)
        return estimate_repeatability(groups, groups.means, judged, together=False)

    np.testing.assert_allclose(found(w), found(1e6 * w))
    np.testing.assert_array_equal(found(np.full(len(y), 7.0)), found(None))


def test_weights_of_merged_copies_count_as_those_of_single_ones():
    """Copies of one target are one sample, and have the sums that they have one by one."""
    rows = np.repeat(np.arange(30.0)[:, None] * [1.0, 2.0], 2, axis=0)
    w = np.random.default_rng(3).uniform(1.0, 3.0, 60)
    groups = groups_of(rows, np.repeat(np.arange(30.0), 2)[:, None], w)
    pairs = w.reshape(30, 2)
    np.testing.assert_allclose(groups.counts, pairs.sum(axis=1) ** 2 / (pairs**2).sum(axis=1))
    assert not groups.squares.any()


def test_of_each_target_its_own_share_repeats():
    y = np.stack([ROUGH, Y + np.random.default_rng(8).standard_normal(N)], axis=1)[TWICE]
    y[:, 1] += 5.0 * np.random.default_rng(9).standard_normal(2 * N)
    shares = regressor(**SMOOTH).fit(X[TWICE], y).seen_rows_.repeatability
    assert shares[0] == pytest.approx(N / (N + 10.0))
    assert shares[1] < 0.4


# ---------------------------------------------------------------------- the table


@pytest.mark.entered
def test_rows_are_found_only_if_every_value_is_equal(on):
    rows = on.rounded(np.random.default_rng(0).standard_normal((50, 3)))
    rows[0], rows[1, 1] = [0.0, 1.0, 2.0], np.nan
    ones = np.ones((50, 2))
    table = SeenRows(rows.astype(float), 3.0 * ones, 0.5 * ones, ones, np.ones(2), 100, 0.5)
    asked = np.concatenate([rows[[4, 0, 1]], rows[2:4] * (1 + 4 * on.eps)])
    asked[1, 0] = -0.0
    index, number = table.find(on.put(asked))
    np.testing.assert_array_equal(index, [0, 1, 2])
    np.testing.assert_array_equal(number, [4, 0, 1])
    moved = table.move(on.put(asked), on.put(np.ones((5, 2))))
    on.assert_lives_here(moved)
    np.testing.assert_array_equal(on.host(moved), [[2.0, 2.0]] * 3 + [[1.0, 1.0]] * 2)
    assert len(table.find(on.put(asked[:0]))[0]) == 0


def test_files_and_the_runtime_know_rows_that_were_seen(tmp_path):
    model = gpukfl.fit(X[TWICE], ROUGH[TWICE], progress=False, members=["linear", "laplace"])
    model.save(tmp_path / "model.gpukfl")
    loaded, served = gpukfl.load(tmp_path / "model.gpukfl"), runtime.load(tmp_path / "model.gpukfl")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.predict_interval(X), model.predict_interval(X))
    np.testing.assert_allclose(served.predict(X), model.predict(X), rtol=1e-9)
    assert r2_score(ROUGH, model.predict(X)) > 0.95
    assert any("for rows that are in the fit" in note for note in model.leaderboard()["note"])
    assert f"{len(TWICE)} rows, {len(X)} of them different" in loaded.summary()
    model.report(tmp_path / "report.html")
    assert "for rows that are in the fit" in (tmp_path / "report.html").read_text()


@pytest.mark.torch
def test_tensors_move_too(torch):
    model = regressor(**SMOOTH).fit(torch.asarray(X[TWICE]), torch.asarray(ROUGH[TWICE]))
    own = regressor(**SMOOTH).fit(X[TWICE], ROUGH[TWICE])
    found = model.predict(torch.asarray(X))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), own.predict(X), rtol=1e-6)


@pytest.mark.slow
def test_scores_of_tasted_wines_reach_those_of_trees():
    """Marks in whole numbers, of which a quarter is a copy of another row."""
    rng = np.random.default_rng(0)
    n = 1_000
    rows = np.round(rng.gamma(3.0, 1.0, (n, 8)), 2)
    smooth = 0.4 * rows[:, 0] - 0.3 * rows[:, 1] + 0.2 * np.sin(rows[:, 2])
    marks = np.round(5.5 + smooth - smooth.mean() + 0.6 * rng.standard_normal(n))
    again = np.concatenate([np.arange(n), rng.choice(n, n // 3)])
    order = rng.permutation(len(again))
    inside, outside = again[order[:-150]], again[order[-150:]]
    ours = gpukfl.fit(rows[inside], marks[inside], progress=False, effort="quick", random_state=0)
    own = r2_score(marks[outside], ours.predict(rows[outside]))
    for trees in (HistGradientBoostingRegressor(), RandomForestRegressor(random_state=0)):
        other = trees.fit(rows[inside], marks[inside]).predict(rows[outside])
        assert own > r2_score(marks[outside], other)
