"""Rows divided among GPUs: the same bits as on one, and what is said where they are missing."""

import numpy as np
import pytest

import gpukfl
from gpukfl import BKerNNClassifier, BKerNNRegressor, KernelRidgeRegressor
from gpukfl.core._cuda import cuda_devices
from gpukfl.core._places import cupy_is_usable
from gpukfl.estimators.bkernn import Knots
from gpukfl.solvers import ProximalGradient

pytestmark = pytest.mark.filterwarnings("ignore:BKerNN:sklearn.exceptions.ConvergenceWarning")
two_gpus = pytest.mark.skipif(
    not (cupy_is_usable() and cuda_devices() >= 2), reason="needs two GPUs, or the stand-in's"
)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_500, 3))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2]


def model(kind, devices):
    if kind is KernelRidgeRegressor:
        given = {"n_centers": 40, "ridge": 1e-4, "lengthscale": 1.0, "solver": "direct"}
    else:
        optimizer = ProximalGradient("auto", 2, 1e-9)
        given = {"n_particles": 4, "knots": Knots(32), "ridge": 1e-3, "optimizer": optimizer}
    backend = gpukfl.Backend("cupy", devices=devices)
    return kind(random_state=0, backend=backend, **given)


@two_gpus
@pytest.mark.parametrize("kind", [BKerNNRegressor, BKerNNClassifier, KernelRidgeRegressor])
def test_two_gpus_give_the_bits_of_one_on_cupy(kind, data):
    X, y = data
    y = np.where(y > 0, "high", "low") if kind is BKerNNClassifier else y
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    one, two = (model(kind, count).fit(X, y, sample_weight=weights) for count in (1, 2))
    np.testing.assert_array_equal(one.predict(X[:50]), two.predict(X[:50]))
    assert isinstance(two.predict(X[:50]), np.ndarray)
    assert two.place_.startswith("cupy")


@two_gpus
def test_they_agree_with_the_host_on_cupy(data):
    X, y = data
    found = model(KernelRidgeRegressor, 2).fit(X, y).predict(X[:50])
    here = model(KernelRidgeRegressor, 1).set_params(backend="numpy").fit(X, y).predict(X[:50])
    np.testing.assert_allclose(found, here, atol=1e-7)


def test_missing_gpus_are_an_error(data):
    with pytest.raises(RuntimeError, match=r"CUDA devices|needs CuPy|needs a GPU"):
        model(BKerNNRegressor, 64).fit(*data)


@pytest.mark.parametrize("bad", [{"name": "numpy", "devices": 2}, {"name": "cupy", "devices": 0}])
def test_bad_values_are_said(bad):
    with pytest.raises(ValueError, match="devices"):
        gpukfl.Backend(**bad)
