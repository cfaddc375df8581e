"""Interactions against formulas, another library's partial dependence, and known signals."""

import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.datasets import make_friedman1
from sklearn.inspection import partial_dependence
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import gpukfl
from gpukfl.inference import interactions
from gpukfl.inference._interactions import ByPrediction, Score, make_dependence, score_p_values
from gpukfl.kernels import Gaussian

PAIRS = 300  # rows to fit, and as many that are held out


def polynomial(degree=2, *, classes=False):
    last = LogisticRegression() if classes else LinearRegression()
    return make_pipeline(PolynomialFeatures(degree, interaction_only=True), last)


def fitted(model, signal, *, d=4, n=PAIRS, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((2 * n, d))
    y = signal(X) + noise * rng.standard_normal(2 * n)
    return model.fit(X[:n], y[:n]), X[n:], y[n:]


def cut(X, rng):
    """Labels of classes by an interaction and a sum."""
    score = 3 * X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * rng.standard_normal(len(X))
    return np.array(["a", "b"])[(score > 0).astype(int)]


# ---------------------------------------------------------------------- partial dependence


def test_averages_are_those_of_another_library():
    model, X, _ = fitted(polynomial(3), lambda X: X[:, 0] * X[:, 1] + X[:, 2], n=60)
    theirs = partial_dependence(model, X, [0, 2], kind="average", method="brute", grid_resolution=5)
    first, second = np.meshgrid(*theirs["grid_values"], indexing="ij")
    rows = np.zeros((first.size, 4))
    rows[:, 0], rows[:, 2] = first.ravel(), second.ravel()
    ours = ByPrediction(rows, X, lambda Z: model.predict(Z)[:, None], np.ones(60))
    np.testing.assert_allclose(ours.evaluate(np.array([0, 2]))[:, 0], theirs["average"].ravel())


MODELS = {
    "kernel ridge": lambda: gpukfl.KernelRidgeRegressor(random_state=0),
    "kernel ridge, l1": lambda: gpukfl.KernelRidgeRegressor(
        "manhattan_laplace", scaling="robust", random_state=0
    ),
    "kernel ridge, sum": lambda: gpukfl.KernelRidgeRegressor(
        Gaussian() + 0.1 * Gaussian(3.0), scaling=None, random_state=0
    ),
    "HKRR": lambda: gpukfl.HKRRRegressor(criterion="evidence", random_state=0),
    "selection": lambda: gpukfl.KernelFeatureSelector(random_state=0),
    "selection, Gaussian": lambda: gpukfl.KernelFeatureSelector("gaussian", random_state=0),
}


@pytest.mark.few
@pytest.mark.parametrize("name", MODELS)
def test_closed_forms_are_averages_of_predictions(name):
    model, X, _ = fitted(
        MODELS[name](), lambda X: 3 * X[:, 0] + X[:, 0] * X[:, 1] + X[:, 2], n=100, noise=0.2
    )

    def values(Z):
        return model.predict(Z)[:, None]

    rows, background = X[:40] / 2, X[40:70] / 2
    closed = make_dependence(model, rows, background, values, np.ones(30))
    assert closed.exact
    by_prediction = ByPrediction(rows, background, values, np.ones(30))
    for columns in ([], [0], [0, 1], [2, 3], [0, 1, 2, 3]):
        some = np.array(columns, dtype=int)
        np.testing.assert_allclose(closed.evaluate(some), by_prediction.evaluate(some), atol=1e-6)


@pytest.mark.few
@pytest.mark.parametrize(
    "model",
    [
        gpukfl.KernelRidgeRegressor("matern52", random_state=0),
        gpukfl.HKRRRegressor(n_components=2, ridge=1e-3, random_state=0),
        gpukfl.KernelRidgeClassifier(random_state=0),
    ],
)
def test_other_models_are_asked(model):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 3))
    y = X[:, 0] * X[:, 1]
    y = (y > 0).astype(int) if hasattr(model, "predict_proba") else y
    found = interactions(model.fit(X[:60], y[:60]), X[60:], n_background=5)
    assert not found.exact


def test_bounded_predictions_are_asked():
    model, X, _ = fitted(MODELS["kernel ridge"](), lambda X: X[:, 0] * X[:, 1], n=60)
    model.bounds_ = np.array([[-0.1], [0.1]])
    assert not interactions(model, X, n_background=5).exact


# ---------------------------------------------------------------------- H


