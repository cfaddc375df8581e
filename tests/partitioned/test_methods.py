"""Every method on rows in parts gives what it gives on rows in one place."""

import numpy as np
import pytest
from partitioned.rows import in_parts, whole
from sklearn.linear_model import LinearRegression

import gpukfl
from gpukfl import (
    BKerNNRegressor,
    BrownianKernelRidge,
    HKRRClassifier,
    HKRRRegressor,
    KernelFeatureSelector,
    KernelFeatureSelectorClassifier,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    RegFeaLClassifier,
    RegFeaLRegressor,
    RKHSWeightingClassifier,
    RKHSWeightingRegressor,
)
from gpukfl.core._random import hash_folds
from gpukfl.estimators.bkernn import Knots
from gpukfl.estimators.hkrr import Centers, HoldOut
from gpukfl.estimators.selection._data import SelectionProblem
from gpukfl.instantiations import Stumps
from gpukfl.kernels import Gaussian, Matern32, Matern52
from gpukfl.methods import (
    AverageGradientOuterProduct,
    BoundCriterion,
    HyperKernelObjective,
    MappedProblem,
    NystromSystem,
    Reweighting,
    RidgeSystem,
    fit_bkernn,
    folds,
)
from gpukfl.operators import BinnedBrownianKernel
from gpukfl.partitioned._rows import Rows
from gpukfl.solvers import LBFGS, ProximalGradient

SIZES = [100, 1, 80, 59]
N = sum(SIZES)
# Solves of BKerNN on the way end at a loose tolerance, wherever rounding takes them; steps of HKRR
# make roundings larger, as they do those of the data. Evidence, selection and the Brownian kernel
# are solved densely in one place, and by sums, with a jitter, in parts
ROUNDING = {
    "bkernn": 1e-3,
    "falkon": 1e-7,
    "brownian": 1e-6,
    "hkrr": 1e-4,
    "hkrr, tuned anew": 1e-3,
    "evidence": 1e-5,
    "evidence, a scaling for each term": 1e-5,
    "least squares, ridge chosen": 1e-4,
    "selection": 1e-5,
}


def _weighting(learner, **given):
    settings = {"n_parameters": 40, "instantiation": Stumps(gamma=0.5), "ridge": 1e-4} | given
    return {"learner": learner, **settings}


KERNEL_RIDGE = {"n_centers": 40, "lengthscale": 2.0}
HKRR = {
    "n_components": 2,
    "ridge": 1e-3,
    "n_centers": Centers(30, 60),
    "criterion": HoldOut(n_starts=0),
    "optimizer": LBFGS(max_iter=3),
}
REGRESSORS = {
    "bkernn": (
        BKerNNRegressor,
        {
            "knots": Knots(32),
            "ridge": 1e-3,
            "n_particles": 8,
            "optimizer": ProximalGradient("auto", 4, 1e-9),
        },
    ),
    "kernel ridge": (KernelRidgeRegressor, KERNEL_RIDGE | {"ridge": 1e-4}),
    "kernel ridge, ridge chosen": (KernelRidgeRegressor, KERNEL_RIDGE),
    "leverage": (
        KernelRidgeRegressor,
        KERNEL_RIDGE | {"ridge": 1e-4, "center_selection": "leverage"},
    ),
    "falkon": (
        KernelRidgeRegressor,
        KERNEL_RIDGE | {"ridge": 1e-3, "solver": "falkon", "tol": 1e-12},
    ),
    "brownian": (BrownianKernelRidge, {}),
    "hkrr": (HKRRRegressor, HKRR | {"n_centers": Centers(30, None)}),
    "hkrr, tuned anew": (HKRRRegressor, HKRR),
    "evidence": (HKRRRegressor, {"criterion": "evidence", "optimizer": LBFGS(max_iter=3)}),
    "evidence, a scaling for each term": (
        HKRRRegressor,
        {
            "criterion": "evidence",
            "kernel": Matern52() + 0.2 * Matern32(0.3),
            "scaling": ("standard", "quantile"),
            "optimizer": LBFGS(max_iter=3),
        },
    ),
    "gradients": (
        HKRRRegressor,
        HKRR | {"n_components": "auto", "optimizer": AverageGradientOuterProduct(max_iter=1)},
    ),
    "least squares": (RKHSWeightingRegressor, _weighting("least_squares")),
    "least squares, ridge chosen": (
        RKHSWeightingRegressor,
        _weighting("least_squares", ridge="auto"),
    ),
    "lasso": (RKHSWeightingRegressor, _weighting("lasso")),
    "optimal steps": (RKHSWeightingRegressor, _weighting("optimal_step")),
    "regfeal": (
        RegFeaLRegressor,
        {
            "n_random_features": 60,
            "degrees": 0.3,
            "strength": 1e-3,
            "optimizer": Reweighting(n_iter=3),
            "retrain": None,
        },
    ),
    "selection": (KernelFeatureSelector, {"sparsity": 1e-3}),
}
CLASSIFIERS = {
    "kernel ridge": KernelRidgeClassifier,
    "falkon": KernelRidgeClassifier,
    "hkrr": HKRRClassifier,
    "least squares, ridge chosen": RKHSWeightingClassifier,
    "regfeal": RegFeaLClassifier,
    "selection": KernelFeatureSelectorClassifier,
}
# Well-conditioned, with nothing that ends at a tolerance
TIGHT = {
    "bkernn": {"ridge": 0.1},
    "kernel ridge": {"ridge": 0.1},
    "leverage": {"ridge": 0.1},
    "falkon": {"ridge": 0.1},
    "least squares": {"ridge": 0.1},
    "lasso": {"ridge": 0.1},
    "optimal steps": {},
    "regfeal": {},
}
CASES = ["alone", "weighted", "two targets"]
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=N)
    w = rng.uniform(0.5, 1.5, size=N)
    return X, y, w / w.mean()


