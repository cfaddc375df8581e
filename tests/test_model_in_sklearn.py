"""scikit-learn's tools take a model of `gpukfl.fit` as they take an estimator."""

import warnings

import numpy as np
import pandas as pd
import pytest
from brief import bkernn, hkrr, regfeal
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.inspection import PartialDependenceDisplay, partial_dependence, permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.utils.validation import check_is_fitted

import gpukfl
from gpukfl.estimators.selection import Permutations

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the best ridge :UserWarning"),
]
N = 120
RNG = np.random.default_rng(3)
X = RNG.uniform(-1.0, 1.0, (N, 3))
FRAME = pd.DataFrame(X, columns=["width", "height", "age"])
Y = pd.Series(np.abs(X[:, 0]) + 0.2 * X[:, 1], name="price")
TEXT = np.array(["low", "mid", "high"])[np.searchsorted([-0.4, 0.4], X[:, 0])]
SMALL = bkernn(n_particles=10, max_iter=5, ridge="auto")


@pytest.fixture(scope="module", params=["regression", "classification"])
def task(request):
    return request.param


@pytest.fixture(scope="module")
def y(task):
    return Y if task == "regression" else TEXT


@pytest.fixture(scope="module")
def model(y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gpukfl.fit(FRAME, y, method="bkernn", **SMALL)


def test_it_is_known_as_what_it_is(model, task):
    check_is_fitted(model)
    assert (is_regressor(model), is_classifier(model)) == (
        task == "regression",
        task == "classification",
    )
    assert model.n_features_in_ == 3
    assert model.feature_names_in_.tolist() == ["width", "height", "age"]
    assert hasattr(model, "classes_") == (task == "classification")
    if task == "classification":
        assert model.classes_.tolist() == ["high", "low", "mid"]


def test_without_names_it_has_none(y):
    assert not hasattr(gpukfl.fit(X, y, method="bkernn", **SMALL), "feature_names_in_")


def test_permutation_importance(model, y):
    found = permutation_importance(model, FRAME, y, n_repeats=3, random_state=0)
    assert np.argmax(found.importances_mean) == 0
    assert found.importances_mean[0] > 0.2


def test_partial_dependence(model, task):
    options = {"target": "high"} if task == "classification" else {}
    found = partial_dependence(model, FRAME, ["width"], grid_resolution=5, kind="average")
    assert found["average"].shape == (3 if task == "classification" else 1, 5)
    pytest.importorskip("matplotlib")
    drawn = PartialDependenceDisplay.from_estimator(
        model, FRAME, ["width", ("width", "height")], grid_resolution=5, **options
    )
    drawn.figure_.draw_without_rendering()


def test_cross_validation_fits_everything_anew(model, y, task):
    before = model.summary()
    scores = cross_val_score(model, FRAME, y, cv=3)
    assert scores.min() > 0.5
    assert model.summary() == before
    alone = clone(model.estimator)
    np.testing.assert_allclose(scores, cross_val_score(alone, FRAME, y, cv=3))
    scoring = "neg_log_loss" if task == "classification" else "neg_mean_absolute_error"
    assert np.isfinite(cross_val_score(model, FRAME, y, cv=3, scoring=scoring)).all()
    assert cross_val_predict(model, FRAME, y, cv=3).shape == (N,)


def test_cross_validation_tunes_in_every_fold():
    model = gpukfl.fit(FRAME, Y, method="bkernn", **{**SMALL, **bkernn(ridge="tune", max_iter=2)})
    again = clone(model).fit(FRAME[:80], Y[:80])
    assert len(again.tuning) > 1
    assert again.n_samples == 80
    twin = gpukfl.fit(
        FRAME[:80], Y[:80], method="bkernn", **{**SMALL, **bkernn(ridge="tune", max_iter=2)}
    )
    np.testing.assert_array_equal(again.predict(FRAME), twin.predict(FRAME))
    assert [trial["score"] for trial in again.tuning] == [t["score"] for t in twin.tuning]


def test_a_clone_is_not_fitted_and_fits_alike(model, y):
    copy = clone(model)
    assert repr(copy) == f"Model(bkernn, {model.task}, not fitted)"
    with pytest.raises(NotFittedError):
        check_is_fitted(copy)
    for use in (lambda: copy.predict(FRAME), copy.summary, copy.plot):
        with pytest.raises(NotFittedError):
            use()
    assert copy.fit(FRAME, y) is copy
    np.testing.assert_array_equal(copy.predict(FRAME), model.predict(FRAME))
    first = [line.split(" s with")[0] for line in copy.summary().splitlines()]
    assert first[:3] == model.summary().splitlines()[:3]
    copy.fit(X, y)
    assert copy.feature_names == ["x0", "x1", "x2"]


def test_parameters_are_those_of_the_estimator(model, y):
    assert model.get_params() == {**model.estimator.get_params(), "max_time": None}
    copy = clone(model).set_params(n_particles=4, max_time=30.0)
    assert copy.max_time == clone(copy).max_time == 30.0
    assert copy.fit(FRAME, y).estimator.W_.shape == (3, 4)
    assert copy.estimator.max_time is None
    assert model.estimator.n_particles == 10
    with pytest.raises(ValueError, match="Invalid parameter 'wrong'"):
        copy.set_params(wrong=1)


def test_a_time_limit_holds_for_every_fit_again():
    model = gpukfl.fit(FRAME, Y, method="bkernn", max_time=40.0, **SMALL)
    assert model.max_time == clone(model).max_time == 40.0


def test_a_grid_search_chooses_among_parameters(model, y):
    search = GridSearchCV(model, {"n_particles": [2, 10]}, cv=3).fit(FRAME, y)
    assert search.best_params_["n_particles"] in (2, 10)
    assert search.predict(FRAME).shape == (N,)


def test_a_fit_that_fails_leaves_the_model(model, y):
    before = model.predict(FRAME)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(FRAME, y[:5])
    np.testing.assert_array_equal(model.predict(FRAME), before)


@pytest.mark.few
@pytest.mark.parametrize("method", ["hkrr", "selection", "rkhs_weighting", "regfeal"])
def test_every_method_is_cross_validated(method):
    options = {
        "hkrr": hkrr(n_components=1, n_starts=1, max_iter=3, ridge=1e-3),
        "selection": {"sparsity": Permutations(3), "ridge": 1e-2},
        "rkhs_weighting": {"n_parameters": 30, "ridge": 1e-3},
        "regfeal": regfeal(
            **{"n_random_features": 40, "n_iter": 2, "max_degree": 3, "strength": 0.1}
        ),
    }
    model = gpukfl.fit(FRAME, Y, method=method, **options[method])
    scores = cross_val_score(model, FRAME, Y, cv=3)
    np.testing.assert_allclose(scores, cross_val_score(model.estimator, FRAME, Y, cv=3))
