"""Copies of a row: found on every place, one sample in every fit; weights count by their ratios."""

import functools

import numpy as np
import pytest
from brief import bkernn, hkrr, regfeal
from sklearn.base import clone, is_classifier

import gpukfl
from gpukfl.estimators._samples import Samples, Splits, find_duplicates
from gpukfl.methods import folds

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

N, D = 60, 3
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, D))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(N)
LABELS = np.where(Y > 0.3, "high", np.where(Y < -0.8, "low", "middle"))
NEW = RNG.standard_normal((400, D))
# ---------------------------------------------------------------------- found


def brute_force(A, y):
    """Numbers of the first of each row's copies, by comparing all pairs."""
    firsts = []
    for i in range(len(A)):
        equal = [j for j in range(len(A)) if np.array_equal(A[i], A[j])]
        pure = all(np.array_equal(y[i], y[j]) for j in equal)
        firsts.append(equal[0] if pure else i)
    return np.unique(firsts), firsts


@pytest.mark.entered
@pytest.mark.parametrize("seed", range(5))
def test_copies_are_those_of_all_pairs(on, seed):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 2, (40, 4)) * rng.choice([1.0, 1e30, 0.1], 4)
    table[:, 0] = np.arange(40)
    A = table[rng.integers(0, 40, 80)]
    y = A @ [1.0, 2.0, 3.0, 4.0]
    y[rng.random(80) < 0.1] += 1.0  # measured again, with another result
    firsts, group = find_duplicates(on.put(A), y)
    expected, first_of = brute_force(on.rounded(A), y)
    np.testing.assert_array_equal(firsts, expected)
    np.testing.assert_array_equal(firsts[group], first_of)


@pytest.mark.parametrize("y", [Y, np.stack([Y, -Y], axis=1), LABELS, LABELS.astype(object)])
def test_targets_of_every_kind_are_compared(y):
    order = np.concatenate([np.arange(N), np.arange(N)])
    firsts, group = find_duplicates(X[order], y[order])
    np.testing.assert_array_equal(firsts, np.arange(N))
    np.testing.assert_array_equal(group, order)
    other = y[order].copy()
    other[N:] = np.roll(y, 1, axis=0)
    kept, _ = find_duplicates(X[order], other) or (np.arange(2 * N), None)
    assert set(range(N)) <= set(kept.tolist())
    assert len(kept) == 2 * N - int(np.sum(np.all(np.atleast_2d((other[N:] == y).T), axis=0)))


@pytest.mark.parametrize(
    ("A", "copies"),
    [
        (np.array([[0.0, 1.0], [-0.0, 1.0]]), True),
        (np.array([[2, 1], [2, 1]]), True),
        (np.array([[1e308, 1e308], [1e308, -1e308]]), False),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), False),
        (np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-52]]), False),
        (np.array([[3.0, 1.0]]), False),
    ],
    ids=["signed zeros", "integers", "huge", "permuted", "last bit", "one row"],
)
def test_rows_are_copies_only_if_every_value_is_equal(A, copies):
    others = np.stack([np.arange(30) + 5, np.arange(30)], axis=1).astype(A.dtype)
    A = np.concatenate([others, A])
    assert (find_duplicates(A, np.zeros(len(A))) is not None) is copies


@pytest.mark.parametrize(
    ("values", "times", "merged"), [(20, 5, False), (20, 4, True), (21, 5, True), (2, 50, False)]
)
def test_rows_of_few_values_are_cells_of_a_table(values, times, merged):
    """Equal by chance: new rows will repeat them too, and one of them tells of the others."""
    A = np.stack([np.arange(values), np.arange(values) % 3], axis=1).astype(np.float64)
    found = find_duplicates(np.tile(A, (times, 1)), np.tile(A[:, 0], times))
    assert (found is not None) is merged


def test_memory_maps_are_left_as_they_are_but_not_what_is_held_out_of_them(tmp_path):
    twice = np.memmap(tmp_path / "X", dtype=np.float64, mode="w+", shape=(2 * N, D))
    twice[:] = np.repeat(X, 2, axis=0)
    y = np.repeat(Y, 2)[:, None]
    assert find_duplicates(twice, y) is None
    samples, rng = Samples.validate(twice, y, None, labels=False), np.random.RandomState(0)
    for inside, outside in samples.splits(rng, Splits(at_most=80)):
        rows = np.concatenate([inside.X, outside.X])
        assert len(np.unique(rows, axis=0)) == len(rows) > 20