def made(name, kind=None):
    own, settings = REGRESSORS[name]
    return (kind or own)(random_state=0, **settings)


def of_case(case, data):
    X, y, w = data
    return (
        X,
        np.stack([y, y**2], axis=1) if case == "two targets" else y,
        (w if case == "weighted" else None),
    )


def given_alike(name, data, case="alone"):
    """Fit to rows in one place and in parts; predictions of both, and the second model."""
    X, y, w = of_case(case, data)
    together = made(name).fit(X, y, sample_weight=w)
    X_parts, y_parts, w_parts = in_parts([X, y, w], SIZES)
    apart = made(name).fit(X_parts, y_parts, sample_weight=w_parts)
    return together.predict(X), apart.predict(X), apart


@pytest.mark.few
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", REGRESSORS)
def test_a_regression_is_that_of_rows_in_one_place(name, case, data):
    if case == "two targets" and name not in ("kernel ridge", "falkon", "hkrr", "least squares"):
        pytest.skip("no other code than with one target")
    expected, found, _ = given_alike(name, data, case)
    assert expected.std() > 0.1
    np.testing.assert_allclose(found, expected, atol=ROUNDING.get(name, 1e-8), rtol=0)


@pytest.mark.few
@pytest.mark.parametrize("name", TIGHT)
def test_tight_solves_differ_by_rounding_alone(name, data, monkeypatch):
    monkeypatch.setitem(fit_bkernn.__kwdefaults__, "rtol", 1e-13)
    monkeypatch.setattr(RidgeSystem, "tight", lambda *_: 1e-13)
    X, y, w = data
    expected = made(name).set_params(**TIGHT[name]).fit(X, y, sample_weight=w).predict(X)
    parts = in_parts([X, y, w], SIZES)
    found = made(name).set_params(**TIGHT[name]).fit(*parts).predict(X)
    np.testing.assert_allclose(found, expected, atol=1e-10, rtol=0)


@pytest.mark.few
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classification_is_that_of_rows_in_one_place(name, data):
    X, y, w = data
    labels = np.array(["low", "mid", "high"])[(y > -0.5).astype(int) + (y > 0.7)]
    together = made(name, CLASSIFIERS[name]).fit(X, labels, sample_weight=w)
    apart = made(name, CLASSIFIERS[name]).fit(*in_parts([X, labels, w], SIZES))
    expected, found = together.predict_proba(X), apart.predict_proba(X)
    assert apart.classes_.tolist() == ["high", "low", "mid"]
    np.testing.assert_allclose(found, expected, atol=2 * ROUNDING.get(name, 1e-6), rtol=0)


@pytest.mark.few
@pytest.mark.parametrize("name", ["bkernn", "falkon", "hkrr", "evidence", "lasso", "regfeal"])
def test_the_same_bits_whoever_holds_the_parts(name, data):
    X, y, w = data
    found = [
        made(name).fit(*in_parts([X, y, w], SIZES, n_holders=count)).predict(X) for count in (1, 3)
    ]
    np.testing.assert_array_equal(*found)


