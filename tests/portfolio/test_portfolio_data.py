"""Data of portfolios: few rows, weights, several targets, frames, tensors, memory maps."""

import numpy as np
import pandas as pd
import pytest
from portfolio_cases import (
    THREE,
    TWO,
    N,
    X,
    Y,
    classifier,
    regressor,
)
from sklearn.base import clone
from sklearn.metrics import r2_score

import gpukfl

# ---------------------------------------------------------------------- few rows


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("n_folds", ["auto", 1])
def test_few_rows_are_fitted_whole(n, n_folds):
    line = regressor(members=["linear"], n_folds=n_folds).fit(X[:n], X[:n, 0])
    np.testing.assert_allclose(line.predict(X[:n]), X[:n, 0], atol=0.3)
    assert len(line.members_[0].models) == 1
    sides = classifier(members=["laplace"], n_folds=n_folds).fit(X[:n], np.arange(n) % 2)
    np.testing.assert_allclose(sides.predict_proba(X[:n]).sum(axis=1), 1.0)
    for ask in (line.predict_interval, sides.predict_set):
        with pytest.raises(ValueError, match="expected at least 9 held-out rows"):
            ask(X)


def test_two_rows_are_fitted_by_default():
    model = gpukfl.fit([[0.0], [1.0]], [0.0, 1.0], progress=False, random_state=0)
    low, high = model.predict([[0.0], [1.0]])
    assert 0.0 <= low < 0.5 < high <= 1.0


def test_copies_of_one_row_are_refused():
    with pytest.raises(ValueError, match=r"expected at least 2 different rows, .* got 1"):
        regressor().fit(np.ones((3, 2)), np.ones(3))


def test_classes_of_one_row_are_held_out_once():
    labels = np.where(np.arange(30) == 0, "once", np.where(TWO[:30], "yes", "no"))
    model = classifier(members=["laplace"], n_folds=1).fit(X[:30], labels)
    assert model.predict_proba(X).shape == (N, 3)


def test_fewer_rows_than_folds_leave_one_out():
    model = regressor(members=["linear"], n_folds="auto").fit(X[:6], X[:6, 0])
    assert len(model.members_[0].models) == 6


# ---------------------------------------------------------------------- data of every kind


@pytest.mark.parametrize(("make", "y"), [(regressor, Y), (classifier, THREE)])
def test_weights_count_as_copies(make, y):
    counts = np.random.default_rng(0).integers(0, 3, N)
    weighted = make().fit(X, y, sample_weight=counts.astype(float))
    copied = make().fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_array_equal(weighted._outputs(X), copied._outputs(X))
    np.testing.assert_array_equal(weighted.predict(X + 0.1), copied.predict(X + 0.1))


def test_several_targets_share_their_weights():
    both = np.stack([Y, 100.0 * X[:, 2]], axis=1)
    model = regressor().fit(X, both)
    assert model.predict(X).shape == both.shape
    assert r2_score(both, model.predict(X)) > 0.9
    alone = regressor(members=["trees"]).fit(X, both)
    assert alone.predict(X).shape == both.shape


@pytest.mark.parametrize("constant", [0.1, 1e9 + 0.1])
def test_a_target_that_does_not_vary_judges_nobody(constant):
    alone = regressor().fit(X, Y).leaderboard().set_index("member")["score"]
    both = np.stack([Y, np.full(N, constant)], axis=1)
    beside = regressor().fit(X, both).leaderboard().set_index("member")["score"]
    assert beside["linear"] == pytest.approx(alone["linear"], abs=1e-6)


@pytest.mark.parametrize("members", [["linear"], ["trees"], ["laplace"]])
def test_few_rows_of_float32_are_predicted_as_many(members):
    rows = (X + 1e5).astype(np.float32)
    model = regressor(members=members).fit(rows, Y)
    np.testing.assert_array_equal(model.predict(rows[:64]), model.predict(rows)[:64])


def test_a_frame_gives_names():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = gpukfl.fit(frame, Y, progress=False, members=["linear", "laplace"])
    assert model.method == "auto"
    assert model.feature_names == ["a", "b", "c"]
    assert "blend of" in model.summary()
    n_folds = model.estimator.out_of_fold_.n_folds
    assert f"on {len(X)} rows in {n_folds} folds" in " ".join(model.summary().split())
    again = gpukfl.fit(X, Y, progress=False, members=["linear", "laplace"])
    np.testing.assert_array_equal(model.predict(frame), again.predict(X))


@pytest.mark.parametrize(("make", "y"), [(regressor, Y), (classifier, TWO.astype(int))])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tensors_are_taken_and_given(torch, make, y, dtype):
    there = torch.asarray(X.astype(dtype))
    model = make().fit(there, torch.asarray(y))
    found = model.predict(there)
    assert isinstance(found, torch.Tensor)
    expected = make().fit(X, y).predict(X)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-2)
    np.testing.assert_allclose(model.to_host().predict(X.astype(dtype)), found, atol=1e-4)


def test_a_memory_map_is_taken(tmp_path):
    X.tofile(tmp_path / "X")
    rows = np.memmap(tmp_path / "X", dtype=np.float64, mode="r", shape=X.shape)
    np.testing.assert_allclose(
        regressor().fit(rows, Y).predict(X), regressor().fit(X, Y).predict(X)
    )


def test_a_fit_says_the_same_again():
    model = gpukfl.AutoRegressor(effort="quick", random_state=0)
    np.testing.assert_array_equal(model.fit(X, Y).predict(X), clone(model).fit(X, Y).predict(X))