@pytest.mark.parametrize(("n", "parts"), [(2, 2), (7, 5), (999, 5), (1000, 1)])
def test_folds_hold_out_every_row_once_or_a_fifth(n, parts):
    found = folds(n, np.random.RandomState(0))
    assert len(found) == parts
    out = np.concatenate(found)
    assert out.min() >= 0
    assert out.max() < n
    assert len(np.unique(out)) == len(out) == (n if parts > 1 else n // 5)


def test_effective_number_is_that_of_equal_weights():
    def number(weights):
        return Samples(X[:3], Y[:3, None], weights).n_effective

    assert number(None) == 3.0
    assert number(np.full(3, 1e-300)) == pytest.approx(3.0)
    assert number(np.array([1e200, 1e200, 1e-200])) == pytest.approx(2.0)


@pytest.mark.parametrize(("n", "count"), [(200, 5), (2000, 1)])
@pytest.mark.parametrize("columns", [1, 3])
def test_every_class_has_its_share_of_what_is_held_out(n, count, columns):
    codes = np.arange(n) % 20 // 19 if columns == 1 else np.arange(n) % 20 // 9
    indicators = (codes[:, None] == np.arange(columns) + (columns == 1)).astype(float)
    A = np.stack([np.arange(n), codes], axis=1).astype(float)
    samples = Samples.validate(A, indicators, None, labels=True)
    np.testing.assert_array_equal(samples.classes, codes)
    splits = samples.splits(np.random.RandomState(0), Splits(at_most=n))
    assert len(splits) == count
    for inside, outside in splits:
        assert not set(inside.X[:, 0]) & set(outside.X[:, 0])
        for code in np.unique(codes):
            expected = np.mean(codes == code) * len(outside)
            assert abs(np.sum(outside.X[:, 1] == code) - expected) <= 1


def test_a_class_of_few_rows_is_no_reason_to_refuse():
    rare = np.zeros((60, 1))
    rare[:2] = 1.0
    samples = Samples.validate(np.arange(60.0)[:, None], rare, None, labels=True)
    assert len(samples.splits(np.random.RandomState(0), Splits(at_most=1000))) == 5


# ---------------------------------------------------------------------- one sample in every fit

FAST = {"random_state": 0}
ESTIMATORS = [
    gpukfl.BKerNNRegressor(8, **bkernn(max_iter=5, **FAST)),
    gpukfl.BKerNNClassifier(8, **bkernn(max_iter=5, **FAST)),
    gpukfl.BKerNNRegressor(8, **bkernn(max_iter=5, early_stopping=True, **FAST)),
    gpukfl.BrownianKernelRidge(**FAST),
    gpukfl.KernelRidgeRegressor(**FAST),
    gpukfl.KernelRidgeClassifier(**FAST),
    gpukfl.KernelRidgeRegressor(n_centers=20, **FAST),
    gpukfl.HKRRRegressor(**hkrr(n_starts=1, max_iter=2, **FAST)),
    gpukfl.HKRRClassifier(**hkrr(n_starts=1, max_iter=2, **FAST)),
    gpukfl.KernelFeatureSelector(ridge="auto", sparsity=0.05, **FAST),
    gpukfl.KernelFeatureSelectorClassifier(sparsity=0.05, **FAST),
    gpukfl.RKHSWeightingRegressor(30, **FAST),
    gpukfl.RKHSWeightingClassifier(30, **FAST),
    gpukfl.RKHSWeightingRegressor(30, learner="optimal_step", **FAST),
    gpukfl.RegFeaLRegressor(30, **regfeal(n_iter=2, max_degree=3, **FAST)),
    gpukfl.RegFeaLClassifier(30, **regfeal(n_iter=2, max_degree=3, **FAST)),
]


def name_of(estimator):
    options = ("learner", "n_centers", "early_stopping")
    given = [f"{k}={v}" for k, v in estimator.get_params().items() if k in options]
    return (
        f"{type(estimator).__name__}-{'-'.join(given)}-{getattr(estimator, 'early_stopping', '')}"
    )


every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=name_of)