def test_h_of_known_functions():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    model = polynomial(3).fit(X, X[:, 0] * X[:, 1] + X[:, 0] * X[:, 1] * X[:, 2])
    background = X[np.random.RandomState(0).permutation(400)[:50]]
    found = interactions(model, X, n_background=50, max_rows=400)
    rows = X[np.sort(np.random.RandomState(0).permutation(400)[50:])]
    # By hand: averages over the background of products
    b, mean = background, background.mean(axis=0)
    own = np.mean(b[:, 0] * b[:, 1]), np.mean(b[:, 1] * b[:, 2]), np.mean(b[:, 0] * b[:, 2])
    both = rows[:, 0] * rows[:, 1] * (1 + mean[2])
    first, second = rows[:, 0] * (mean[1] + own[1]), rows[:, 1] * (mean[0] + own[2])
    effect, both = (f - f.mean() for f in (both - first - second, both))
    np.testing.assert_allclose(found.h[0], np.sqrt(np.sum(effect**2) / np.sum(both**2)))


def test_sums_have_no_interactions():
    model, X, y = fitted(LinearRegression(), lambda X: X @ np.arange(4.0))
    for order in (2, 3):
        found = interactions(model, X, y, order=order)
        np.testing.assert_array_equal(found.h, 0.0)
        np.testing.assert_array_equal(found.p_values, 1.0)


def test_log_odds_that_add_up_have_none():
    X = np.random.default_rng(0).standard_normal((200, 3))
    y = (X.sum(axis=1) + np.tile([-2, 2], 100) > 0).astype(int)
    model = LogisticRegression().fit(X, y)
    found = interactions(model, X, y, n_permutations=99)
    assert found.h.max() < 1e-6


def test_directions_without_two_features_are_not_evaluated():
    model, X, y = fitted(gpukfl.BKerNNRegressor(random_state=0), lambda X: X[:, 0] + X[:, 1], n=60)
    keep = np.arange(4)[:, None] == np.arange(model.W_.shape[1])[None, :] % 3
    model.W_ = np.where(keep, model.W_, 0.0)  # each particle has one of the first three features
    found = interactions(model, X, y, n_permutations=99)
    np.testing.assert_array_equal(found.h, 0.0)


# ---------------------------------------------------------------------- what is found


@pytest.mark.parametrize("name", ["kernel ridge", "HKRR"])
def test_the_pair_of_friedman_is_found(name):
    X, y = make_friedman1(800, 6, noise=1.0, random_state=0)
    model = MODELS[name]().fit(X[:400], y[:400])
    found = interactions(model, X[400:], y[400:])
    assert found.selected_at(0.05) == ["x0 × x1"]
    assert found.frame()["features"][0] == "x0 × x1"
    assert "15 of 15 pairs of columns were tested" in found.in_words()
    few = interactions(model, X[400:], y[400:], features=["x0", "x1"])
    assert "1 of 15 pairs of columns was tested" in few.in_words()


def test_hierarchy_is_found_among_what_a_selection_kept():
    def signal(X):
        return X[:, 0] + X[:, 0] * X[:, 1] + X[:, 0] * X[:, 1] * X[:, 2]

    model, X, y = fitted(MODELS["selection"](), signal, d=8, n=400)
    kept = set(model.get_feature_names_out())
    pairs = interactions(model, X, y)
    assert set(pairs.features) == kept >= {"x0", "x1", "x2"}
    assert pairs.selected_at(0.05) == ["x0 × x1"]
    triples = interactions(model, X, y, order=3, n_permutations=1999)
    assert triples.selected_at(0.05) == ["x0 × x1 × x2"]


@pytest.mark.filterwarnings("ignore:no variable was selected")
def test_a_selection_of_one_variable_has_no_interactions():
    for signal in (lambda X: 3 * X[:, 0], lambda X: 0 * X[:, 0]):
        model, X, y = fitted(MODELS["selection"](), signal, n=60)
        found = interactions(model, X, y, n_permutations=99)
        assert len(found.sets) == 6
        np.testing.assert_array_equal(found.h, 0.0)
        np.testing.assert_array_equal(found.p_values, 1.0)


def test_a_triple_is_more_than_its_pairs():
    def signal(X):
        return X[:, 0] * X[:, 1] + X[:, 1] * X[:, 2] + X[:, 0] * X[:, 2]

    model, X, y = fitted(polynomial(3), signal, seed=1)
    assert interactions(model, X, y).selected_at(0.02) == ["x0 × x1", "x0 × x2", "x1 × x2"]
    triple = interactions(model, X, y, order=3, n_permutations=1999)
    assert triple.selected_at(0.05) == []


