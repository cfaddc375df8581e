"""A portfolio of more classes than targets are learned by, and what judges it."""

import numpy as np
import pytest

import gpukfl
from gpukfl.portfolio._folds import SquaredError
from gpukfl.portfolio._members import CANDIDATES, NAMES, Task

SIZE, CLASSES = 8, 14


@pytest.fixture(scope="module")
def clusters():
    """Rows around a centre for each class."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(CLASSES), SIZE)
    X = 3.0 * rng.standard_normal((CLASSES, 3))[y] + 0.3 * rng.standard_normal((len(y), 3))
    return X, y


def test_all_classes_are_told_apart(clusters):
    X, y = clusters
    names = np.array([f"class {k}" for k in range(CLASSES)])
    model = gpukfl.fit(X, names[y], method="bkernn", progress=False)
    assert model.score(X, names[y]) >= 0.9
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0, atol=1e-9)


def test_parts_of_predictions_are_mixed_as_these_are(rng):
    judge = SquaredError(rng.random((20, 5)), np.ones(20), np.full(5, 0.5))
    first, second = rng.uniform(0.1, 1.0, (2, 20, 5))
    whole = judge.losses(judge.mix([0.3, 0.7], [first, second]))
    mixed = 0.3 * judge.part(first) + 0.7 * judge.part(second)
    np.testing.assert_allclose(judge.row_losses(mixed), whole, rtol=1e-13)


@pytest.mark.usefixtures("all_steps")
@pytest.mark.parametrize(("classes", "steps"), [(2, 200), (10, 200), (50, 120), (100, 100)])
def test_trees_take_fewer_steps_where_each_is_many(classes, steps):
    task = Task(True, 1_000, 5, classes if classes > 2 else 1, 10, "auto", 0)
    trees = CANDIDATES[NAMES.index("trees")].make(task)
    assert trees.max_iter == steps