def fitted(estimator, A, y, weights=None):
    return clone(estimator).fit(A, y, sample_weight=weights)


def targets(estimator):
    return LABELS if is_classifier(estimator) else Y


def predicted(model):
    return model.predict_proba(NEW) if is_classifier(model) else model.predict(NEW)


@pytest.mark.filterwarnings("ignore:the best ridge:UserWarning")
@pytest.mark.parametrize("estimator", ESTIMATORS[::3], ids=name_of)
def test_equal_weights_are_none(estimator):
    y = targets(estimator)
    expected = predicted(fitted(estimator, X, y))
    np.testing.assert_array_equal(predicted(fitted(estimator, X, y, np.full(N, 1e6))), expected)


def test_one_number_is_the_weight_of_all_rows():
    model = gpukfl.KernelRidgeRegressor(**FAST)
    expected = predicted(fitted(model, X, Y))
    np.testing.assert_array_equal(predicted(fitted(model, X, Y, 7.0)), expected)


@pytest.mark.few
@pytest.mark.filterwarnings("ignore:the best ridge:UserWarning")
@every_estimator
def test_copies_are_a_weight_and_a_factor_of_all_weights_is_none(estimator):
    """With every setting chosen."""
    y, counts = targets(estimator), np.random.default_rng(1).integers(1, 4, N)
    expected = predicted(fitted(estimator, X, y, counts))
    repeated = fitted(estimator, np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(predicted(repeated), expected, atol=1e-9)
    light = predicted(fitted(estimator, X, y, 1e-6 * counts))
    np.testing.assert_allclose(light, expected, atol=1e-5 * np.abs(expected).max())


SMALL = {
    "bkernn": bkernn(n_particles=8, max_iter=3),
    "hkrr": hkrr(n_starts=1, max_iter=3),
    "selection": {},
    "rkhs_weighting": {"n_parameters": 30},
    "regfeal": regfeal(**{"n_random_features": 60, "n_iter": 2}),
}


@pytest.mark.few
@pytest.mark.parametrize("method", SMALL)
@pytest.mark.parametrize("library", ["numpy", "pandas"])
def test_a_table_given_twice_is_the_table(method, library):
    A = X
    if library == "pandas":
        pd = pytest.importorskip("pandas")
        A, y = pd.DataFrame(X, columns=list("abc")), pd.Series(Y, name="target")
        twice, targets = pd.concat([A, A]), pd.concat([y, y])
    else:
        twice, targets = np.concatenate([X, X]), np.concatenate([Y, Y])
    assert_are_one_model(fit(method, twice, targets), of_the_table(method), A, X)


@pytest.mark.parametrize("method", SMALL)
def test_a_tensor_given_twice_is_the_tensor(torch, method):
    A, y = torch.asarray(X), torch.asarray(Y)
    twice, targets = torch.concat([A, A]), torch.concat([y, y])
    assert_are_one_model(fit(method, twice, targets), fit(method, A, y), A, A)


@pytest.mark.few
@pytest.mark.filterwarnings("ignore:the best ridge.*at the edge of those tried")
@pytest.mark.parametrize("method", SMALL)
def test_a_table_of_few_cells_is_fitted(method):
    cells = np.random.default_rng(0).integers(0, 2, (120, 3)).astype(np.float64)
    y = cells[:, 0].astype(int)
    model = gpukfl.fit(cells[:, :1], y, method=method, **SMALL[method])
    assert model.score(cells[:, :1], y) == 1.0
    if method != "selection":  # finds what matters by itself first
        parity = cells.sum(axis=1).astype(int) % 2
        model = gpukfl.fit(cells, parity, method=method, **SMALL[method])
        assert model.score(cells, parity) > 0.9


def fit(method, A, y):
    return gpukfl.fit(A, y, method=method, **SMALL[method])


@functools.cache
def of_the_table(method):
    """Of the rows once, without names."""
    return fit(method, X, Y)


def assert_are_one_model(both, once, A, same):
    assert both.n_samples == once.n_samples == N
    np.testing.assert_array_equal(np.asarray(both.predict(A)), np.asarray(once.predict(same)))