@pytest.mark.few
@pytest.mark.parametrize("name", ["kernel ridge", "falkon", "hkrr", "least squares", "regfeal"])
def test_single_precision_stays_what_it_is(name, data):
    narrow = [x.astype(np.float32) for x in data]
    expected, found, model = given_alike(name, narrow)
    assert found.dtype == model.intercept_.dtype or name == "least squares"
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=5e-3, rtol=0)


# ---------------------------------------------------------------------- passes


def passes_of(name, data, **settings):
    X, y = in_parts(data[:2], SIZES)
    made(name).set_params(**settings).fit(X, y)
    return X.partitioning.n_passes


def test_an_iteration_of_falkon_is_a_pass(data):
    few, many = (passes_of("falkon", data, max_iter=k, tol=1e-15) for k in (3, 7))
    assert many - few == 4


def test_a_ridge_regression_of_regfeal_is_a_pass(data):
    few, many = (passes_of("regfeal", data, optimizer=Reweighting(n_iter=k)) for k in (2, 5))
    assert many - few == 3


@pytest.mark.parametrize("weighted", [False, True])
def test_an_iteration_of_a_brownian_solve_is_a_pass(weighted, data):
    X, y, w = data
    X, y, s = in_parts([X, y[:, None], np.sqrt(w)[:, None] if weighted else None], SIZES)
    rows = Rows(X, np.empty(0))
    kernel = BinnedBrownianKernel.build(rows, np.eye(4)[:, :3], n_knots=32)
    passes = []
    for count in (5, 11):
        system = RidgeSystem(y, 1e-3, s, max_iter=count)
        before = X.partitioning.n_passes
        solution = system.solve(kernel, rtol=1e-3 if count == 5 else 1.1e-4)
        assert solution.n_iter == count, solution
        passes.append(X.partitioning.n_passes - before)
    assert passes[1] - passes[0] == 6


@pytest.mark.parametrize("fits", [True, False])
def test_kernel_values_stay_with_the_rows_where_all_of_them_fit(fits, data, monkeypatch):
    evaluate, seen, centers = Gaussian._evaluate, [], KERNEL_RIDGE["n_centers"]

    def noted(self, A, B):
        seen.append(len(A))
        return evaluate(self, A, B)

    monkeypatch.setattr(Gaussian, "_evaluate", noted)
    with gpukfl.memory_budget(4 * 8 * N * centers - (not fits)):
        model = made("falkon").fit(*in_parts(data[:2], SIZES))
    rows = sum(seen) - centers  # once the centres among each other
    passes = 1 + model.n_iter_  # the right-hand side, and a product an iteration
    assert passes > 3
    assert rows == N if fits else rows >= passes * N


def test_long_solves_without_an_own_preconditioner_stay_plain(data, monkeypatch):
    monkeypatch.setattr("gpukfl.methods._ridge._LONG", 2)
    monkeypatch.setattr("gpukfl.methods._ridge._SKETCH_SHARE", 0)
    monkeypatch.setattr(BinnedBrownianKernel, "approximate_inverse", lambda *_: None)
    expected, found, _ = given_alike("bkernn", data)
    np.testing.assert_allclose(found, expected, atol=ROUNDING["bkernn"])


def test_samples_of_bkernn_that_come_here_are_small(data, monkeypatch):
    monkeypatch.setattr("gpukfl.estimators.bkernn._fit._MOST_MOVED", 30)
    monkeypatch.setattr("gpukfl.estimators.bkernn._fit._COLD_FROM", 100)
    monkeypatch.setattr("gpukfl.estimators.bkernn._fit._SAMPLE_FROM", 100)
    X, y = in_parts(data[:2], SIZES)
    brought, gather = [], X.partitioning.gather_together

    def noted(values, index):
        brought.append(len(index))
        return gather(values, index)

    monkeypatch.setattr(X.partitioning, "gather_together", noted)
    made("bkernn").fit(X, y)
    assert max(brought[2:]) <= 30  # the first two are samples that scaling looks at


def test_selection_brings_few_rows_here_and_has_few_centres(data, monkeypatch):
    monkeypatch.setattr("gpukfl.estimators.selection._fit._MOST_MOVED_ROWS", 30)
    monkeypatch.setattr("gpukfl.estimators.selection._fit._LEAST_ROWS", 10)
    monkeypatch.setattr("gpukfl.estimators.selection._data._CENTERS_IN_PARTS", 20)
    seen, gram = [], NystromSystem.from_rows

    def noted(operator, *args):
        seen.append((operator.Z.shape[0], operator.rows.shape[0]))
        return gram(operator, *args)

    monkeypatch.setattr(NystromSystem, "from_rows", noted)
    selected, run = [], SelectionProblem.run
    monkeypatch.setattr(
        SelectionProblem, "run", lambda self, *a, **k: selected.append(self.n) or run(self, *a, **k)
    )
    made("selection").fit(*in_parts(data[:2], SIZES))
    assert selected[-1] == 30
    assert (20, N) in seen
    assert max(q for q, n in seen if n == N) == 20
    selected.clear()
    made("selection").fit(*data[:2])
    assert selected[-1] == N