def test_functions_of_two_features_say_nothing_of_three():
    """Those that the model misses may have any shape."""

    def triple(X):
        return 0.3 * X[:, 0] * X[:, 1] * X[:, 2]

    model, X, y = fitted(polynomial(3), triple, d=3)
    pairs = 3 * X[:, 0] ** 2 * X[:, 1] - X[:, 1] ** 2 * X[:, 2] ** 2 + X[:, 0] ** 3 * X[:, 2]
    options = {"order": 3, "n_permutations": 199, "n_background": 20}
    for there, low, high in ((y, 0.0, 0.005), (y - triple(X), 0.2, 1.0)):
        found, shifted = (
            interactions(model, X, Y, **options).p_values for Y in (there, there + pairs)
        )
        np.testing.assert_array_equal(found, shifted)
        assert low <= found[0] <= high


@pytest.mark.parametrize("classes", [False, True])
def test_a_triple_takes_rows(classes):
    model, X, y = fitted(polynomial(3), lambda X: X[:, 0] * X[:, 1] * X[:, 2], d=3, n=170)
    if classes:
        y = (y > 0).astype(int)
        model = polynomial(3, classes=True).fit(X, y)
    few = {"order": 3, "n_background": 23, "n_permutations": 19}
    with pytest.raises(ValueError, match=r"at least 148 rows .* three features, got 147"):
        interactions(model, X, y, **few)
    assert interactions(model, X, **few).h[0] > 0
    assert interactions(model, X, y, **few | {"n_background": 22}).p_values[0] < 1


def test_p_values_are_uniform_however_much_is_taken_out():
    """What 40 functions of 80 rows leave is smaller than the errors; these differ in size."""
    found = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        effect, noise = rng.standard_normal((2, 80, 1))
        noise *= 0.3 + np.abs(effect)
        score = Score.residualize(rng.standard_normal((80, 40)), effect, noise)
        found += score_p_values([score], 99, np.random.RandomState(seed)).tolist()
    assert kstest(found, "uniform").pvalue >= 0.05
    assert np.mean(np.array(found) <= 0.05) <= 0.08


def test_classes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 4))
    y = cut(X, rng)
    model = polynomial(classes=True).fit(X[:250], y[:250])
    assert interactions(model, X[250:], y[250:]).selected_at(0.05) == ["x0 × x1"]


@pytest.mark.slow
def test_p_values_of_classes_are_uniform_where_nothing_interacts():
    """Log-odds that are cut off would look like interactions of features that add up."""
    found = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((450, 3))
        y = cut(X, rng)
        model = polynomial(classes=True).fit(X[:200], y[:200])
        options = {"n_permutations": 99, "n_background": 20, "random_state": seed}
        found.append(interactions(model, X[200:], y[200:], **options).p_values[1])
    assert kstest(found, "uniform").pvalue >= 0.01


def test_several_targets_share_interactions():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 4))
    Y = np.c_[X[:, 0] * X[:, 1], 100 * X[:, 2] * X[:, 3]] + rng.standard_normal((400, 2))
    model = polynomial().fit(X[:200], Y[:200])
    assert interactions(model, X[200:], Y[200:]).selected_at(0.05) == ["x0 × x1", "x2 × x3"]


@pytest.mark.slow
def test_p_values_are_uniform_where_nothing_interacts():
    """The model overfits every pair; errors grow with the features."""
    found = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((160, 2))
        y = X[:, 0] ** 2 + X[:, 1] + (0.3 + np.abs(X[:, 0])) * rng.standard_normal(160)
        model = polynomial().fit(X[:60], y[:60])
        one = interactions(
            model, X[60:], y[60:], n_permutations=199, n_background=20, random_state=seed
        )
        found.append(one.p_values[0])
    assert kstest(found, "uniform").pvalue >= 0.01


# ---------------------------------------------------------------------- doors


def test_features_are_those_asked_for():
    model, X, y = fitted(polynomial(), lambda X: X[:, 0] * X[:, 1], d=5)
    found = interactions(model, X, y, features=["x3", 1, 0], n_permutations=199)
    assert found.features == ("x0", "x1", "x3")
    assert len(found.sets) == 3
    few = interactions(model, X, y, n_features=2, n_permutations=199)
    assert few.sets == (("x0", "x1"),)  # whose shuffling moves most


