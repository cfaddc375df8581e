"""Kernel ridge regression: where data live, and copies of models."""

import pickle
import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gpukfl
from gpukfl import KernelRidgeRegressor
from gpukfl.kernels import Gaussian
from gpukfl.methods import _centers

pytestmark = pytest.mark.filterwarnings("ignore:the best ridge:UserWarning")

N, D = 70, 3
RNG = np.random.default_rng(17)
X = RNG.uniform(-1, 1, (N, D))
NEW = RNG.uniform(-1.2, 1.2, (40, D))
Y = np.sin(3 * X[:, 0]) + 0.5 * X[:, 1] + 0.05 * RNG.standard_normal(N)
Y = Y - Y.mean()

ELL = 0.8
SOLVERS = {
    "direct": {"solver": "direct"},
    "cg": {"solver": "cg", "n_centers": 30, "tol": 1e-10},
    "falkon": {"solver": "falkon", "n_centers": N, "tol": 1e-10},
    "normal equations": {"solver": "direct", "n_centers": 40},
    "few": {"solver": "falkon", "n_centers": 40, "tol": 1e-10},
}


def regressor(**options):
    defaults = {"lengthscale": ELL, "ridge": 1e-3, "scaling": None, "random_state": 0}
    return KernelRidgeRegressor(**{**defaults, **options})


# ---------------------------------------------------------------------- where data live


@pytest.mark.parametrize(("data", "asked"), [("float64", "float32"), ("float32", "float64")])
def test_dtype_sets_the_precision_inside_and_the_data_outside(data, asked):
    model = regressor(backend=gpukfl.Backend(dtype=asked)).fit(X.astype(data), Y)
    assert model.centers_.dtype == asked
    assert model.dual_coef_.dtype == "float64"  # whatever the rows are in
    assert model.predict(NEW.astype(data)).dtype == data


@pytest.mark.usefixtures("torch")
def test_another_backend_gives_back_the_library_of_the_data():
    model = regressor(backend="torch").fit(X, Y)
    assert model.place_.startswith("torch")
    assert type(model.predict(NEW)) is np.ndarray
    np.testing.assert_allclose(model.predict(NEW), regressor().fit(X, Y).predict(NEW), atol=1e-9)


def test_inputs_are_left_unchanged(on):
    data, targets = on.put(X), on.put(Y)
    regressor(scaling="standard").fit(data, targets).predict(data)
    np.testing.assert_array_equal(on.host(data), on.rounded(X))
    np.testing.assert_array_equal(on.host(targets), on.rounded(Y))


CENTERS = {"n_centers": 30, "solver": "direct"}


@pytest.mark.parametrize("options", [{}, CENTERS, {**CENTERS, "solver": "falkon"}], ids=str)
def test_a_memory_map_is_its_array(tmp_path, options):
    X.astype("float32").tofile(tmp_path / "X.dat")
    on_disk = np.memmap(tmp_path / "X.dat", dtype="float32", mode="r", shape=X.shape)
    model = regressor(scaling="standard", **options).fit(on_disk, Y)
    expected = regressor(scaling="standard", **options).fit(np.array(on_disk), Y)
    assert model.predict(on_disk).dtype == np.float32
    np.testing.assert_array_equal(model.predict(on_disk), expected.predict(np.array(on_disk)))


@pytest.mark.each
@pytest.mark.parametrize("options", [CENTERS, {**CENTERS, "solver": "falkon", "max_iter": 3}])
@pytest.mark.parametrize("selection", ["uniform", "leverage"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_memory_map_is_never_in_memory_at_once(tmp_path, monkeypatch, options, selection):
    monkeypatch.setattr(_centers, "_PILOT", 100)  # whose matrix would be larger than the map
    n, d = 40_000, 64
    path = tmp_path / "X.dat"
    on_disk = np.memmap(path, dtype="float32", mode="w+", shape=(n, d))
    on_disk[:] = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
    on_disk.flush()
    on_disk = np.memmap(path, dtype="float32", mode="r", shape=(n, d))
    y = np.array(on_disk[:, 0], dtype=np.float64)
    model = regressor(lengthscale=8.0, center_selection=selection, ridge=1e-4, **options)
    tracemalloc.start()
    try:
        with gpukfl.memory_budget(2**21):
            model.fit(on_disk, y).predict(on_disk)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < on_disk.nbytes / 2, f"{peak / on_disk.nbytes:.2f} of the map"


# ---------------------------------------------------------------------- copies


@pytest.mark.parametrize("options", SOLVERS.values(), ids=str)
def test_a_random_state_repeats_the_fit(options):
    first, second = regressor(**options).fit(X, Y), regressor(**options).fit(X, Y)
    np.testing.assert_array_equal(first.predict(NEW), second.predict(NEW))
    if options.get("n_centers") == 40:
        other = regressor(**{**options, "random_state": 1}).fit(X, Y)
        assert not np.array_equal(other.centers_, first.centers_)


def test_a_pickle_is_a_numpy_model_with_the_same_predictions(on):
    model = regressor(ridge="auto").fit(on.put(X), on.put(Y))
    expected = on.host(model.predict(on.put(NEW)))
    for twin in (pickle.loads(pickle.dumps(model)), model.to_host()):
        predicted = twin.predict(NEW.astype(on.dtype_name))
        assert type(predicted) is np.ndarray
        np.testing.assert_allclose(predicted, expected, rtol=0, atol=1e4 * on.eps)
        assert twin.ridge_path_.best == model.ridge_


def test_a_clone_has_the_parameters_only():
    model = regressor(kernel=Gaussian(2.0), solver="cg").fit(X, Y)
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert not hasattr(twin, "dual_coef_")


def test_parameters_are_left_as_given():
    given = KernelRidgeRegressor().get_params()
    assert KernelRidgeRegressor(**given).fit(X, Y).get_params() == given


def test_it_can_be_searched_and_piped():
    pipe = make_pipeline(StandardScaler(), regressor())
    grid = {"kernelridgeregressor__ridge": [1e-3, 1e3]}
    search = GridSearchCV(pipe, grid, cv=2).fit(X, Y)
    assert search.best_params_ == {"kernelridgeregressor__ridge": 1e-3}
    Z = StandardScaler().fit(X)
    expected = regressor().fit(Z.transform(X), Y).predict(Z.transform(NEW))
    np.testing.assert_allclose(search.predict(NEW), expected, atol=1e-10)
