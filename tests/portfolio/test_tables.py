"""Portfolios of tables: an encoding in each fold, codes for trees, importances of columns."""

import numpy as np
import pandas as pd
import pytest
from portfolio_cases import notes, weights
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning

import gpukfl
from gpukfl.estimators._samples import find_duplicates
from gpukfl.portfolio import Encodings
from gpukfl.portfolio._importances import group_columns
from gpukfl.tables import Encoding, Table
from gpukfl.tables._seen import with_gaps

N = 150
RNG = np.random.default_rng(9)
SHOP = RNG.integers(0, 30, N)
SIZE = RNG.normal(size=N)
FRAME = pd.DataFrame(
    {
        "shop": [f"shop {k}" for k in SHOP],
        "size": np.where(RNG.uniform(size=N) < 0.2, np.nan, SIZE),
        "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.integers(0, 400, N), "D"),
        "colour": RNG.choice(["red", "blue"], N),
    }
)
Y = 0.1 * SHOP + SIZE
TABLE = Table.learn(FRAME)
CODES = TABLE.codes(FRAME)
QUICK = {"members": ["linear", "trees", "laplace"], "n_folds": 3, "random_state": 0}


class Remembering(RegressorMixin, BaseEstimator):
    """Keeps what it was fitted to, and what it predicted for."""

    fits: list = []  # noqa: RUF012

    def fit(self, X, y, sample_weight=None):
        self.fits.append((X, y))
        self.mean_ = np.mean(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_) + 1e-3 * X[:, 0]


@pytest.fixture(scope="module")
def model():
    return gpukfl.AutoRegressor(**QUICK).fit(FRAME, Y)


# ---------------------------------------------------------------------- folds


def test_members_get_rows_that_were_encoded_with_their_fold(model):
    Remembering.fits.clear()
    given = gpukfl.AutoRegressor([("it", Remembering())], n_folds=3, random_state=0)
    given.fit(FRAME, Y)
    known = given.encodings_
    assert len(Remembering.fits) == len(known.by_fold) == 3
    for (X, y), encoding in zip(Remembering.fits, known.by_fold, strict=True):
        rows = np.flatnonzero(np.isin(Y, y))
        expected, inside = Encoding.learn(CODES[rows], TABLE.coded, Y[rows])
        np.testing.assert_array_equal(encoding.medians, expected.medians)
        assert X.shape == inside.shape
        assert np.isfinite(X).all()


def test_members_of_one_fold_share_an_encoding_and_predict_with_it(model):
    seen = model.encodings_.folds.view_rows(CODES)
    for member in model.members_:
        for k, one in enumerate(member.models):
            rows = seen.rows(k, member.sees)
            assert rows.shape[1] == one.n_features_in_
    assert seen.rows(0, "numbers") is seen.rows(0, "numbers")


def test_out_of_fold_predictions_are_those_of_the_models_and_their_encodings(model):
    kept = model.out_of_fold_
    for k in range(3):
        rows = kept.fold == k
        found = model._outputs(kept.rows[rows], k)
        np.testing.assert_allclose(found, kept.predicted[rows], rtol=1e-10)


def test_trees_get_gaps_and_statistics_of_many_levels(monkeypatch):
    encoding, encoded = Encoding.learn(CODES, TABLE.coded, Y)
    shop = [j for j, name in enumerate(encoding.names) if name.startswith("shop")]
    rows = with_gaps(encoding, CODES, encoded)
    np.testing.assert_array_equal(rows, np.concatenate([CODES, encoded[:, shop]], axis=1))
    assert np.isnan(rows).any()
    names = [one.name for one in TABLE.coded]
    few = [j for j, name in enumerate(names) if name != "shop"]
    monkeypatch.setattr("gpukfl.tables._seen._BINS", TABLE.coded[names.index("shop")].levels - 1)
    rows = with_gaps(encoding, CODES, encoded)  # more levels than trees tell apart
    np.testing.assert_array_equal(rows, np.concatenate([CODES[:, few], encoded[:, shop]], axis=1))


def test_what_intervals_follow_knows_no_targets():
    first, other = (Encodings.blindly(TABLE, samples_of(y)) for y in (Y, Y[::-1]))
    np.testing.assert_array_equal(first.finite(CODES), other.finite(CODES))
    assert np.isfinite(first.finite(CODES)).all()


def samples_of(y):
    from gpukfl.estimators._samples import Samples

    return Samples(CODES, y[:, None], None)