def test_repeats_and_leaves_data_alone():
    model, X, y = fitted(polynomial(), lambda X: X[:, 0] * X[:, 1])
    X.flags.writeable = y.flags.writeable = False
    first, again = (interactions(model, X, y, n_permutations=99) for _ in range(2))
    np.testing.assert_array_equal(first.p_values, again.p_values)
    np.testing.assert_array_equal(first.h, again.h)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"order": 4}, ValueError, "order"),
        ({"n_features": 1}, ValueError, "n_features"),
        ({"features": ["x9", "x0"]}, ValueError, "name of a feature"),
        ({"features": [0]}, ValueError, "at least 2 features"),
        ({"X": None}, ValueError, "expected X"),
        ({"X": np.zeros((5, 4)), "y": np.arange(5.0)}, ValueError, "at least 8 rows"),
        ({"n_background": 0}, ValueError, "n_background"),
        ({"max_rows": 0}, ValueError, "max_rows"),
    ],
)
def test_bad_input(change, error, words):
    model, X, y = fitted(LinearRegression(), lambda X: X[:, 0], n=30)
    data = {"X": X, "y": y} | change
    with pytest.raises(error, match=words):
        interactions(model, data.pop("X"), data.pop("y"), **data)


# ---------------------------------------------------------------------- weights


def test_rows_without_weight_are_left_out():
    model, X, y = fitted(polynomial(), lambda X: X[:, 0] * X[:, 1])
    weights = np.r_[np.full(200, 3.0), np.zeros(100)]
    found = interactions(model, X, y, n_permutations=99, sample_weight=weights)
    expected = interactions(model, X[:200], y[:200], n_permutations=99)
    np.testing.assert_allclose(found.h, expected.h)
    np.testing.assert_array_equal(found.p_values, expected.p_values)


@pytest.mark.parametrize(
    ("model", "rtol"),
    [(polynomial(), 1e-6), (gpukfl.KernelRidgeRegressor(lengthscale=4.0, ridge=1e-7), 0.02)],
)
def test_weights_are_those_of_averages(model, rtol):
    """Of a product the effect of both features is that of what they are beyond their means."""
    rng = np.random.default_rng(0)
    X, weights = rng.standard_normal((400, 3)), rng.exponential(size=400)
    order = np.random.RandomState(0).permutation(400)
    some, rows = order[:50], np.sort(order[50:])
    model.fit(X, X[:, 0] * X[:, 1])
    found = interactions(model, X, features=[0, 1], max_rows=400, sample_weight=weights)
    middle = np.average(X[some], axis=0, weights=weights[some])
    both, parts = X[rows, 0] * X[rows, 1], X[rows, :2] - middle[:2]
    sizes = [
        np.average((f - np.average(f, weights=weights[rows])) ** 2, weights=weights[rows])
        for f in (parts[:, 0] * parts[:, 1], both)
    ]
    np.testing.assert_allclose(found.h, np.sqrt(sizes[0] / sizes[1]), rtol=rtol)


@pytest.mark.few
@pytest.mark.parametrize("classes", [False, True])
def test_p_values_are_uniform_with_weights(classes):
    """Of noise that goes with their inverses, and with the features beside."""
    found = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        X, weights = rng.standard_normal((160, 2)), rng.exponential(size=160) + 0.1
        y = X[:, 0] ** 2 + X[:, 1] + rng.standard_normal(160) / np.sqrt(weights)
        y = (y > 0.5).astype(int) if classes else y
        model = polynomial(classes=classes).fit(X[:60], y[:60])
        options = {"n_permutations": 99, "n_background": 20, "random_state": seed}
        one = interactions(model, X[60:], y[60:], sample_weight=weights[60:], **options)
        found.append(one.p_values[0])
    assert kstest(found, "uniform").pvalue >= 0.01


def test_without_targets_nothing_is_tested():
    model, X, _ = fitted(polynomial(), lambda X: X[:, 0] * X[:, 1])
    found = interactions(model, X)
    assert found.p_values is None
    assert "may be due to chance" in found.summary()
    assert list(found.frame()) == ["features", "h", "share"]
    with pytest.raises(ValueError, match="pass y"):
        found.selected_at(0.05)


@pytest.mark.parametrize("order", [2, 3])
def test_pictures(order):
    import matplotlib.pyplot as plt

    model, X, y = fitted(polynomial(3), lambda X: X[:, 0] * X[:, 1] * X[:, 2])
    found = interactions(model, X, y, order=order, n_permutations=999)
    _, ax = plt.subplots()
    assert found.plot(ax) is ax
    names = {label.get_text() for label in ax.get_yticklabels()}
    assert ("x0 × x1 × x2" if order == 3 else "x1") in names
    assert "adjusted" in found.summary()
    figure = interactions(model, X, order=order).plot(figsize=(5, 4)).figure
    assert tuple(figure.get_size_inches()) == (5, 4)