@pytest.mark.parametrize("name", ["leverage", "least squares, ridge chosen", "regfeal"])
def test_of_many_rows_only_a_sample_is_brought_here(name, monkeypatch):
    n = 42_000
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    X_parts, y_parts = in_parts([X, X[:, 0] + 0.1 * rng.normal(size=n)], [n // 3] * 3)
    brought, gather = [], X_parts.partitioning.gather_together

    def noted(values, index):
        brought.extend(len(index) for x in values if x.ndim > 1)
        return gather(values, index)

    monkeypatch.setattr(X_parts.partitioning, "gather_together", noted)
    made(name).fit(X_parts, y_parts)
    assert 0 < max(brought) <= 20_000


# ---------------------------------------------------------------------- objectives


@pytest.fixture
def problem(data):
    X, y, w = data
    parts = in_parts([X, y[:, None], w[:, None]], SIZES)
    there = [Rows(parts[0], np.empty(0)), parts[1], parts[2]]
    return [Rows(X, np.empty(0)), y[:, None], w[:, None]], there, X[:20]


B = np.array([[2.0, 0.4, 0.0, 0.8], [0.4, -1.6, 1.2, 0.0]])  # at which centres are far apart


def test_the_objective_of_hkrr_and_its_slopes(problem):
    *places, Z = problem
    alpha = np.linspace(-1, 1, 20)[:, None]
    found = []
    for rows, Y, w in places:
        objective = HyperKernelObjective(Gaussian(), rows, Z, Y, ridge=1e-3, weights=w)
        found.append((*objective.reduce(B), objective.gradient_alpha(B, alpha)))
    for expected, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-10)


def test_the_bound_on_the_evidence_and_its_slopes(problem):
    *places, Z = problem
    found = []
    for rows, Y, w in places:
        slopes = BoundCriterion(Gaussian(), rows, Z, Y, weights=w)(B, 0.1)
        found.append((slopes.value, slopes.metric, slopes.log_ratio))
    for expected, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-8)


def test_maps_of_average_gradients(problem):
    (rows, Y, w), (rows_there, Y_there, w_there), Z = problem
    sample = rows.whole()[:50], None
    one = MappedProblem(Gaussian(), rows, Y, w, [1e-3, 1e-2], sample, Z).fit(B)
    other = MappedProblem(Gaussian(), rows_there, Y_there, w_there, [1e-3, 1e-2], sample, Z).fit(B)
    found = [each.gradients(1e-2, 0.1) for each in (one, other)]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(whole(other.left_out()), one.left_out(), rtol=1e-6)


# ---------------------------------------------------------------------- bad input


def test_all_pairs_of_rows_in_parts_are_an_error(data):
    X, y = in_parts(data[:2], SIZES)
    with pytest.raises(ValueError, match="expected solver 'auto', 'direct' or 'falkon' for part"):
        KernelRidgeRegressor(solver="cg", n_centers=10).fit(X, y)


def test_what_takes_all_rows_in_one_place_cannot_be_retrained(data):
    X, y = in_parts(data[:2], SIZES)
    with pytest.raises(ValueError, match="for partitioned data, got LinearRegression"):
        RegFeaLRegressor(retrain=LinearRegression()).fit(X, y)


# ---------------------------------------------------------------------- draws


def test_numbers_are_scattered_the_same_in_any_pieces():
    every = hash_folds(0, 10_000, 5, 7)
    pieces = [hash_folds(a, b, 5, 7) for a, b in ((0, 17), (17, 9_000), (9_000, 10_000))]
    np.testing.assert_array_equal(np.concatenate(pieces), every)
    assert np.all(np.abs(np.bincount(every, minlength=5) - 2_000) < 200)
    assert np.mean(every == hash_folds(0, 10_000, 5, 8)) < 0.25
    assert abs(np.corrcoef(every[1:], every[:-1])[0, 1]) < 0.05


def test_of_many_rows_few_are_held_out_once():
    (out,) = folds(150_000, np.random.RandomState(0))
    assert len(np.unique(out)) == len(out) == 20_000
    assert out.max() < 150_000