def test_shallow_trees_are_tried_of_tables_only():
    X = np.stack([SIZE, SHOP], axis=1)
    tried = [
        set(
            gpukfl.AutoRegressor(effort="quick", n_folds=2, random_state=0)
            .fit(*one)
            .leaderboard()["member"]
        )
        for one in ((FRAME, Y), (X, Y))
    ]
    assert tried[0] - tried[1] == {"shallow_trees"}


# ---------------------------------------------------------------------- importances


def test_importances_are_one_for_each_column(model):
    assert len(model.feature_importances_) == model.n_features_in_ == 4
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    assert np.argmax(model.feature_importances_) == 1
    assert sorted(k for group in model.feature_groups_ for k in group) == [0, 1, 2, 3]


def test_columns_of_one_source_are_shuffled_together():
    X = np.random.default_rng(0).normal(size=(60, 4))
    X[::3, 1] = np.nan
    assert group_columns(X) == [[0], [1], [2], [3]]
    assert group_columns(X, [0, 1, 0, 2]) == [[0, 2], [1], [3]]


def test_gaps_do_not_hide_a_correlation():
    x = np.arange(50.0)
    X = np.stack([x, 2.0 * x], axis=1)
    X[24:26, 1] = np.nan
    assert group_columns(X) == [[0, 1]]


# ---------------------------------------------------------------------- the rest of a fit


def test_rows_with_gaps_are_copies_of_each_other():
    rows = np.array([[1.0, np.nan], [2.0, 0.0], [1.0, np.nan], [3.0, 1.0], [1.0, 0.0]])
    firsts, group = find_duplicates(rows, np.array([1.0, 2.0, 1.0, 3.0, 1.0]))
    np.testing.assert_array_equal(firsts, [0, 1, 3, 4])
    np.testing.assert_array_equal(group, [0, 1, 0, 2, 3])


def test_gaps_are_one_value_of_a_cell():
    rows = np.repeat([[1.0, np.nan], [2.0, 0.0], [np.nan, np.nan]], 20, axis=0)
    assert find_duplicates(rows, np.repeat([1.0, 2.0, 3.0], 20)) is None


@pytest.mark.parametrize("transform", ["log", "rank"])
def test_transformed_targets(transform):
    model = gpukfl.AutoRegressor(**QUICK, target_transform=transform).fit(FRAME, np.exp(Y))
    assert model.score(FRAME, np.exp(Y)) > 0.5


def test_time_that_is_over_leaves_a_model_of_the_table():
    with pytest.warns(ConvergenceWarning):
        model = gpukfl.AutoRegressor(random_state=0, max_time=0.3).fit(FRAME, Y)
    assert np.isfinite(model.predict(FRAME)).all()


def test_an_interruption_keeps_what_is_finished():
    class Interrupting(Remembering):
        def fit(self, X, y, sample_weight=None):
            raise KeyboardInterrupt

    members = ["linear", ("late", Interrupting())]
    with pytest.warns(ConvergenceWarning, match="linear"):
        model = gpukfl.AutoRegressor(members, n_folds=3, random_state=0).fit(FRAME, Y)
    assert weights(model) == {"linear": 1.0}
    assert notes(model)["late"] == "interrupted"
    assert np.isfinite(model.predict(FRAME)).all()


def test_one_hold_out_and_many_classes():
    labels = np.array(["low", "mid", "high"])[np.digitize(Y, [0.5, 2.5])]
    model = gpukfl.AutoClassifier(["linear", "trees"], n_folds=1, random_state=0).fit(FRAME, labels)
    assert len(model.encodings_.by_fold) == 1
    assert model.predict_proba(FRAME).shape == (N, 3)
    assert model.score(FRAME, labels) > 0.6


def test_a_failed_fit_leaves_the_table_as_it_was(model):
    before = model.predict(FRAME)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(FRAME.drop(columns="shop"), np.full(N, np.nan))
    np.testing.assert_array_equal(model.predict(FRAME), before)


@pytest.mark.parametrize("library", ["torch"])
def test_members_compute_where_they_are_told(library, model):
    pytest.importorskip(library)
    other = gpukfl.AutoRegressor(**QUICK, backend=library).fit(FRAME, Y)
    assert other.place_.startswith(library)
    np.testing.assert_allclose(other.predict(FRAME), model.predict(FRAME), rtol=1e-3, atol=1e-3)
